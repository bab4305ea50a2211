// Command claims tests the tests: it makes each promise of docs/claims.yaml false by a small change of the code, and checks
// that the promise's own tests then fail.
//
//	go run ./claims                   # plays all mutations
//	go run ./claims -only 'cut|drain' # those of some claims
//	go run ./claims -write            # writes docs/promises.md from the list
//	go run ./claims -mutants 200      # draws changes of the code instead, and reports which of them the tests catch
//
// A mutation names a function and an expression in it. The changed file takes the original's place by `go build -overlay`, so the
// tree stays as it is, and a function that moves to another package takes its mutations along.
package main

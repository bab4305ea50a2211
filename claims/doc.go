// Command claims tests the tests: it makes each promise of docs/claims.yaml false by a small change of the code, and checks
// that the promise's own tests then fail.
//
//	go run ./claims                   # plays all mutations
//	go run ./claims -only 'cut|drain' # those of some claims
//	go run ./claims -write            # writes docs/promises.md from the list
//	go run ./claims -mutants 200      # draws changes of the code instead, and reports which of them the tests catch
//
// A mutation names a function and an expression in it. All changed functions stand beside their originals in one compilation, by
// `go test -c -overlay`, and an environment variable chooses one of them: so a mutation costs the time of its test only, the tree
// stays as it is, and a function that moves to another package takes its mutations along. The commands have the overlay in GOFLAGS,
// so that programs that they build have the mutations too; a test that starts one in an environment of its own passes
// ISOGLOSS_MUTANT on.
//
// Each command runs without a mutation first: one that fails there catches nothing. TestMutationsApply checks that each mutation
// finds its place and compiles.
package main

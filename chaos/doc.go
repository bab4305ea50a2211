// Chaos tests the reliability of the built gateway: it starts the binary, puts an
// upstream behind it that fails in every known way, and judges what clients receive.
//
// It imports nothing of the gateway. Package testrig decides what is a complete
// answer, an error and a truncated answer in each dialect.
//
//	chaos --bin bin/isogloss            everything, about twenty minutes
//	chaos --bin bin/isogloss --short    what fits into three minutes
//	chaos --bin bin/isogloss --only 'board/.*/anthropic→'
//	chaos --bin bin/isogloss --soak 30m only the soak
//
// The last line of every run is "N passed, M failed".
package main

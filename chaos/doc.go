// Chaos tests the reliability of the built gateway: it starts the binary, puts an
// upstream behind it that fails in every known way, and judges what clients receive.
//
// It imports nothing of the gateway. Package testrig decides what is a complete
// answer, an error and a truncated answer in each dialect.
//
//	chaos --bin bin/isogloss            everything, about twenty minutes
//	chaos --bin bin/isogloss --short    a selection, in less than two minutes
//	chaos --bin bin/isogloss --only 'board/.*/anthropic→'
//	chaos --bin bin/isogloss --soak 30m only the soak
//
// A check fails for the order of events, or against a control of the same run, and never for
// a time that a busy machine stretches. Times are figures: the full run compares them with
// their goals, and records a missed goal with the load of the machine. No goal refuses a change.
//
// The last line of every run is "N passed, M failed".
package main

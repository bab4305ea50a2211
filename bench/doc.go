// Bench measures what the gateway costs, beside Go's own reverse proxy with nothing
// in it, beside nginx, and beside any other gateway that is named with --peer; and what
// keys, limits and the ledger add to it.
//
// Everything runs on this machine and on loopback. The upstream, the bare proxy and
// the load are this same program, started again with a hidden command, so that each
// has a process of its own and its CPU time can be told apart. All are driven with
// the same load in turns, round after round; what is compared comes from one round.
//
// A figure is a median over rounds. A ratio is the median of the ratios of the
// rounds, so that a machine that is slow for a while is slow for both sides of it.
// An answer that is cut, late or wrong counts as failed, whoever cut it.
//
// The files: subject_*.go are what is measured, load_*.go what drives it, part_*.go
// what is done in which order, report.go what comes out, page.go and plot_*.go how it
// is shown. goals.go and limits.go say what is good enough.
package main

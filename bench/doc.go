// Bench measures the cost of the gateway: CPU, memory, latency and allocations, compared
// with a bare httputil.ReverseProxy, with nginx and with other gateways (--peer), and the
// cost of keys, limits and the ledger.
//
// Everything runs on this machine over loopback. The upstream, the bare proxy and the
// load are this program with a hidden command, so that each has its own process and CPU
// time. All get the same load in turn, round after round; comparisons are within a round.
//
// A figure is the median over rounds. A ratio is the median of the ratios of the rounds,
// so that a slow phase of the machine affects both sides. A truncated, late or wrong
// response counts as failed.
//
// subject_*.go start what is measured, load_*.go send the load, part_*.go are the parts
// of a run, report.go and page.go write the results, goals.go and limits.go judge them.
package main

package main

import (
	"bytes"
	"fmt"
)

// writeCapacity computes the capacity of nodes from the measured costs.
func writeCapacity(w *bytes.Buffer, r *report) {
	c, ok := costsOf(r, ours)
	if !ok {
		return
	}
	n := aNode()
	fmt.Fprintf(w, "## What a node carries\n\nCalculated from the figures above, not measured: each resource of a node divided by the use of a request or a stream. This assumes that the cost per request does not change with more cores, which was not tested (%d cores here).\n\n", r.Machine.Cores)
	fmt.Fprintf(w, "The node: %.0f cores, %.0f GiB, %.0f Gbit/s each way, %s descriptors, a disk that takes %.0f MB/s of log, %.0f upstream addresses. The plan uses at most %.0f %% of CPU, memory, network and disk.\n\n",
		n.cores, n.memory, n.network, thousands(n.files), n.disk, n.upstreams, n.use*100)
	fmt.Fprint(w, "**Requests a second**, 2 KB in and 1 KB out, verbatim\n\n")
	markdown(w, boundGrid(requestBounds(c, n), "requests/s"))
	for _, events := range []float64{50, 10} {
		fmt.Fprintf(w, "**Open streams** with %.0f events a second, verbatim\n\n", events)
		markdown(w, boundGrid(streamBounds(c, n, events), "streams"))
	}
	writeDemand(w, r)
	fmt.Fprint(w, "Raise the descriptor limit on the node (`LimitNOFILE`). With HTTP/1.1 the number of ports limits the streams from one node to one upstream address.\n\n")
}

func boundGrid(all []bound, unit string) [][]string {
	grid := [][]string{{"what gives way", "how it is computed", unit}}
	least := tightest(all)
	for _, b := range all {
		row := []string{b.what, b.formula, thousands(b.most)}
		if b.what == least.what {
			row[0], row[2] = "**"+b.what+", first**", "**"+row[2]+"**"
		}
		grid = append(grid, row)
	}
	return grid
}

// writeDemand computes the number of nodes for a load.
func writeDemand(w *bytes.Buffer, r *report) {
	n := aNode()
	grid := [][]string{{"to carry", "lane", "what gives way first", "a node carries", "nodes"}}
	for _, lane := range []string{ours, oursMessages, oursAnswers} {
		c, ok := costsOf(r, lane)
		if !ok {
			continue
		}
		add := func(what string, wanted float64, all []bound) {
			b := tightest(all)
			grid = append(grid, []string{what, lane, b.what, thousands(b.most), thousands(nodes(wanted, b))})
		}
		add("1 million requests/s", 1e6, requestBounds(c, n))
		for _, events := range []float64{50, 10, 1} {
			add(fmt.Sprintf("10 million streams, %.0f events/s each", events), 1e7, streamBounds(c, n, events))
		}
	}
	fmt.Fprint(w, "**Nodes**: what is wanted ÷ what a node carries, rounded up\n\n")
	markdown(w, grid)
}

// writePeers lists figures of other gateways from earlier runs.
func writePeers(w *bytes.Buffer) {
	fmt.Fprint(w, "## Other gateways\n\n**From another run**: measured in the same way in November 2026 on another machine with two cores. CPU is a multiple of the bare proxy in the same run. `make bench PEERS=\"--peer NAME=URL,PID\"` puts a running gateway into every table above.\n\n")
	markdown(w, [][]string{
		{"", "version", "per request, 2 KB in, 1.2 KB out", "per event, bursts of 200"},
		{"nginx", "1.22", "0.2 ×", "0.8 ×"},
		{"aisix (Rust)", "0.10.0, without LTO", "1.0–1.4 ×", "4.8–7.7 ×"},
		{"agentgateway (Rust)", "1.3.1, without LTO", "1.6–2.0 ×", "4.3–6.0 ×"},
		{"TensorZero (Rust)", "2026.4.1", "4.6 ×", "7.2 ×"},
		{"Envoy AI Gateway (Envoy, Go)", "1.1.0", "5.7–7.5 ×", "3.7–5.5 ×"},
		{"Bifrost (Go)", "HEAD of August 2026", "5.2–5.7 ×", "20–29 ×"},
		{"Portkey (Node)", "1.15.2", "12–17 ×", "10–16 ×"},
		{"LiteLLM (Python)", "1.106.2", "116–146 ×", "290–418 ×"},
	})
	fmt.Fprint(w, "Translated events (Messages client on a Chat upstream) took Envoy AI Gateway 11.5 µs, aisix 12.9 µs and agentgateway 13.5 µs there.\n")
}

package main

import (
	"fmt"
	"math"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// node is a machine that the capacity is computed for, and the share of it that is used.
type node struct {
	cores     float64
	memory    float64 // GiB
	network   float64 // Gbit/s, each way
	files     float64 // descriptors of one process: fs.nr_open as Linux ships it
	ports     float64 // from one address to one address of an upstream, as Linux ships it
	upstreams float64 // addresses that the streams spread over
	disk      float64 // MB/s that a log may be written with
	use       float64 // share of CPU, memory, network and disk that is planned with
}

func aNode() node {
	return node{cores: 32, memory: 128, network: 25, files: 1 << 20, ports: 28232, upstreams: 64, disk: 200, use: 0.7}
}

// costs are the measured costs of requests and events.
type costs struct {
	request      float64 // µs of CPU, 2 KB in and 1 KB out
	event        float64 // µs of CPU for an event of a paced stream
	stream       float64 // KiB resident for an open stream
	logLine      float64 // bytes
	requestBytes float64 // in and out, one side
	eventBytes   float64
}

func costsOf(r *report, lane string) (costs, bool) {
	c := costs{requestBytes: 4 << 10, eventBytes: float64(len(newWire(testrig.Chat, 101).words[100])) + 90} // with a packet's and a chunk's frame
	var ok [4]bool
	c.request, ok[0] = r.value("request-2k-1k", lane, 0)
	if open, found := inTime(r, bareChat, ours); found {
		c.event, ok[1] = r.value("paced", lane, open)
	}
	c.stream, ok[2] = r.value("memory", lane, last(r.columns("memory")))
	c.logLine, ok[3] = r.value("log-line", ours, 0)
	return c, ok == [4]bool{true, true, true, true}
}

// bound is the load that one resource of a node allows.
type bound struct {
	what, formula string
	most          float64
}

// requestBounds returns the bounds on non-streaming requests a second.
func requestBounds(c costs, n node) []bound {
	return []bound{
		{"CPU", fmt.Sprintf("%.0f cores × %.0f %% ÷ %s µs", n.cores, n.use*100, short(c.request)), n.cores * n.use * 1e6 / c.request},
		{"network", fmt.Sprintf("%.0f Gbit/s × %.0f %% ÷ %s bytes", n.network, n.use*100, thousands(c.requestBytes)), n.network * 1e9 / 8 * n.use / c.requestBytes},
		{"log", fmt.Sprintf("%.0f MB/s × %.0f %% ÷ %s bytes a line", n.disk, n.use*100, short(c.logLine)), n.disk * 1e6 * n.use / c.logLine},
	}
}

// streamBounds returns the bounds on open streams at a rate of events.
func streamBounds(c costs, n node, events float64) []bound {
	return []bound{
		{"CPU", fmt.Sprintf("%.0f cores × %.0f %% ÷ (%s events/s × %s µs)", n.cores, n.use*100, short(events), short(c.event)), n.cores * n.use * 1e6 / (events * c.event)},
		{"memory", fmt.Sprintf("%.0f GiB × %.0f %% ÷ %s KiB", n.memory, n.use*100, short(c.stream)), n.memory * (1 << 20) * n.use / c.stream},
		{"network", fmt.Sprintf("%.0f Gbit/s × %.0f %% ÷ (%s events/s × %s bytes)", n.network, n.use*100, short(events), short(c.eventBytes)), n.network * 1e9 / 8 * n.use / (events * c.eventBytes)},
		{"descriptors", fmt.Sprintf("%s ÷ 2", thousands(n.files)), n.files / 2},
		{"ports", fmt.Sprintf("%s × %.0f upstream addresses", thousands(n.ports), n.upstreams), n.ports * n.upstreams},
	}
}

// tightest returns the lowest bound.
func tightest(all []bound) bound {
	least := all[0]
	for _, b := range all {
		if b.most < least.most {
			least = b
		}
	}
	return least
}

// nodes returns how many nodes a load needs.
func nodes(wanted float64, each bound) float64 { return math.Ceil(wanted / each.most) }

package main

import (
	"math"
	"testing"
)

func TestCapacity(t *testing.T) {
	n := node{cores: 10, memory: 1, network: 8, files: 2000, ports: 500, upstreams: 4, disk: 1, use: 0.5}
	c := costs{request: 100, event: 10, stream: 512, logLine: 500, requestBytes: 1000, eventBytes: 100}
	for name, b := range map[string]struct {
		all   []bound
		what  string
		most  float64
		wants map[string]float64
	}{
		"requests": {requestBounds(c, n), "log", 1000, map[string]float64{"CPU": 50000, "network": 500000}},
		"streams":  {streamBounds(c, n, 50), "descriptors", 1000, map[string]float64{"CPU": 10000, "memory": 1024, "network": 100000, "ports": 2000}},
	} {
		if got := tightest(b.all); got.what != b.what || got.most != b.most {
			t.Errorf("%s: %s gives way first, at %v", name, got.what, got.most)
		}
		for _, got := range b.all {
			if want, ok := b.wants[got.what]; ok && math.Abs(got.most-want) > 1e-6 {
				t.Errorf("%s: %s allows %v, want %v (%s)", name, got.what, got.most, want, got.formula)
			}
		}
	}
	if got := nodes(1001, bound{most: 500}); got != 3 {
		t.Errorf("1001 of 500 each take %v nodes", got)
	}
}

func TestCostsNeedAllFigures(t *testing.T) {
	r := sampleReport()
	c, ok := costsOf(r, ours)
	if !ok || c.request != 121 || c.event != 12 || c.stream != 50 || c.logLine != 600 {
		t.Errorf("costs %+v, %v", c, ok)
	}
	if _, ok := costsOf(r, oursAnswers); ok {
		t.Error("a lane without figures has costs")
	}
}

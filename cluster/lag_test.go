package main

import (
	"testing"
	"time"
)

// What slows down the control load as well is not the lag of Redis.
func TestLagWithoutTheControls(t *testing.T) {
	start := time.Now()
	load := func(before, during time.Duration) (all []exchange) {
		for i := range 200 {
			a := exchange{at: start.Add(time.Duration(i) * time.Millisecond), took: before}
			if i >= 100 {
				a.took = during
			}
			all = append(all, a)
		}
		return all
	}
	before, during := span{start, start.Add(100 * time.Millisecond)}, span{start.Add(100 * time.Millisecond), start.Add(time.Second)}
	for name, c := range map[string]struct {
		limited, control []exchange
		want             time.Duration
	}{
		"Redis":           {load(2, 52), load(2, 2), 50},
		"the machine":     {load(2, 52), load(2, 52), 0},
		"both":            {load(2, 62), load(2, 12), 50},
		"a calmer moment": {load(2, 3), load(9, 2), 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (lags{c.limited, c.control}).measure(before, during).added(); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

func TestP99(t *testing.T) {
	var all []exchange
	for i := range 1000 {
		all = append(all, exchange{took: time.Duration(i + 1)})
	}
	if got := p99(all); got != 990 {
		t.Errorf("%d, want 990", got)
	}
}

func TestDollars(t *testing.T) {
	for nano, want := range map[int]string{0: "0.000000000", 3200 * outputCost: "0.032000000", 1_500_000_001: "1.500000001"} {
		if got := dollars(nano); got != want {
			t.Errorf("%d is %q, want %q", nano, got, want)
		}
	}
}

func TestCompareWithControls(t *testing.T) {
	now := time.Now()
	at := func(i int, took time.Duration) exchange {
		return exchange{at: now.Add(time.Duration(i) * time.Millisecond), took: took}
	}
	var waiting, busy lags
	for i := range 10 {
		load := time.Duration(i%5) * 20 * time.Millisecond // of the machine
		waiting.limited, waiting.control = append(waiting.limited, at(2*i, load+50*time.Millisecond)), append(waiting.control, at(2*i+1, load))
		busy.limited, busy.control = append(busy.limited, at(2*i, load)), append(busy.control, at(2*i+1, 80*time.Millisecond-load))
	}
	all := span{now, now.Add(time.Second)}
	if slower, faster, pairs := waiting.compare(40*time.Millisecond, all); slower != 10 || faster != 0 || pairs != 10 {
		t.Errorf("requests that wait: of %d pairs %d are slower and %d faster", pairs, slower, faster)
	}
	if slower, faster, pairs := busy.compare(40*time.Millisecond, all); slower != faster || pairs != 10 {
		t.Errorf("a busy machine: of %d pairs %d are slower and %d faster", pairs, slower, faster)
	}
}

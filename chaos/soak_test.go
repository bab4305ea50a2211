package main

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestSlope(t *testing.T) {
	var flat, steep []point
	for i := range 100 {
		m := float64(i) / 10
		flat = append(flat, point{m, 50e6 + float64(i%7)*1e5})
		steep = append(steep, point{m, 50e6 + m*2e6})
	}
	flat[99].bytes = 500e6 // a single peak
	if s := theilSen(flat); s > 0.2e6 || s < -0.2e6 {
		t.Errorf("a flat line has the slope %f", s)
	}
	if s := theilSen(steep); s < 1.9e6 || s > 2.1e6 {
		t.Errorf("2 MB/min are %f", s)
	}
}

// rests returns the readings of a soak: a leak of so many bytes a request, and up to so much
// noise in each.
func rests(soak time.Duration, perRequest, noise float64, random *rand.Rand) []rest {
	half := int64((soak - min(soak/3, 5*time.Minute)).Seconds() / 2 * soakRate * 0.9) // a busy machine sends fewer
	var all []rest
	for i := range int64(3) {
		all = append(all, rest{i * half, 11e6 + float64(i*half)*perRequest + noise*random.Float64()})
	}
	return all
}

func TestLeak(t *testing.T) {
	for _, c := range []struct {
		name              string
		soak              time.Duration
		perRequest, noise float64
		found             bool
	}{
		{"nothing", time.Minute, 0, 0, false},
		{"noise", time.Minute, 0, 2e6, false},
		{"noise in a long soak", 30 * time.Minute, 0, 2e6, false},
		{"1 KB a request", time.Minute, 1024, 0, true},
		{"1 KB a request and noise", time.Minute, 1024, 2e6, true},
		{"400 bytes a request", time.Minute, 400, 0, true},
		{"200 bytes a request, two minutes", 2 * time.Minute, 210, 0, true},
		{"200 bytes a request and noise", 30 * time.Minute, 200, 2e6, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			for range 10000 {
				all := rests(c.soak, c.perRequest, c.noise, random)
				if problem := leak(all); (problem != "") != c.found {
					t.Fatalf("%v: %q", all, problem)
				}
			}
		})
	}
	for name, c := range map[string]struct {
		bytes [3]float64
		found bool
	}{
		"a cache that fills in the first half":  {[3]float64{11.24e6, 13.2e6, 13.3e6}, false},
		"a cache that fills in the second half": {[3]float64{11.24e6, 11.24e6, 13.3e6}, false},
		"a cache that fills in both":            {[3]float64{11.24e6, 12.1e6, 12.72e6}, false},
		"a low reading in the middle":           {[3]float64{13e6, 11e6, 13e6}, false},
		"a leak that is a little more":          {[3]float64{11e6, 12.1e6, 13.2e6}, true},
		"a leak that begins late":               {[3]float64{11e6, 11e6, 15e6}, true},
	} {
		if problem := leak([]rest{{0, c.bytes[0]}, {2736, c.bytes[1]}, {5473, c.bytes[2]}}); (problem != "") != c.found {
			t.Errorf("%s: %q", name, problem)
		}
	}
}

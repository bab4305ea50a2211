package main

import "testing"

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

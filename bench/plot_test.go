package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestPlots(t *testing.T) {
	for name, p := range map[string]plot{
		"lines.svg": {title: "Lines & more", xLabel: "x", yLabel: "y in µs", logX: true, lines: []line{
			{"bare", []point{{10, 5}, {100, 7}, {1000, 12}}}, {"isogloss", []point{{10, 6}, {100, 6}, {1000, 9}}},
		}},
		"bars.svg": {title: "Bars", xLabel: "µs", bars: []bar{{"bare", 100, "100 µs"}, {"isogloss", 110, "110 µs, 1.10 ×"}, {"nginx", 20, "20 µs"}}},
	} {
		got := p.svg()
		wellFormed(t, name, got)
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s has changed; look at it and run the test with -update", name)
		}
	}
}

func wellFormed(t *testing.T, name string, text []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func TestScale(t *testing.T) {
	s := scale{0, 50, 100, 200, false}
	if s.at(0) != 100 || s.at(25) != 150 || s.at(50) != 200 {
		t.Errorf("a linear scale places 25 at %v", s.at(25))
	}
	if got := s.ticks(); !slices.Equal(got, []float64{0, 10, 20, 30, 40, 50}) {
		t.Errorf("ticks %v", got)
	}
	l := scale{1, 100, 0, 10, true}
	if l.at(10) != 5 || !slices.Equal(l.ticks(), []float64{1, 10, 100}) {
		t.Errorf("a logarithmic scale places 10 at %v, ticks %v", l.at(10), l.ticks())
	}
	for v, want := range map[float64]float64{7: 7, 7.2: 8, 23: 25, 131: 140, 0.3: 0.3} {
		if got := ceil(v); got < v || got > want+1e-9 {
			t.Errorf("an axis for %v ends at %v, want %v", v, got, want)
		}
	}
}

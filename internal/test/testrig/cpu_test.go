package testrig

import "testing"

func TestCPUTime(t *testing.T) {
	before := parseCPUTime("cpu  100 10 50 1000 20 5 5 30 0 0")
	for _, tt := range []struct {
		line         string
		stolen, busy float64
	}{
		{"cpu  100 10 50 9000 20 5 5 30 0 0", 0, 0},   // idle
		{"cpu  190 10 50 1000 20 5 5 40 0 0", 0.1, 1}, // 90 used, 10 stolen
		{"cpu  100 10 50 1000 20 5 5 80 0 0", 1, 1},   // all stolen
		{"cpu  110 11 55 1080 24 5 5 30 7 0", 0, 0.16},
	} {
		d := parseCPUTime(tt.line).since(before)
		if got := share(d.stolen, d.used+d.stolen); got != tt.stolen {
			t.Errorf("%s: stolen %v, want %v", tt.line, got, tt.stolen)
		}
		if got := share(d.used+d.stolen, d.used+d.stolen+d.idle); got != tt.busy {
			t.Errorf("%s: busy %v, want %v", tt.line, got, tt.busy)
		}
	}
	if got := parseCPUTime("cpu  10 1 5 80 4 0 0 0 7 0"); got != (CPUTime{used: 16, idle: 84}) {
		t.Errorf("%+v", got)
	}
	if got := parseCPUTime("intr 1 2 3"); got != (CPUTime{}) {
		t.Errorf("%+v", got)
	}
}

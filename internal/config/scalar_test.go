package config

import (
	"testing"
	"time"
)

// TestDurations checks that durations have days, and that days are written back.
func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 30 * 24 * time.Hour, "1d12h": 36 * time.Hour, "0d": 0, "0": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "-1d": -24 * time.Hour,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "30", "1.5d", "1d-1h", "1d24h", "1h1d", "200000d", "9999999999d", "30 d", "1dd"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
	for d, want := range map[time.Duration]string{30 * day: "30d", day: "24h", 90 * time.Minute: "1h30m", 0: "0s", 36 * time.Hour: "36h"} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v is written %q, want %q", d, got, want)
		}
	}
}

package settings

import (
	"testing"
	"time"
)

// TestDurations checks that durations have days and years, and that these are written back.
func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 30 * 24 * time.Hour, "1d12h": 36 * time.Hour, "0d": 0, "0": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "-1d": -24 * time.Hour,
		"2y": 730 * 24 * time.Hour, "1y30d": 395 * 24 * time.Hour, "1y1d1h": 366*24*time.Hour + time.Hour, "1y12h": 365*24*time.Hour + 12*time.Hour, "292y": 292 * 365 * 24 * time.Hour, "365d": 365 * 24 * time.Hour, "400d": 400 * 24 * time.Hour,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "30", "1.5d", "1d-1h", "1d24h", "1h1d", "200000d", "9999999999d", "30 d", "1dd",
		"y", "1.5y", "300y", "1d1y", "1y365d", "1y-1d", "1y24h", "-1y1d", "1yy", "292y364d", "2 y"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
	for d, want := range map[time.Duration]string{30 * day: "30d", day: "24h", 90 * time.Minute: "1h30m", 0: "0s", 36 * time.Hour: "36h", year: "365d", 2 * year: "2y", 2*year + day: "731d"} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v is written %q, want %q", d, got, want)
		}
	}
}

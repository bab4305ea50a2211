package settings

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Units of durations beside those of Go.
const (
	day  = 24 * time.Hour
	year = 365 * day
)

// ParseDuration reads a duration in Go's format, in which it also knows years of 365 days and days of
// 24 hours, before the other units: 90s, 1h30m, 30d, 1d12h, 2y, 1y30d.
func ParseDuration(text string) (time.Duration, error) {
	rest := text
	var sum time.Duration
	for _, u := range []struct {
		name string
		size time.Duration
		most int64 // of a unit that follows a larger one
	}{{"y", year, math.MaxInt32}, {"d", day, int64(year/day) - 1}} {
		number, after, found := strings.Cut(rest, u.name)
		if !found {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 32)
		switch {
		case err != nil || time.Duration(n).Abs() > math.MaxInt64/u.size:
			return 0, errors.New("config: invalid number of days or years")
		case rest != text && (n < 0 || n > u.most || sum < 0 || sum > math.MaxInt64-time.Duration(n)*u.size):
			return 0, errors.New("config: the days that follow years are less than one, and not negative")
		}
		sum, rest = sum+time.Duration(n)*u.size, after
	}
	if rest == text {
		return time.ParseDuration(text)
	}
	if rest == "" {
		return sum, nil
	}
	more, err := time.ParseDuration(rest)
	switch {
	case err != nil:
		return 0, err
	case more < 0 || more >= day || sum < 0 || sum > math.MaxInt64-more:
		return 0, errors.New("config: what follows the days is less than one, and not negative")
	}
	return sum + more, nil
}

// FormatDuration writes a duration without units that are zero, and several whole years or days as
// such.
func FormatDuration(d time.Duration) string {
	if d >= 2*year && d%year == 0 {
		return strconv.FormatInt(int64(d/year), 10) + "y"
	}
	if d >= 2*day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// parseDuration reads a duration of the file.
func parseDuration(text string) (int64, error) {
	v, err := ParseDuration(text)
	if err != nil {
		return 0, errors.New("is not a duration; write a number with its unit, such as 30s, 2m, 1h, 30d or 2y")
	}
	if v < 0 {
		return 0, errors.New("is negative; write a duration such as 30s")
	}
	return int64(v), nil
}

type unit struct {
	name  string
	bytes float64
}

// units are tried in order; a unit comes before its own suffixes.
func units() []unit {
	return []unit{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
		{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1},
	}
}

// parseSize reads a number of bytes.
func parseSize(text string) (int64, error) {
	for _, u := range units() {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		v *= u.bytes
		if err != nil || v < 0 || v != math.Trunc(v) || v >= math.MaxInt64 {
			break
		}
		return int64(v), nil
	}
	return 0, errors.New("is not a size; write a number of bytes, or one with a unit such as 64MiB")
}

// FormatSize writes a number of bytes in the largest unit that divides it.
func FormatSize(size int64) string {
	for _, u := range []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n := int64(u.bytes); size >= n && size%n == 0 {
			return strconv.FormatInt(size/n, 10) + u.name
		}
	}
	return strconv.FormatInt(size, 10)
}

package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// duration is a time written as Go writes it: 5s, 2m, 1h30m.
type duration time.Duration

func (d *duration) parse(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("is not a duration; write a number with its unit, such as 30s, 2m or 1h")
	}
	if v < 0 {
		return errors.New("is negative; write a duration such as 30s")
	}
	*d = duration(v)
	return nil
}

// String writes the duration without units that are zero.
func (d duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// size is a number of bytes.
type size int64

type unit struct {
	name  string
	bytes float64
}

// units are tried in order, so that a unit stands before those it ends in.
func units() []unit {
	return []unit{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
		{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1},
	}
}

func (s *size) parse(text string) error {
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
		*s = size(v)
		return nil
	}
	return errors.New("is not a size; write a number of bytes, or one with a unit such as 64MiB")
}

// String writes the size in the largest unit that divides it.
func (s size) String() string {
	for _, u := range []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n := int64(u.bytes); int64(s) >= n && int64(s)%n == 0 {
			return strconv.FormatInt(int64(s)/n, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

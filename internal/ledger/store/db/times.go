package db

import "time"

// Nanos converts a time for storage. Times outside of the range are clamped.
func Nanos(t time.Time) int64 {
	switch {
	case t.IsZero() || t.Year() < 1970:
		return 0
	case t.Year() > 2200:
		return time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	}
	return t.UnixNano()
}

// FromNanos returns a stored time. Zero is the zero time.
func FromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

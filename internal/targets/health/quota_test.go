package health

import (
	"net/http"
	"testing"
	"time"
)

func TestCoolDownFollowsRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		failure Failure
		want    time.Duration
	}{
		"told by the caller":     {Failure{RetryAfter: 17 * time.Second}, 17 * time.Second},
		"the caller before":      {Failure{RetryAfter: 17 * time.Second, Header: header("Retry-After", "5")}, 17 * time.Second},
		"seconds":                {Failure{Header: header("Retry-After", "5")}, 5 * time.Second},
		"parts of seconds":       {Failure{Header: header("Retry-After", "1.5")}, 1500 * time.Millisecond},
		"a date":                 {Failure{Header: header("Retry-After", now.Add(40*time.Second).Format(http.TimeFormat))}, 40 * time.Second},
		"a date of their clock":  {Failure{Header: header("Retry-After", "Sun, 15 Nov 2026 18:00:20 GMT", "Date", "Sun, 15 Nov 2026 18:00:00 GMT")}, 20 * time.Second},
		"milliseconds first":     {Failure{Header: header("Retry-After-Ms", "250", "Retry-After", "1")}, 250 * time.Millisecond},
		"more than is believed":  {Failure{Header: header("Retry-After", "86400")}, 10 * time.Minute},
		"absurd":                 {Failure{Header: header("Retry-After", "1e300")}, 10 * time.Minute},
		"an exhausted limit":     {Failure{Header: header("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6m0s")}, 6 * time.Minute},
		"retry-after over reset": {Failure{Header: header("Retry-After", "2", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6m0s")}, 2 * time.Second},
		"the other limit":        {Failure{Header: header("X-Ratelimit-Remaining-Tokens", "9", "X-Ratelimit-Reset-Tokens", "6m0s")}, time.Second},
		"nothing":                {Failure{}, time.Second},
		"garbage":                {Failure{Header: header("Retry-After", "soon")}, time.Second},
		"negative":               {Failure{Header: header("Retry-After", "-5")}, time.Second},
		"not a number":           {Failure{Header: header("Retry-After", "NaN")}, time.Second},
		"the past":               {Failure{Header: header("Retry-After", "Sun, 15 Nov 2020 18:00:20 GMT")}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			a, same, other := l.Target("a", "g", "k"), l.Target("b", "g", "j"), l.Target("c", "h", "k")
			c.failure.Kind = Limited
			a.Failed(c.failure)
			l.want(t, a, CoolingDown, c.want)
			l.want(t, same, CoolingDown, c.want)
			l.want(t, other, "", 0)
			l.pass(c.want)
			l.want(t, a, "", 0)
		})
	}
}

func TestCoolDownWithoutRetryAfterDoubles(t *testing.T) {
	l := newLab(t)
	a, b := l.Target("a", "g", "k"), l.Target("b", "g", "k")
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		fail(a, Limited, 3) // concurrent failures count once
		fail(b, Limited, 3)
		l.want(t, b, CoolingDown, want*time.Second)
		a.Succeeded(0) // sent before the failure
		l.pass(want * time.Second)
	}
	b.Succeeded(0)
	fail(a, Limited, 1)
	l.want(t, a, CoolingDown, time.Second)
	l.pass(time.Second)
	fail(a, Limited, 1)
	l.want(t, a, CoolingDown, 2*time.Second)
	l.pass(2*time.Minute + time.Second) // the cool-down is long over
	fail(a, Limited, 1)
	l.want(t, a, CoolingDown, time.Second)
}

func TestCoolDownWithoutRetryAfterIsJittered(t *testing.T) {
	l := newLab(t)
	l.luck = 0
	a := l.Target("a", "g", "k")
	fail(a, Limited, 1)
	l.want(t, a, CoolingDown, 800*time.Millisecond)
}

func TestCoolDownIsNotShortened(t *testing.T) {
	l := newLab(t)
	a := l.Target("a", "g", "k")
	a.Failed(Failure{Kind: Limited, RetryAfter: 30 * time.Second})
	a.Failed(Failure{Kind: Limited, RetryAfter: 2 * time.Second})
	fail(a, Limited, 1)
	l.want(t, a, CoolingDown, 30*time.Second)
	a.Failed(Failure{Kind: Limited, RetryAfter: 45 * time.Second})
	l.want(t, a, CoolingDown, 45*time.Second)
}

func TestLearn(t *testing.T) {
	for name, c := range map[string]struct {
		header http.Header
		want   time.Duration
	}{
		"none":                  {nil, 0},
		"something remains":     {header("X-Ratelimit-Remaining-Requests", "1", "X-Ratelimit-Reset-Requests", "20s"), 0},
		"no requests":           {header("X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "20s"), 20 * time.Second},
		"no tokens":             {header("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "12ms"), 12 * time.Millisecond},
		"the later of two":      {header("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "3s", "X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "20s"), 20 * time.Second},
		"bare seconds":          {header("X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "7.5"), 7500 * time.Millisecond},
		"seconds since 1970":    {header("X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "1794744030"), 30 * time.Second},
		"ms since 1970":         {header("X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "1794744030500"), 30500 * time.Millisecond},
		"rfc 3339":              {header("Anthropic-Ratelimit-Requests-Remaining", "0", "Anthropic-Ratelimit-Requests-Reset", "2026-11-15T12:00:09Z"), 9 * time.Second},
		"rfc 3339, their clock": {header("Anthropic-Ratelimit-Input-Tokens-Remaining", "0", "Anthropic-Ratelimit-Input-Tokens-Reset", "2026-11-15T12:09:00Z", "Date", "Sun, 15 Nov 2026 12:08:55 GMT"), 5 * time.Second},
		"output tokens":         {header("Anthropic-Ratelimit-Output-Tokens-Remaining", "0", "Anthropic-Ratelimit-Output-Tokens-Reset", "2026-11-15T12:00:09Z"), 9 * time.Second},
		"already reset":         {header("Anthropic-Ratelimit-Tokens-Remaining", "0", "Anthropic-Ratelimit-Tokens-Reset", "2026-11-15T11:00:09Z"), 0},
		"no reset":              {header("X-Ratelimit-Remaining-Requests", "0"), 0},
		"unlimited":             {header("X-Ratelimit-Remaining-Requests", "-1", "X-Ratelimit-Reset-Requests", "20s"), 0},
		"far away":              {header("X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "23h59m0s"), LongestWait},
		"retry-after":           {header("Retry-After", "4"), 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			a, same := l.Target("a", "g", "k"), l.Target("b", "g", "j")
			a.Learn(c.header)
			reason := ""
			if c.want > 0 {
				reason = CoolingDown
			}
			l.want(t, a, reason, c.want)
			l.want(t, same, reason, c.want)
		})
	}
}

// FuzzWait checks that a delay parsed from an upstream's response is never negative and
// always bounded.
func FuzzWait(f *testing.F) {
	for _, s := range []string{"", "5", "1.5", "6m0s", "12ms", "-1", "1e300", "NaN", "Inf", "0x1p-2", "1794744030", "1794744030500",
		"2026-11-15T12:00:09Z", "Sun, 15 Nov 2026 18:00:20 GMT", "9223372036854775807", "2540400h", "0001-01-01T00:00:00Z"} {
		f.Add(s, "Sun, 15 Nov 2026 18:00:00 GMT")
		f.Add(s, s)
	}
	l := newLab(f)
	f.Fuzz(func(t *testing.T, s, date string) {
		h := http.Header{"Retry-After": {s}, "Retry-After-Ms": {s}, "Date": {date}}
		for _, d := range []time.Duration{wait(s, h, l.Fleet), retryAfter(h, l.Fleet)} {
			if d < 0 || d > farthest {
				t.Errorf("%q is %v", s, d)
			}
		}
	})
}

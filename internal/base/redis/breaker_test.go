package redis

import "testing"

func TestBreaker(t *testing.T) {
	type result struct{ failed, broken bool }
	good, bad := result{}, result{failed: true}
	mixed := []result{}
	for range 9 {
		mixed = append(mixed, good, bad)
	}
	for name, c := range map[string]struct {
		calls []result
		opens bool
	}{
		"a refused connection opens it at once": {[]result{{true, true}}, true},
		"one failure does not":                  {[]result{bad, good, bad, bad, good}, false},
		"three in a row do":                     {[]result{good, bad, bad, bad}, true},
		"half of few do not":                    {mixed, false},
		"half of twenty do":                     {append(mixed[:len(mixed):len(mixed)], good, bad), true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBreaker()
			for _, r := range c.calls {
				b.record(r.failed, r.broken)
			}
			if b.lost.Load() != c.opens {
				t.Errorf("open is %v", b.lost.Load())
			}
			b.close()
			if b.record(true, false); b.lost.Load() {
				t.Error("it remembers after it was closed")
			}
		})
	}
}

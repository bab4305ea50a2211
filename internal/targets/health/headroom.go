package health

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Headroom is what remains of a rate limit, as last reported by the upstream.
type Headroom struct {
	Unit      string // "requests" or "tokens"
	Remaining float64
	Limit     float64 // 0 if the upstream does not report it
}

// headroomTime is how long a headroom is valid: most limits are per minute.
const headroomTime = 5 * time.Minute

// units describes the units of rate limits, in the order of live.limits. unit is the value
// of Headroom.Unit. remaining and limit are the names of the usual headers. suffix is the
// end of the name at vendors that use a prefix of their own and another order of words.
var units = [2]struct{ unit, remaining, limit, suffix string }{
	{"requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Limit-Requests", "-Ratelimit-Requests-Remaining"},
	{"tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Limit-Tokens", "-Ratelimit-Tokens-Remaining"},
}

// headroom is the latest Headroom of a unit.
type headroom struct {
	value atomic.Pointer[Headroom]
	at    atomic.Int64
}

// learnHeadroom reads what remains of the rate limits. A value that has not changed costs
// no allocation.
func (l *live) learnHeadroom(h http.Header) {
	for i := range units {
		u := &units[i]
		remaining, limit := value(h, u.remaining), value(h, u.limit)
		if remaining == "" {
			for name := range h {
				if prefix, ok := strings.CutSuffix(name, remainingSuffix); ok && strings.HasSuffix(name, u.suffix) {
					remaining, limit = value(h, name), value(h, prefix+"-Limit")
				}
			}
		}
		left, ok := number(remaining)
		if !ok {
			continue
		}
		now := Headroom{Unit: u.unit, Remaining: left}
		now.Limit, _ = number(limit)
		l.limits[i].at.Store(int64(l.fleet.now()))
		if old := l.limits[i].value.Load(); old == nil || *old != now {
			l.limits[i].value.Store(&now)
		}
	}
}

// headrooms returns the headrooms that are known and not too old.
func (l *live) headrooms() (list []Headroom) {
	now := l.fleet.now()
	for i := range l.limits {
		if v := l.limits[i].value.Load(); v != nil && now.since(instant(l.limits[i].at.Load())) < headroomTime {
			list = append(list, *v)
		}
	}
	return list
}

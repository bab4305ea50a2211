package discover

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// refusalEvery is how often rejected workers are logged: a source may list the same
// invalid worker each time.
const refusalEvery = time.Minute

// refusals counts rejected workers. It logs the first at once and then a sum.
type refusals struct {
	logger *slog.Logger
	total  *atomic.Int64
	since  int64 // not logged yet
	logged time.Time
}

func (r *refusals) add(source, id string, why error, now time.Time) {
	r.total.Add(1)
	r.since++
	if !r.logged.IsZero() && now.Sub(r.logged) < refusalEvery {
		return
	}
	r.logger.Warn("discovered workers are refused; this is the last of them", "source", source, "worker", id[:min(len(id), 128)], "error", why.Error(), "count", r.since)
	r.since, r.logged = 0, now
}

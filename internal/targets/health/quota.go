package health

import (
	"sync"
	"sync/atomic"
	"time"
)

// Cool-down of a quota group.
const (
	coolBase = time.Second      // without a time from the upstream
	coolMax  = 60 * time.Second // without a time from the upstream
	coolTold = 10 * time.Minute // the longest time that an upstream may set
)

// quota is a group of targets that share a rate limit.
type quota struct {
	until   atomic.Int64
	repeats atomic.Int32 // 429 responses without a time, since the last success

	mu   sync.Mutex
	last instant // when the last cool-down without a time ended
}

// limited starts a cool-down of the group. It lasts for told, the time that the upstream
// gave. If told is 0, it lasts for a time that doubles with each repetition.
func (q *quota) limited(now instant, told time.Duration, f *Fleet) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if told > 0 {
		later(&q.until, now.add(min(told, coolTold)))
		return
	}
	if int64(now) < q.until.Load() { // requests that were in flight together count once
		return
	}
	if now.since(q.last) > coolMax {
		q.repeats.Store(0)
	}
	n := q.repeats.Add(1)
	wait := min(f.jitter(min(coolBase<<min(n-1, 6), coolMax)), coolMax)
	q.last = now.add(wait)
	later(&q.until, q.last)
}

func (q *quota) rest(until instant) { later(&q.until, until) }

func (q *quota) succeeded(now instant) {
	// A request that succeeds during the cool-down was sent before it.
	if q.repeats.Load() != 0 && int64(now) >= q.until.Load() {
		q.repeats.Store(0)
	}
}

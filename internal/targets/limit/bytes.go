package limit

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Bytes bounds the memory that the bodies of all requests and their translation take
// together. It counts estimates, before the memory is allocated. The type memory measures
// what is in use.
type Bytes struct{ budget atomic.Pointer[budget] }

type budget struct {
	limit int64
	free  *semaphore.Weighted
}

const (
	bytesShare = 0.5 // of the memory limit; the rest is for connections, caches and garbage
	bytesWait  = 5 * time.Second
)

func (b *Bytes) use(limit int64) {
	if old := b.budget.Load(); old == nil || old.limit != limit {
		b.budget.Store(&budget{limit: limit, free: semaphore.NewWeighted(limit)})
	}
}

// Acquire takes n bytes and returns the function that releases them. It waits until other
// requests release theirs, for five seconds at most. The reason is Memory if n bytes are
// not available by then, TooLarge if they never will be, and Cancelled if the context
// ends first.
func (b *Bytes) Acquire(ctx context.Context, n int64) (release func(), refusal *Refusal) {
	now := b.budget.Load()
	if now == nil || now.limit == 0 {
		return func() {}, nil
	}
	if n > now.limit {
		return nil, &Refusal{Reason: TooLarge}
	}
	if !now.free.TryAcquire(n) {
		wait, cancel := context.WithTimeout(ctx, bytesWait)
		defer cancel()
		if now.free.Acquire(wait, n) != nil {
			if ctx.Err() != nil {
				return nil, &Refusal{Reason: Cancelled}
			}
			return nil, &Refusal{Reason: Memory, RetryAfter: retryAfter(memoryRetry)}
		}
	}
	return func() { now.free.Release(n) }, nil
}

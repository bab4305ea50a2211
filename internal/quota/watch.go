package quota

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

var errBusy = errors.New("too many calls are on the way to Redis")

// ask sends a call on the way of a request, and waits for 50 ms at most: not for its
// own answer, but for any. Answers come in order, so where others come the own one is
// only a matter of time, and to go on without Redis while it works would overdraw.
func (r *remote) ask(c *call) ([]int64, error) {
	select {
	case r.calls <- struct{}{}:
		defer func() { <-r.calls }()
	default:
		return nil, errBusy
	}
	client := r.client.Load()
	if client == nil {
		return nil, errBusy
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := r.watch(cancel)
	defer w.stop()
	values, err := c.run(ctx, *client)
	r.heard(err)
	return values, err
}

// watch gives up a call when Redis answers nobody any more.
type watch struct {
	r      *remote
	cancel context.CancelFunc
	began  int64
	due    int64
	doubt  bool // there was no answer; once more is looked

	mu    sync.Mutex
	timer *time.Timer
}

const (
	// patience is how many times the timeout a call waits while others are answered.
	patience = 10
	// doubtPart is the last part of the timeout: a process that had no time to run finds
	// in it the answers that have come meanwhile.
	doubtPart = 5
)

func (r *remote) watch(cancel context.CancelFunc) *watch {
	w := &watch{r: r, cancel: cancel, began: r.uptime()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = w.began + int64(r.o.Timeout-r.o.Timeout/doubtPart)
	w.timer = time.AfterFunc(time.Duration(w.due-w.began), w.look)
	return w
}

func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, timeout := w.r.uptime(), w.r.o.Timeout
	quiet := time.Duration(now - max(w.began, w.r.answered.Load()))
	late := time.Duration(now - w.due)
	soon := timeout - timeout/doubtPart
	switch {
	case time.Duration(now-w.began) > patience*timeout:
		w.cancel()
	case late > timeout/doubtPart: // the machine is too busy to say who is slow
		w.again(now, soon)
	case quiet < soon:
		w.doubt = false
		w.again(now, soon-quiet)
	case !w.doubt:
		w.doubt = true
		w.again(now, timeout/doubtPart)
	default:
		w.cancel()
	}
}

func (w *watch) again(now int64, in time.Duration) {
	w.due = now + int64(in)
	w.timer.Reset(in)
}

func (w *watch) stop() { w.timer.Stop() }

// uptime is a clock for measuring, in ns.
func (r *remote) uptime() int64 { return int64(time.Since(r.born)) }

// heard counts how a call went.
func (r *remote) heard(err error) {
	if _, answered := rueidis.IsRedisErr(err); answered || err == nil {
		r.answered.Store(r.uptime())
	}
	if r.breaker.done(err != nil, isBroken(err)) {
		r.open(err)
	}
}

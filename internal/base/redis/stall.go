package redis

import (
	"context"
	"sync"
	"time"
)

// stallTimer cancels a call when Redis replies to no call any more.
type stallTimer struct {
	server    *Server
	cancel    context.CancelFunc
	startedAt int64
	due       int64
	suspected bool // no reply within the timeout; one grace period follows

	mu    sync.Mutex
	timer *time.Timer
}

const (
	// maxStallFactor times the timeout is the longest that a call waits while others get replies.
	maxStallFactor = 10
	// gracePart is the last part of the timeout (1/5). A process that was not scheduled processes
	// in it the replies that have arrived.
	gracePart = 5
)

func (s *Server) watchStall(cancel context.CancelFunc) *stallTimer {
	w := &stallTimer{server: s, cancel: cancel, startedAt: s.uptime()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = w.startedAt + int64(s.client.o.Timeout-s.client.o.Timeout/gracePart)
	w.timer = time.AfterFunc(time.Duration(w.due-w.startedAt), w.check)
	return w
}

func (w *stallTimer) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, timeout := w.server.uptime(), w.server.client.o.Timeout
	quiet := time.Duration(now - max(w.startedAt, w.server.lastReply.Load()))
	late := time.Duration(now - w.due)
	soon := timeout - timeout/gracePart
	switch {
	case time.Duration(now-w.startedAt) > maxStallFactor*timeout:
		w.cancel()
	case late > timeout/gracePart: // the timer is late: this process is starved, so Redis cannot be judged
		w.reset(now, soon)
	case quiet < soon:
		w.suspected = false
		w.reset(now, soon-quiet)
	case !w.suspected:
		w.suspected = true
		w.reset(now, timeout/gracePart)
	default:
		w.cancel()
	}
}

func (w *stallTimer) reset(now int64, in time.Duration) {
	w.due = now + int64(in)
	w.timer.Reset(in)
}

func (w *stallTimer) stop() { w.timer.Stop() }

// uptime is a monotonic clock in ns.
func (s *Server) uptime() int64 { return int64(time.Since(s.startedAt)) }

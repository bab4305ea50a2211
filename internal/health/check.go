package health

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxCheckBody bounds what is read of a check's answer.
const maxCheckBody = 64 << 10

// Check is a request that an engine answers while it is well. The zero value of
// a field but URL means its default.
type Check struct {
	URL       string        // fetched with GET; any 2xx means well, a redirect does not
	Header    http.Header   // sent with it
	Every     time.Duration // from the end of one check to the next, ±20 %; 5 s
	Timeout   time.Duration // for the whole answer; 2 s
	Healthy   int           // good checks in a row that bring the target back; 1
	Unhealthy int           // failed checks in a row that take the target out; 2
}

func (c Check) withDefaults() Check {
	orDefault(&c.Every, 5*time.Second)
	orDefault(&c.Timeout, 2*time.Second)
	orDefault(&c.Healthy, 1)
	orDefault(&c.Unhealthy, 2)
	return c
}

func orDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

func (c Check) equal(d Check) bool {
	return c.URL == d.URL && c.Every == d.Every && c.Timeout == d.Timeout && c.Healthy == d.Healthy && c.Unhealthy == d.Unhealthy &&
		maps.EqualFunc(c.Header, d.Header, slices.Equal)
}

// watch is the check of a target, where it has one.
type watch struct {
	failed atomic.Bool

	mu    sync.Mutex
	check Check
	stop  context.CancelFunc // nil: nobody watches
}

// Watch checks the target from now on, by c instead of what was before. A Check
// without URL ends it. The same check again changes nothing. It returns an error
// for a URL that cannot be asked.
func (t *Target) Watch(c Check) error {
	if c.URL == "" {
		t.unwatch()
		return nil
	}
	c = c.withDefaults()
	req, err := http.NewRequestWithContext(t.fleet.ctx, http.MethodGet, c.URL, http.NoBody)
	if err != nil {
		return fmt.Errorf("health check of %s: %w", t.id, err)
	}
	c.Header = c.Header.Clone()
	maps.Copy(req.Header, c.Header)
	t.fleet.mu.Lock() // Close waits for all that were begun before it
	defer t.fleet.mu.Unlock()
	w := &t.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.fleet.ctx.Err() != nil || w.stop != nil && w.check.equal(c) {
		return nil
	}
	if w.stop != nil {
		w.stop()
	}
	ctx, cancel := context.WithCancel(t.fleet.ctx)
	w.check, w.stop = c, cancel
	t.fleet.checks.Go(func() { t.run(ctx, c, req) })
	return nil
}

// unwatch ends the check. Nobody knows any more that the target is down.
func (l *live) unwatch() {
	l.watch.mu.Lock()
	defer l.watch.mu.Unlock()
	if l.watch.stop == nil {
		return
	}
	l.watch.stop()
	l.watch.stop = nil
	l.watch.failed.Store(false)
}

// run checks until its context ends. The first check comes soon, but not with
// those of all others that were configured at the same moment.
func (l *live) run(ctx context.Context, c Check, req *http.Request) {
	timer := time.NewTimer(time.Duration(l.fleet.rand() * float64(min(c.Every, time.Second))))
	defer timer.Stop()
	row := 0 // of equal outcomes: good ones above zero, failed ones below
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := l.fleet.now()
		if l.ask(ctx, c, req) {
			row = max(row, 0) + 1
		} else {
			row = min(row, 0) - 1
		}
		l.conclude(ctx, c, row, began)
		timer.Reset(l.fleet.jitter(c.Every))
	}
}

// conclude acts on the outcome of a check, unless it has been replaced meanwhile.
func (l *live) conclude(ctx context.Context, c Check, row int, began instant) {
	l.watch.mu.Lock()
	defer l.watch.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case row <= -c.Unhealthy:
		l.watch.failed.Store(true)
	case row >= c.Healthy:
		l.watch.failed.Store(false)
		l.outlier.checked(began)
	}
}

// ask makes one check. It speaks to the transport, which follows no redirect.
func (l *live) ask(ctx context.Context, c Check, req *http.Request) bool {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	resp, err := l.fleet.transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxCheckBody))
	return err == nil && resp.StatusCode >= 200 && resp.StatusCode < 300
}

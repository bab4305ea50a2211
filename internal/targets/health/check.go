package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
)

// maxCheckBody limits how many bytes of a check's response are read.
const maxCheckBody = 64 << 10

// Check is an active health check. The zero value of a field other than URL means its
// default.
type Check struct {
	URL       string        // requested with GET; any 2xx is healthy, a redirect is not
	Header    http.Header   // of the request
	Signer    Signer        // sets the credential of every request; default none
	Every     time.Duration // from the end of one check to the next, ±20 %; default 5 s
	Timeout   time.Duration // for the whole response; default 2 s
	Healthy   int           // successful checks in a row that bring the target back; default 1
	Unhealthy int           // failed checks in a row that take the target out; default 2
}

// Signer sets a credential that changes.
type Signer interface {
	Sign(ctx context.Context, req *http.Request, body []byte) error
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
	return c.URL == d.URL && c.Signer == d.Signer && c.Every == d.Every && c.Timeout == d.Timeout && c.Healthy == d.Healthy && c.Unhealthy == d.Unhealthy &&
		maps.EqualFunc(c.Header, d.Header, slices.Equal)
}

// watch is the health check of a target.
type watch struct {
	failed atomic.Bool

	mu    sync.Mutex
	check Check
	stop  context.CancelFunc // nil: there is no check
}

// Watch starts a health check of the target in place of an earlier one. A Check
// without URL stops the earlier one. An equal Check changes nothing. Watch returns an
// error if the URL is invalid.
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
	t.fleet.mu.Lock() // Close waits for all checks that were started before it
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

// unwatch stops the check and forgets its result.
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

// run checks the target until ctx ends. The first check comes after a random delay of
// up to a second, so that the checks of one configuration are spread out.
func (l *live) run(ctx context.Context, c Check, req *http.Request) {
	timer := time.NewTimer(time.Duration(l.fleet.rand() * float64(min(c.Every, time.Second))))
	defer timer.Stop()
	row := 0 // equal outcomes in a row: positive for successes, negative for failures
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := l.fleet.now()
		if err := crash.Try(l.fleet.logger, func() error { return l.probe(ctx, c, req) }, "target", l.id); err == nil {
			row = max(row, 0) + 1
		} else {
			row = min(row, 0) - 1
			if ctx.Err() == nil {
				l.noteError("health check: " + err.Error())
			}
		}
		l.conclude(ctx, c, row, began)
		timer.Reset(l.fleet.jitter(c.Every))
	}
}

// conclude applies the outcome of a check, unless the check has been replaced.
func (l *live) conclude(ctx context.Context, c Check, row int, began instant) {
	l.watch.mu.Lock()
	defer l.watch.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case row <= -c.Unhealthy:
		l.watch.failed.Store(true)
		l.wentOut(verdict{grade: checkFailed})
	case row >= c.Healthy:
		failed, ejected := l.watch.failed.Swap(false), l.outlier.checked(began)
		if failed || ejected {
			l.warmUp(l.fleet.now())
		}
		l.checkPassed()
	}
}

// probe makes one check. It uses the transport directly, which follows no redirect.
// The error names the cause for operators and quotes nothing of the response.
func (l *live) probe(ctx context.Context, c Check, req *http.Request) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if req = req.WithContext(ctx); c.Signer != nil {
		req.Header = req.Header.Clone()
		if err := c.Signer.Sign(ctx, req, nil); err != nil {
			return errors.New("no credential")
		}
	}
	resp, err := l.fleet.transport.RoundTrip(req)
	if err != nil {
		return errors.New(cause(ctx, err))
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxCheckBody)); err != nil {
		return errors.New(cause(ctx, err))
	}
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		return fmt.Errorf("HTTP %d", resp.StatusCode)
	}
	return nil
}

// cause names why a check got no whole response.
func cause(ctx context.Context, err error) string {
	var dial *net.OpError
	switch {
	case ctx.Err() != nil:
		return "timeout"
	case errors.As(err, &dial) && dial.Op == "dial":
		return "no connection"
	}
	return "broken response"
}

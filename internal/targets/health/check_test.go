package health

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// onTrip is a transport that calls a function before each check. At that time the effects
// of earlier checks are visible.
type onTrip struct {
	next http.RoundTripper
	tell func(n int, r *http.Request)
	n    atomic.Int64
}

func (o *onTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	o.tell(int(o.n.Add(1)), r)
	return o.next.RoundTrip(r)
}

// watched returns a target and a channel that receives its state before each check.
func watched(t *testing.T) (*Target, <-chan State) {
	t.Helper()
	var target *Target
	states := make(chan State)
	hook := &onTrip{next: &http.Transport{DisableKeepAlives: true}, tell: func(_ int, r *http.Request) {
		select {
		case states <- target.State():
		case <-r.Context().Done():
		}
	}}
	f := NewFleet(Options{Transport: hook})
	t.Cleanup(f.Close)
	target = f.Target("a", "g", "k")
	return target, states
}

func quick(url string) Check {
	return Check{URL: url, Every: ms, Timeout: 10 * time.Second, Unhealthy: 1}
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func watch1(t *testing.T, target *Target, c Check) {
	t.Helper()
	if err := target.Watch(c); err != nil {
		t.Fatal(err)
	}
}

func TestCheckRemovesAndRestoresTheTarget(t *testing.T) {
	// Two equal results in a row change the state, in both directions; they also end an
	// ejection.
	script := []struct {
		before string
		answer int
	}{
		{Ejected, 200},
		{Ejected, 200},
		{"", 500},
		{"", 503},
		{CheckFailed, 200},
		{CheckFailed, 204},
		{"", 404},
		{"", 200},
		{"", 404},
		{"", 200},
	}
	var call atomic.Int64
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/health" || r.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("the check asks for %s %s with %q", r.Method, r.URL, r.Header.Get("Authorization"))
		}
		w.WriteHeader(script[(call.Add(1)-1)%int64(len(script))].answer)
	})
	target, states := watched(t)
	fail(target, Broken, ejectAfter)
	c := quick(url + "/health")
	c.Healthy, c.Unhealthy, c.Header = 2, 2, header("Authorization", "Bearer k")
	watch1(t, target, c)
	for i, step := range script {
		if got := <-states; got.Reason != step.before {
			t.Errorf("before check %d the state is %+v, want %q", i+1, got, step.before)
		}
	}
}

func TestCheckOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		well  bool
	}{
		"200":        {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }, true},
		"no content": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, true},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("x", 4096)); err != nil {
					return
				}
			}
		}, true},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				t.Error("the redirect was followed")
			}
			http.Redirect(w, r, "/login", http.StatusFound)
		}, false},
		"500":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, false},
		"404":     {http.NotFound, false},
		"aborted": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "ok")
			panic(http.ErrAbortHandler)
		}, false},
		"silent": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, false},
		"stuck": {func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			target, states := watched(t)
			check := quick(serve(t, c.serve))
			if name == "silent" || name == "stuck" {
				check.Timeout = 20 * ms
			}
			target.watch.failed.Store(c.well) // start from the opposite state
			watch1(t, target, check)
			<-states
			if got := <-states; got.Ready != c.well {
				t.Errorf("after the first check the state is %+v", got)
			}
		})
	}
}

func TestCheckFailsWithoutAServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	_ = l.Close()
	target, states := watched(t)
	watch1(t, target, quick(url))
	<-states
	if got := <-states; got.Reason != CheckFailed {
		t.Errorf("the state of a closed port is %+v", got)
	}
}

func TestChecksChange(t *testing.T) {
	asked := make(chan string)
	ask := func(name string) string {
		return serve(t, func(_ http.ResponseWriter, r *http.Request) {
			select {
			case asked <- name:
			case <-r.Context().Done():
			}
		})
	}
	one, two := quick(ask("one")), quick(ask("two"))
	f := NewFleet(Options{})
	defer f.Close()
	target := f.Target("a", "g", "k")
	if err := target.Watch(Check{URL: "http://\x00"}); err == nil || !strings.Contains(err.Error(), "check of a") {
		t.Errorf("a bad URL gives %v", err)
	}
	watch1(t, target, one)
	if got := <-asked; got != "one" {
		t.Errorf("%s was asked", got)
	}
	watch1(t, f.Target("a", "g", "another key"), two)
	for got := range asked { // one check may still be in flight
		if got == "two" {
			break
		}
	}
	target.watch.failed.Store(true)
	watch1(t, target, Check{})
	if s := target.State(); !s.Ready || target.watch.stop != nil {
		t.Errorf("without a check the state is %+v", s)
	}

	watch1(t, target, one)
	target.watch.failed.Store(true)
	f.Keep()
	if s := target.State(); !s.Ready || target.watch.stop != nil {
		t.Errorf("forgotten, the state is %+v", s)
	}
	f.Close()
	watch1(t, target, two) // must not start a second check; goleak would find it
}

type tripFunc func(*http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestChecksAreSpreadAndTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		f := NewFleet(Options{Transport: tripFunc(func(r *http.Request) (*http.Response, error) {
			at = append(at, time.Since(start))
			if len(at) > 20 {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return nil, errors.New("no")
		})})
		target := f.Target("a", "g", "k")
		watch1(t, target, Check{URL: "http://engine/health"})
		time.Sleep(5 * time.Minute) // fake time
		f.Close()
		if len(at) < 30 || at[0] > time.Second {
			t.Fatalf("checks were at %v", at)
		}
		different := false
		for i := 1; i < len(at); i++ {
			gap := at[i] - at[i-1]
			if i > 20 {
				gap -= 2 * time.Second // the check timed out
			}
			different = different || gap != at[1]-at[0]
			if gap < 4*time.Second || gap > 6*time.Second {
				t.Errorf("%v from check to check, want 5 s ±20 %%", gap)
			}
		}
		if !different {
			t.Error("the interval is not jittered")
		}
	})
}

func TestSameCheckIsNotRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var checks atomic.Int64
		f := NewFleet(Options{Transport: tripFunc(func(*http.Request) (*http.Response, error) {
			checks.Add(1)
			return nil, errors.New("no")
		})})
		defer f.Close()
		target := f.Target("a", "g", "k")
		c := Check{URL: "http://engine/health", Every: time.Hour, Header: header("A", "1")}
		// A restarted check sends its first request within a second.
		for i, want := range []int64{1, 1, 2, 3} {
			switch i {
			case 1:
				c.Header = header("A", "1")
			case 2:
				c.Header = header("A", "2")
			case 3:
				c.Unhealthy = 7
			}
			watch1(t, target, c)
			time.Sleep(time.Minute) // fake time
			if got := checks.Load(); got != want {
				t.Errorf("step %d: %d checks, want %d", i, got, want)
			}
		}
	})
}

func TestCheckThatWasReplacedConcludesNothing(t *testing.T) {
	l := newLab(t)
	a := l.Target("a", "g", "k")
	ctx, cancel := context.WithCancel(t.Context())
	a.conclude(ctx, Check{Healthy: 1, Unhealthy: 1}, -1, 1)
	if s := a.State(); s.Reason != CheckFailed {
		t.Errorf("the state is %+v", s)
	}
	cancel()
	a.conclude(ctx, Check{Healthy: 1, Unhealthy: 1}, 1, 1)
	if s := a.State(); s.Reason != CheckFailed {
		t.Errorf("afterwards the state is %+v", s)
	}
}

func TestCheckThatBeganBeforeTheEjectionDoesNotEndIt(t *testing.T) {
	l := newLab(t)
	a := l.Target("a", "g", "k")
	began := l.now()
	l.pass(time.Second)
	fail(a, Server, ejectAfter)
	a.outlier.checked(began)
	l.want(t, a, Ejected, 30*time.Second)
	l.pass(time.Second)
	a.outlier.checked(l.now())
	l.want(t, a, "", 0)
	fail(a, Server, ejectAfter)
	l.want(t, a, Ejected, 60*time.Second) // the number of ejections is kept
}

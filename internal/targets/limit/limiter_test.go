package limit

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// enter takes a slot, which must be free.
func enter(t *testing.T, l *Limiter, key string, class Class) Permit {
	t.Helper()
	p, refusal := l.Enter(context.Background(), Caller{Key: key, Class: class})
	if refusal != nil {
		t.Fatalf("%s of %q was refused: %v", class, key, refusal)
	}
	return p
}

// refused checks that a request is rejected at once with a reason. Use it in a bubble.
func refused(t *testing.T, l *Limiter, key string, class Class, reason string) *Refusal {
	t.Helper()
	start := time.Now()
	p, refusal := l.Enter(context.Background(), Caller{Key: key, Class: class})
	if refusal == nil {
		p.Release()
		t.Fatalf("%s of %q was let in, want a refusal for %s", class, key, reason)
	}
	if refusal.Reason != reason {
		t.Errorf("%s of %q was refused for %s, want %s", class, key, refusal.Reason, reason)
	}
	if waited := time.Since(start); waited != 0 {
		t.Errorf("%s of %q was refused after %v, want it at once", class, key, waited)
	}
	return refusal
}

func use(c Config) *Limiter {
	if c.Memory == 0 {
		c.Memory = -1
	}
	l := New()
	l.Use(c)
	return l
}

func TestClassNames(t *testing.T) {
	for c := range Class(classes) {
		if got, ok := ParseClass(c.String()); !ok || got != c {
			t.Errorf("ParseClass(%q) = %v, %v", c, got, ok)
		}
	}
	if c, ok := ParseClass("urgent"); ok || c != Normal {
		t.Errorf(`ParseClass("urgent") = %v, %v`, c, ok)
	}
	if s := Class(7).String(); s != "normal" {
		t.Errorf("a value that is no class is %q", s)
	}
}

// TestLimitsWithoutQueue opens some requests in each case and checks whether one more is
// admitted.
func TestLimitsWithoutQueue(t *testing.T) {
	cases := []struct {
		name   string
		config Config
		open   []string // keys of the open requests
		key    string
		class  Class
		want   string // reason of the rejection; empty: admitted
	}{
		{"no limits", Config{Requests: -1}, []string{"a", "a", "b"}, "a", Sheddable, ""},
		{"below the process's limit", Config{Requests: 3}, []string{"a", "a"}, "a", Normal, ""},
		{"at the process's limit", Config{Requests: 3}, []string{"a", "a", "b"}, "c", Normal, Process},
		{"the reserve is not for normal", Config{Requests: 5}, []string{"a", "a", "b", "b"}, "c", Normal, Process},
		{"the reserve is not for sheddable", Config{Requests: 5}, []string{"a", "a", "b", "b"}, "c", Sheddable, Process},
		{"the reserve is for critical", Config{Requests: 5}, []string{"a", "a", "b", "b"}, "c", Critical, ""},
		{"critical has its limit too", Config{Requests: 3}, []string{"a", "a", "b"}, "c", Critical, Process},
		{"at the key's limit", Config{Requests: 9, PerKey: 2}, []string{"a", "a"}, "a", Critical, Key},
		{"another key's limit", Config{Requests: 9, PerKey: 2}, []string{"a", "a"}, "b", Normal, ""},
		{"nobody has no limit", Config{Requests: 9, PerKey: 2}, []string{"", ""}, "", Normal, ""},
		{"descriptors", Config{}, []string{"a"}, "a", Normal, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := use(c.config)
				for _, key := range c.open {
					defer enter(t, l, key, Normal).Release()
				}
				if c.want == "" {
					enter(t, l, c.key, c.class).Release()
					return
				}
				r := refused(t, l, c.key, c.class, c.want)
				if r.RetryAfter < time.Second || r.RetryAfter > 30*time.Second {
					t.Errorf("RetryAfter is %v", r.RetryAfter)
				}
				if got := l.Snapshot().Process.Refused[c.want]; got != 1 {
					t.Errorf("%d refusals were counted, want 1", got)
				}
			})
		})
	}
}

func TestDescriptorsAreALimit(t *testing.T) {
	files, ok := openFiles()
	if !ok {
		t.Skip("this system does not say")
	}
	l := use(Config{})
	if got := l.Snapshot().Process.Limit; got < 1 || got > files/2 {
		t.Errorf("the limit is %d with %d descriptors", got, files)
	}
}

func TestPermitIsReleasedOnce(t *testing.T) {
	l := use(Config{Requests: 2, PerKey: 2})
	first, second := enter(t, l, "a", Normal), enter(t, l, "a", Normal)
	again := first
	var all sync.WaitGroup
	for range 8 {
		all.Go(first.Release)
		all.Go(again.Release)
	}
	all.Wait()
	if open := l.Snapshot().Process.Open; open != 1 {
		t.Fatalf("%d are open, want 1", open)
	}
	// The first permit is recycled; releasing it again must not release the permit that
	// reuses it.
	third := enter(t, l, "a", Normal)
	first.Release()
	if open := l.Snapshot().Process.Open; open != 2 {
		t.Fatalf("%d are open, want 2", open)
	}
	second.Release()
	third.Release()
	Permit{}.Release()
	Permit{}.FirstToken(time.Second)
	Permit{}.Failed()
	if open := l.Snapshot().Process.Open; open != 0 {
		t.Errorf("%d are open, want none", open)
	}
}

func TestTargets(t *testing.T) {
	l := use(Config{PerTarget: 2})
	a := l.Target("a", 1)
	p, ok := a.TryEnter(Caller{Class: Normal})
	if !ok {
		t.Fatal("an empty target is full")
	}
	if _, ok := a.TryEnter(Caller{Class: Critical}); ok {
		t.Error("a target with one place gave two")
	}
	if _, refusal := a.Enter(context.Background(), Caller{Key: "k", Class: Normal}); refusal == nil || refusal.Reason != Upstream {
		t.Errorf("the refusal is %v", refusal)
	}
	if l.Target("a", 2) != a {
		t.Error("a target is another after its limit changed")
	}
	q, ok := a.TryEnter(Caller{Class: Normal})
	if !ok {
		t.Error("a raised limit has no effect")
	}
	l.Use(Config{PerTarget: 2, Memory: -1})
	if got := l.Snapshot().Targets["a"]; got.Open != 2 || got.Limit != 2 || got.Refused[Upstream] != 1 {
		t.Errorf("after a reload the target is %+v", got)
	}
	if got := l.Target("b", 0); got.gate.state().Limit != 2 {
		t.Errorf("a target without a limit of its own has %d", got.gate.state().Limit)
	}
	l.Forget("a")
	p.Release()
	q.Release()
	if _, ok := l.Snapshot().Targets["a"]; ok {
		t.Error("a target that was forgotten is still there")
	}
}

func TestRetryAfterIsSpread(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Millisecond, 4 * time.Second, time.Hour} {
		low, high := time.Hour, time.Duration(0)
		for range 1000 {
			d := retryAfter(wait)
			low, high = min(low, d), max(high, d)
		}
		if low < time.Second || high > 30*time.Second || low < min(wait, 20*time.Second) {
			t.Errorf("for a wait of %v clients return after %v to %v", wait, low, high)
		}
		if high < low*4/3 {
			t.Errorf("for a wait of %v clients return together, after %v to %v", wait, low, high)
		}
	}
}

func TestRefusalSaysWhatToDo(t *testing.T) {
	for _, reason := range []string{Process, Key, Upstream, Memory, Queue} {
		text := (&Refusal{Reason: reason, RetryAfter: 3 * time.Second}).Error()
		if !strings.Contains(text, "try again in 3s") {
			t.Errorf("%s: %s", reason, text)
		}
	}
}

func TestReloadAdmitsWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := use(Config{Requests: 1, Queue: 4, Wait: time.Minute})
		p := enter(t, l, "a", Normal)
		done := make(chan Permit)
		go func() { done <- enter(t, l, "b", Normal) }()
		synctest.Wait()
		l.Use(Config{Requests: 2, Queue: 4, Wait: time.Minute, Memory: -1})
		q := <-done
		if waited := l.Snapshot().Process; waited.Open != 2 || waited.Waiting != 0 {
			t.Errorf("after the reload: %+v", waited)
		}
		p.Release()
		q.Release()
	})
}

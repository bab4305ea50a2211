package fleet

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/balance"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

// logged returns a fleet and a function that returns the lines that it has logged since the
// last call, without their time.
func logged(t *testing.T) (*Fleet, func() string) {
	t.Helper()
	var log bytes.Buffer
	f := New(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	t.Cleanup(f.Close)
	return f, func() string {
		text := strings.TrimSpace(log.String())
		log.Reset()
		return text
	}
}

func TestTargetChangesAreLogged(t *testing.T) {
	f, log := logged(t)
	list := targets(t, "http://one", "a/x@y", "b/x")
	bind(f, limit.Config{}, &route.Route{Name: "m", Targets: list})
	for range 3 {
		Report(&list[0], limit.Permit{}, Outcome{Err: &llm.Error{Kind: llm.UpstreamAuth}, Status: 401})
	}
	until := list[0].Live.State().Until.UTC().Format(time.RFC3339)
	if got, want := log(), `level=WARN msg="target out of service" target=a/x@y reason="credential refused" error="HTTP 401" until=`+until; got != want {
		t.Errorf("logged %s\nwant   %s", got, want)
	}
	Report(&list[0], limit.Permit{}, Outcome{})
	if got := log(); !strings.HasPrefix(got, `level=INFO msg="target back in service" target=a/x@y outage=`) {
		t.Errorf("logged %s", got)
	}
}

// TestFallbackIsLogged checks that a model in fallback gives one line when it begins and
// one when it is over, and that requests of both targets in turn do not repeat them.
func TestFallbackIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, log := logged(t)
		r := &route.Route{Name: "m", Balance: balance.InOrder, Targets: targets(t, "http://one", "a/x", "b/x")}
		use := func() { bind(f, limit.Config{}, r) }
		use()
		f.Served(r, "a/x", true)
		if got := log(); got != "" {
			t.Errorf("the first target served, and %q is logged", got)
		}
		for range 12 {
			f.Served(r, "b/x", false)
			f.Served(r, "a/x", true)
			time.Sleep(time.Second)
		}
		if got, want := log(), `level=WARN msg="model served by a fallback target" model=m target=b/x`; got != want {
			t.Errorf("logged %s\nwant   %s", got, want)
		}
		use() // a reload does not end it
		time.Sleep(fallbackTest)
		f.Served(r, "a/x", true)
		f.Served(r, "a/x", true)
		if got, want := log(), `level=INFO msg="model served by its first target again" model=m target=a/x requests=12 duration=22s`; got != want {
			t.Errorf("logged %s\nwant   %s", got, want)
		}
		balanced := &route.Route{Name: "n", Balance: balance.Weighted, Targets: targets(t, "http://one", "a/x", "b/x")}
		bind(f, limit.Config{}, balanced)
		f.Served(balanced, "b/x", false)
		if got := log(); got != "" {
			t.Errorf("a balanced model has no first target, and %q is logged", got)
		}
	})
}

// fallbackTest is the time for which the first target must serve alone.
const fallbackTest = 10 * time.Second

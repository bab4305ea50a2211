package fleet

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/health"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

// TestShownState checks that a target is not shown as ready while nothing says that its requests succeed: one without a
// success among its recent requests is degraded, and a refused credential stays refused until a request succeeds,
// although both may be tried again before.
func TestShownState(t *testing.T) {
	broken, wrongKey := Outcome{Err: &llm.Error{Kind: llm.Upstream}, Status: 500}, Outcome{Err: &llm.Error{Kind: llm.UpstreamAuth}, Status: 401}
	for name, c := range map[string]struct {
		outcomes        []Outcome // one after another, 20 s apart
		after           time.Duration
		state           string
		succeeded, seen int64
	}{
		"no request":                   {nil, 0, Ready, 0, 0},
		"successes":                    {repeat(Outcome{}, 20), 0, Ready, 20, 20},
		"one of two":                   {[]Outcome{broken, {}}, 0, Ready, 1, 2},
		"the last failed":              {[]Outcome{{}, {}, broken}, 0, Failing, 2, 3},
		"0 of 34":                      {repeat(broken, 34), 3 * time.Minute, Degraded, 0, 34},
		"none, and then nothing":       {repeat(broken, 34), time.Hour, Failing, 0, 0},
		"19 of 19 are 401":             {repeat(wrongKey, 19), 11 * time.Minute, health.Refused, 0, 13},
		"401 a day ago":                {repeat(wrongKey, 19), 24 * time.Hour, health.Refused, 0, 0},
		"401, and then a success":      {append(repeat(wrongKey, 2), repeat(Outcome{}, 5)...), 0, Ready, 5, 7},
		"failures, and then a success": {append(repeat(broken, 30), Outcome{}), 5 * time.Minute, Degraded, 1, 31},
		"most succeed again":           {append(repeat(broken, 5), repeat(Outcome{}, 6)...), 5 * time.Minute, Ready, 6, 11},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := New(slog.New(slog.DiscardHandler))
				defer f.Close()
				r := &route.Route{Name: "m", Targets: targets(t, "http://one", "a/x")}
				bind(f, limit.Config{}, r)
				for _, o := range c.outcomes {
					Report(&r.Targets[0], limit.Permit{}, o)
					time.Sleep(20 * time.Second) // in the bubble
				}
				time.Sleep(c.after)
				if got := Explain(&r.Targets[0]); got.State != c.state || got.RecentGood != c.succeeded || got.Recent != c.seen {
					t.Errorf("%s: %d of %d; want %s: %d of %d", got.State, got.RecentGood, got.Recent, c.state, c.succeeded, c.seen)
				}
				if c.state == Degraded || c.state == health.Refused {
					if !r.Targets[0].Live.State().Ready {
						t.Error("the target may not be tried")
					}
				}
			})
		})
	}
}

func repeat(o Outcome, n int) (list []Outcome) {
	for range n {
		list = append(list, o)
	}
	return list
}

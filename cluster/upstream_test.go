package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// newDirect returns a cluster without gateways: its clients send to the upstream itself.
func newDirect(t *testing.T) (c *cluster, url string) {
	t.Helper()
	up, err := newUpstream()
	if err != nil {
		t.Fatal(err)
	}
	c = &cluster{up: up, http: testrig.NewClient("").HTTP}
	t.Cleanup(c.close)
	return c, "http://" + up.Addr + "/first"
}

// A client sees what the script says, and both sides record the same.
func TestScripts(t *testing.T) {
	c, url := newDirect(t)
	for name, x := range map[string]struct {
		r        request
		status   int
		tokens   int
		complete bool
		broken   bool
	}{
		"stream":       {request{stream: true, script: script{Say: 5}}, 200, 5, true, false},
		"whole":        {request{script: script{Say: 5}}, 200, 5, true, false},
		"disconnects":  {request{stream: true, leave: 2, script: script{Say: 50, Every: 5 * time.Millisecond}}, 200, 2, false, false},
		"500":          {request{script: script{Say: 5, Fault: errors500}}, 500, 0, false, false},
		"503":          {request{stream: true, script: script{Say: 5, Fault: errors503}}, 503, 0, false, false},
		"refused":      {request{script: script{Say: 5, Fault: refuses}}, 0, 0, false, true},
		"reset":        {request{stream: true, script: script{Say: 5, Fault: resets}}, 200, 0, false, true},
		"cut":          {request{stream: true, script: script{Say: 5, Fault: cuts, After: 3}}, 200, 3, false, true},
		"cut body":     {request{script: script{Say: 5, Fault: cuts}}, 200, 0, false, true},
		"other target": {request{stream: true, script: script{Say: 5, Fault: cuts, After: 3, Who: "second"}}, 200, 5, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			x.r.Tag, x.r.model = name, "m"
			e := c.sendTo(t.Context(), url, x.r)
			if e.status != x.status || e.tokens != x.tokens || e.complete != x.complete || (e.broken != nil) != x.broken || e.left != (x.r.leave > 0) {
				t.Errorf("%v", e)
			}
			var all []attempt
			if err := testrig.Until(t.Context(), 2*time.Second, "the upstream records no attempt", func() bool {
				all = c.up.attempts.Pick(func(a attempt) bool { return a.tag == name })
				return len(all) == 1
			}); err != nil {
				t.Fatal(err)
			}
			if a := all[0]; a.complete != x.complete || x.complete && a.tokens != x.tokens || a.tokens < e.tokens || a.try != 1 || a.who != "first" {
				t.Errorf("%+v", a)
			}
		})
	}
}

func TestOnlyTheFirstAttemptFails(t *testing.T) {
	c, url := newDirect(t)
	r := request{model: "m", script: script{Tag: "t", Say: 1, Fault: errors500, Times: 1}}
	for _, want := range []int{http.StatusInternalServerError, http.StatusOK} {
		if e := c.sendTo(t.Context(), url, r); e.status != want {
			t.Errorf("status %d, want %d", e.status, want)
		}
	}
}

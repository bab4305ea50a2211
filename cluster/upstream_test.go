package main

import (
	"context"
	"net/http"
	"testing"
	"time"
)

// A client that asks the upstream itself sees what the script says, and both write
// down the same.
func TestScripts(t *testing.T) {
	u, err := newUpstream()
	if err != nil {
		t.Fatal(err)
	}
	defer u.close()
	c := newClients()
	defer c.close()
	base := u.url("first")[:len(u.url("first"))-len("/v1")]
	for name, x := range map[string]struct {
		w      wish
		status int
		tokens int
		whole  bool
		broken bool
	}{
		"stream":      {wish{stream: true, script: script{Say: 5}}, 200, 5, true, false},
		"whole":       {wish{script: script{Say: 5}}, 200, 5, true, false},
		"left":        {wish{stream: true, leave: 2, script: script{Say: 50, Every: 5 * time.Millisecond}}, 200, 2, false, false},
		"500":         {wish{script: script{Say: 5, Fault: errors500}}, 500, 0, false, false},
		"503":         {wish{stream: true, script: script{Say: 5, Fault: errors503}}, 503, 0, false, false},
		"refused":     {wish{script: script{Say: 5, Fault: refuses}}, 0, 0, false, true},
		"reset":       {wish{stream: true, script: script{Say: 5, Fault: resets}}, 200, 0, false, true},
		"cut":         {wish{stream: true, script: script{Say: 5, Fault: cuts, After: 3}}, 200, 3, false, true},
		"cut whole":   {wish{script: script{Say: 5, Fault: cuts}}, 200, 0, false, true},
		"not its own": {wish{stream: true, script: script{Say: 5, Fault: cuts, After: 3, Who: "second"}}, 200, 5, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			x.w.Tag, x.w.model = name, "m"
			a := c.ask(t.Context(), base, x.w)
			if a.status != x.status || a.tokens != x.tokens && name != "cut whole" || a.whole != x.whole || (a.broken != nil) != x.broken || a.left != (x.w.leave > 0) {
				t.Errorf("%+v", a)
			}
			err := until(t.Context(), 2*time.Second, "the upstream has written nothing down", func() bool {
				return count(u.history.list(), func(s served) bool { return s.tag == name }) == 1
			})
			if err != nil {
				t.Fatal(err)
			}
			s := u.history.pick(func(s served) bool { return s.tag == name })[0]
			if s.whole != x.whole || x.whole && s.tokens != x.tokens || s.tokens < a.tokens && name != "cut whole" || s.try != 1 || s.who != "first" {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Only the first attempts fail where the script says so.
func TestOnlyTheFirstAttemptFails(t *testing.T) {
	u, err := newUpstream()
	if err != nil {
		t.Fatal(err)
	}
	defer u.close()
	c := newClients()
	defer c.close()
	base := u.url("first")[:len(u.url("first"))-len("/v1")]
	w := wish{script: script{Tag: "t", Say: 1, Fault: errors500, Times: 1}}
	for _, want := range []int{http.StatusInternalServerError, http.StatusOK} {
		if a := c.ask(context.Background(), base, w); a.status != want {
			t.Errorf("status %d, want %d", a.status, want)
		}
	}
}

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// starveTime is how long one client tries to keep the others out, at least until starveLeast
// requests of another were sent. starveShare is the part of them that must succeed meanwhile.
const (
	starveTime  = 1800 * time.Millisecond
	starveLeast = 10
	starveShare = 0.9
)

// shared is the script of the model that the attacker and the victim use. The prompt says
// what the upstream does.
func shared(c *testrig.Call) bool {
	body := string(c.Body)
	for word, status := range map[string]int{"fail-429": 429, "fail-500": 500, "fail-503": 503, "fail-529": 529, "fail-400": 400, "fail-408": 408} {
		if strings.Contains(body, word) {
			return c.Error(status, "no")
		}
	}
	switch {
	case strings.Contains(body, "silent"):
		return c.Hold()
	case strings.Contains(body, "hold"):
		return c.StartStream() && c.Chunks(c.Reply("up").Stream().All()[0]) && c.Hold()
	case strings.Contains(body, "flood"):
		all := c.Reply("up").Stream().All()
		ok := c.StartStream() && c.Chunks(all[0])
		for range 500 {
			ok = ok && c.Chunks(strings.Repeat(all[1], 100))
		}
		return ok && c.Chunks(all[1:]...) && c.End()
	case strings.Contains(body, "reset"):
		return c.Reset()
	case strings.Contains(body, "late"):
		c.Wait(700 * time.Millisecond)
	}
	return testrig.Answer("up")(c)
}

// starvation is what one client does to keep others out.
type starvation struct {
	prompt  string
	stream  bool
	clients int           // at a time
	read    bool          // reads its responses; else it holds them
	abort   time.Duration // after which it closes the connection; 0: never
}

func starvations() map[string]starvation {
	all := map[string]starvation{
		"streams-held":    {prompt: "hold", stream: true, clients: 150, read: true},
		"silent-stream":   {prompt: "silent", stream: true, clients: 150, read: true},
		"silent-response": {prompt: "silent", clients: 150, read: true},
		"slow-reader":     {prompt: "flood", stream: true, clients: 70},
		"aborted-early":   {prompt: "silent", stream: true, clients: 40, read: true, abort: 20 * time.Millisecond},
		"aborted-stream":  {prompt: "hold", stream: true, clients: 40, read: true, abort: 100 * time.Millisecond},
		"late":            {prompt: "late", clients: 60, read: true},
		"late-stream":     {prompt: "late", stream: true, clients: 60, read: true},
		"reset":           {prompt: "reset", clients: 10, read: true},
	}
	for _, status := range []string{"400", "408", "429", "500", "503", "529"} {
		all["fail-"+status] = starvation{prompt: "fail-" + status, clients: 10, read: true}
	}
	return all
}

func starveAttacks() (all []attack) {
	for name, s := range starvations() {
		all = append(all, attack{name: "starve/" + name, do: s.run, unproven: "the weak gateway has no limits"})
	}
	return all
}

// run attacks with one key and measures another.
func (s starvation) run(ctx context.Context, r *rig) *evidence {
	e := &evidence{sent: fmt.Sprintf("%+v", s)}
	if r.weak {
		return e
	}
	r.script("shared", shared)
	victim := func() *evidence { return r.send(ctx, sharedRequest("full", "hi", false)) }
	testrig.NoError(testrig.Until(ctx, storeRecover, "the victim is not served before the attack", func() bool { return victim().status == 200 }))
	attack, stop := context.WithCancel(ctx)
	defer stop()
	var attackers sync.WaitGroup
	var sent atomic.Int64
	for range s.clients {
		attackers.Go(func() {
			for attack.Err() == nil {
				sent.Add(1)
				s.once(attack, r)
				testrig.Pause(attack, 20*time.Millisecond)
			}
		})
	}
	testrig.NoError(testrig.Until(ctx, storeRecover, "the attack does not begin", func() bool { return sent.Load() >= int64(s.clients) }))
	testrig.Pause(ctx, starveTime/4)
	var statuses []int
	var slowest time.Duration
	late := 0
	for end := time.Now().Add(starveTime); (time.Now().Before(end) || len(statuses) < starveLeast) && ctx.Err() == nil; {
		began := time.Now()
		got := &evidence{}
		if !r.inTime(ctx, storeTime, func() { got = victim() }) {
			late++
		}
		slowest = max(slowest, time.Since(began))
		statuses = append(statuses, got.status)
		testrig.Pause(ctx, 30*time.Millisecond)
	}
	stop()
	attackers.Wait()
	served := testrig.Count(statuses, func(n int) bool { return n == 200 })
	slices.Sort(statuses)
	e.note = fmt.Sprintf("%d requests of the attacker; %d of %d of another key served, the slowest took %v", sent.Load(), served, len(statuses), slowest.Round(time.Millisecond))
	e.problem(float64(served) < starveShare*float64(len(statuses)), "%s: %v", e.note, slices.Compact(statuses))
	e.problem(late > 0, "%d requests of another key were late: %s", late, e.note)
	return e
}

func sharedRequest(key, prompt string, stream bool) request {
	q := testrig.Query{Model: "chat/shared", Prompt: prompt, Stream: stream, MaxTokens: 5}
	return request{path: testrig.Chat.Path(q.Model, stream), body: testrig.Chat.Body(q), key: key}
}

// once sends one request of the attacker.
func (s starvation) once(ctx context.Context, r *rig) {
	conn, err := r.dial(ctx, false, "")
	if err != nil {
		return
	}
	defer conn.Close()
	end := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer end()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4096) // of a client that does not read; best effort
	}
	if _, err := io.WriteString(conn, sharedRequest("foreign", s.prompt, s.stream).text(r)); err != nil {
		return
	}
	switch {
	case s.abort > 0:
		testrig.Pause(ctx, s.abort)
	case s.read:
		_, _ = io.Copy(io.Discard, conn) // until it ends
	default:
		<-ctx.Done()
	}
}

// starveConfig is a gateway whose limits are small enough for one client to reach.
func starveConfig(r *rig) *config {
	c := tenantStore(r)
	c.top = append(c.top, "overload: { requests: 60, adaptive: true, queue: 100, wait: 2s }")
	return c
}

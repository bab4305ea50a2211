package engines

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/e2e/gosdk"
	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// TestKilled has two engines behind one model name and kills one of them while both
// are at work. Who had not got a word yet gets the whole answer from the other; who had
// is told that it broke off. Nobody gets half an answer that looks whole.
func TestKilled(t *testing.T) {
	weights := rig.ScriptedWeights(t, countdown()...)
	first := rig.StartEngine(t, rig.EngineOptions{Weights: weights, Slots: 4})
	second := rig.StartEngine(t, rig.EngineOptions{Weights: weights, Slots: 4})
	g := rig.StartGateway(t, rig.Build(t), pair(first, second))

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load tally
	var running sync.WaitGroup
	for _, u := range upstreams {
		for i, c := range clients(t, g) {
			running.Go(func() { load.run(ctx, c, u, i%2 == 0) })
		}
	}
	load.wait(t, 48)
	if first.Busy(t) == 0 || second.Busy(t) == 0 {
		t.Error("an engine has nothing to do, so killing it shows nothing")
	}
	first.Kill()
	load.wait(t, 192)
	stop()
	running.Wait()

	moved := strings.Count(g.Log(), `"attempts":2`)
	t.Logf("%d answers, %d of them after a second attempt; %d broke off, all of them begun", load.whole, moved, load.broken)
	for _, wrong := range load.wrong {
		t.Error(wrong)
	}
	if moved == 0 {
		t.Error("nobody was waiting for the engine that was killed, so this shows nothing")
	}
}

// countdown is an answer that takes its time, from 60 to 1.
func countdown() []string {
	var pieces []string
	for i := 60; i > 0; i-- {
		pieces = append(pieces, fmt.Sprintf("%d, ", i))
	}
	return pieces
}

// pair is a configuration with one model for each of the engines' dialects, on both.
func pair(first, second *rig.Engine) string {
	var providers, models strings.Builder
	for _, u := range upstreams {
		for name, e := range map[string]*rig.Engine{"first": first, "second": second} {
			fmt.Fprintf(&providers, "  %s-%s: { protocol: %s, base_url: %q, upstream_stream: always }\n", name, u, u, e.URL+rig.DialectNamed(u).SDKPath)
		}
		fmt.Fprintf(&models, "  both-%s: { targets: [ first-%s/smol, second-%s/smol ], balance: least-busy }\n", u, u, u)
	}
	return "keys: [ " + rig.ClientKey + " ]\nproviders:\n" + providers.String() + "models:\n" + models.String()
}

// tally is what has come of a load.
type tally struct {
	mu            sync.Mutex
	whole, broken int
	wrong         []string
}

// run asks again and again, streamed every other time, until ctx ends.
func (l *tally) run(ctx context.Context, c *client, upstream string, stream bool) {
	want := strings.Join(countdown(), "")
	for ctx.Err() == nil {
		said := 0
		q := gosdk.Request{Model: "both-" + upstream, Prompt: "Count down from 60.", MaxTokens: 100, Stream: stream, Piece: func(string) bool { said++; return false }}
		a, err := c.ask(ctx, q)
		if ctx.Err() != nil {
			return
		}
		l.note(c, q, a.Text == want && a.Finish == ended, said > 0, err)
		stream = !stream
	}
}

func (l *tally) note(c *client, q gosdk.Request, whole, begun bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && whole:
		l.whole++
	case err != nil && begun:
		l.broken++
	case err != nil:
		l.wrong = append(l.wrong, fmt.Sprintf("%s, model %s, stream %v: failed before it had begun: %v\n%s", c.Dialect, q.Model, q.Stream, err, c.last))
	default:
		l.wrong = append(l.wrong, fmt.Sprintf("%s, model %s, stream %v: half an answer looks whole\n%s", c.Dialect, q.Model, q.Stream, c.last))
	}
}

// wait waits for a number of complete answers.
func (l *tally) wait(t *testing.T, answers int) {
	t.Helper()
	err := testrig.Until(t.Context(), time.Minute, fmt.Sprintf("there are no %d answers", answers), func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.whole >= answers
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTakenUp kills the engine in the middle of a stream, with real weights. Where the
// model is to be continued, the other engine goes on from there, and the client has the
// same text as if nothing had happened.
func TestTakenUp(t *testing.T) {
	bin := rig.Build(t)
	spare := rig.StartEngine(t, rig.EngineOptions{})
	q := gosdk.Request{Model: "both", Prompt: "Write two sentences about rain.", MaxTokens: 100, Stream: true}
	whole := q
	whole.Model = spare.Model
	want, err := newClient(t, spare.URL+"/v1", gosdk.Chat).ask(t.Context(), whole)
	if err != nil {
		t.Fatal(err)
	}
	for i, dialect := range spoken {
		t.Run(dialect, func(t *testing.T) {
			first := rig.StartEngine(t, rig.EngineOptions{})
			g := rig.StartGateway(t, bin, "keys: [ "+rig.ClientKey+" ]\nproviders:\n"+
				"  first: { preset: llamacpp, base_url: "+first.URL+"/v1 }\n  spare: { preset: llamacpp, base_url: "+spare.URL+"/v1 }\n"+
				"models:\n  both: { targets: [ first/smol, spare/smol ], continue: true }\n")
			pieces := 0
			q := q
			q.Piece = func(string) bool {
				if pieces++; pieces == 8 {
					first.Kill()
				}
				return false
			}
			got := clients(t, g)[i].must(t, q)
			if got.Text != want.Text || got.Finish != ended {
				t.Errorf("the client has %q, which ends by %s, want %q", got.Text, got.Finish, want.Text)
			}
			if err := testrig.Until(t.Context(), 5*time.Second, "the log has no continued request", func() bool { return strings.Contains(g.Log(), `"continued":1`) }); err != nil {
				t.Error(err)
			}
		})
	}
}

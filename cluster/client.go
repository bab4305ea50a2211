package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/sse"
)

// request is what a client sends. The script travels in the prompt to the upstream.
type request struct {
	key        key
	model      string
	node       int
	maxTokens  int    // 0 means as many as the script says
	stream     bool   // ask for a stream
	translated bool   // in the Messages dialect, not in the upstream's own
	leave      int    // disconnect after this many tokens; 0 stays
	once       string // Idempotency-Key
	more       string // further text of the prompt

	script
}

func (r request) dialect() testrig.Dialect {
	if r.translated {
		return testrig.Messages
	}
	return testrig.Chat
}

// query returns the request as the rig sends it.
func (r request) query() testrig.Query {
	text, err := json.Marshal(r.script)
	if err != nil {
		panic(err) // the script has plain fields
	}
	q := testrig.Query{Model: r.model, Stream: r.stream, MaxTokens: r.maxTokens, Prompt: scriptMark + string(text) + r.more}
	if q.MaxTokens == 0 {
		q.MaxTokens = max(r.Say, 1)
	}
	return q
}

// exchange is one request as its client saw it.
type exchange struct {
	tag  string
	node int
	key  string // its id

	id       string // as the gateway named the request; empty without a response
	status   int    // 0 without a response
	code     string // of an error
	hint     string // Retry-After
	tokens   int    // words received
	bytes    int64
	complete bool  // the answer came to its end
	replayed bool  // it repeats an earlier answer with the same Idempotency-Key
	left     bool  // the client disconnected, as its request says
	broken   error // the connection failed
	body     string

	at   time.Time
	took time.Duration
}

// good reports whether the client has what it asked for.
func (e exchange) good() bool {
	return e.status == http.StatusOK && (e.complete || e.left) && e.broken == nil && e.code == ""
}

// refused reports whether a limit rejected the request.
func (e exchange) refused() bool {
	return e.status == http.StatusTooManyRequests || e.status == http.StatusPaymentRequired
}

func (e exchange) String() string {
	return fmt.Sprintf("%s on node %d: status %d, %q, %d tokens, complete %t, %v %s", e.tag, e.node+1, e.status, e.code, e.tokens, e.complete, e.broken, e.body)
}

var serial atomic.Int64

// tag returns a name that no other request has.
func tag(prefix string) string { return fmt.Sprintf("%s-%d", prefix, serial.Add(1)) }

// send sends a request to the node that it names and records what the client sees.
func (c *cluster) send(ctx context.Context, r request) exchange {
	return c.sendTo(ctx, c.nodes[r.node].URL, r)
}

func (c *cluster) sendTo(ctx context.Context, url string, r request) (e exchange) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e = exchange{tag: r.Tag, node: r.node, key: r.key.ID, at: time.Now()}
	defer func() {
		e.took = time.Since(e.at)
		c.exchanges.Add(e)
	}()
	headers := []string{"Authorization", "Bearer " + r.key.Key}
	if r.once != "" {
		headers = append(headers, "Idempotency-Key", r.once)
	}
	client := testrig.Client{URL: url, HTTP: c.http}
	resp, err := client.Open(ctx, r.dialect(), r.query(), headers...)
	if err != nil {
		e.broken = err
		return e
	}
	defer resp.Body.Close()
	e.status, e.id, e.hint = resp.StatusCode, resp.Header.Get(r.dialect().RequestIDHeader()), resp.Header.Get("Retry-After")
	e.replayed = resp.Header.Get("Idempotent-Replayed") != ""
	body := &counter{r: resp.Body, n: &e.bytes}
	if r.stream && e.status == http.StatusOK {
		e.readStream(body, r, cancel)
		return e
	}
	text, err := io.ReadAll(body)
	e.broken = err
	if e.status == http.StatusOK {
		o := r.dialect().Read(testrig.Response{Status: e.status, Header: resp.Header, Body: text}, false)
		e.tokens, e.complete = strings.Count(o.Text, word), err == nil && o.Complete()
	}
	if !e.complete {
		e.body, e.code = testrig.Clip(string(text), 400), errorCode(text)
	}
	return e
}

// counter counts the bytes that are read.
type counter struct {
	r io.Reader
	n *int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	*c.n += int64(n)
	return n, err
}

// errorCode returns the code of an error, or its type.
func errorCode(text []byte) string {
	var body struct {
		Error struct{ Code, Type string }
	}
	if json.Unmarshal(text, &body) != nil || body.Error.Code == "" {
		return body.Error.Type
	}
	return body.Error.Code
}

func (e *exchange) readStream(body io.Reader, r request, disconnect func()) {
	events := sse.NewReader(body, sse.Options{})
	last := []byte(map[testrig.Dialect]string{testrig.Chat: "[DONE]", testrig.Messages: `"message_stop"`}[r.dialect()])
	for {
		event, err := events.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) && !e.left {
				e.broken = err
			}
			return
		}
		switch {
		case bytes.Contains(event.Data, last):
			e.complete = true
		case bytes.Contains(event.Data, []byte(`"error"`)):
			e.code, e.body = "error event", testrig.Clip(string(event.Data), 400)
		default:
			e.tokens += bytes.Count(event.Data, []byte(word))
		}
		if r.leave > 0 && e.tokens >= r.leave && !e.complete {
			e.left = true
			disconnect()
			return
		}
	}
}

// bad describes the exchanges that are not as they should be.
func bad(all []exchange, ok func(exchange) bool) (problems []string) {
	for _, e := range all {
		if !ok(e) {
			problems = append(problems, e.String())
		}
	}
	return problems
}

// spend asks for this many tokens, all of which the upstream sends.
func (s *stage) spend(ctx context.Context, node int, k key, tokens int) exchange {
	return s.send(ctx, request{key: k, model: cheap, node: node, script: script{Tag: tag("spend"), Say: tokens}})
}

// exactly checks that this many tokens can be spent and not one more: one more is
// refused on the first node, as many are admitted on the second, and none on the third.
func (s *stage) exactly(ctx context.Context, k key, left int, within time.Duration) (took time.Duration, problems []string) {
	if left < 0 {
		return 0, []string{fmt.Sprintf("the budget is overspent by %d tokens", -left)}
	}
	if e := s.spend(ctx, 0, k, left+1); !e.refused() {
		problems = append(problems, fmt.Sprintf("%d tokens are left, and a request for one more is not refused: %v", left, e))
	}
	if left > 0 {
		var last exchange
		var late string
		took, late = waitFor(ctx, within, "", func() bool {
			last = s.spend(ctx, 1, k, left)
			return last.good() || !last.refused()
		})
		if late != "" || !last.good() {
			problems = append(problems, fmt.Sprintf("%d tokens are left, and a request for as many is not admitted after %v: %v", left, took.Round(time.Millisecond), last))
		}
	}
	return took, append(problems, s.nothingLeft(ctx, k))
}

// redisTimeout is how long a node waits for Redis before it enforces its share.
const redisTimeout = 50 * time.Millisecond

// nothingLeft checks that the third node refuses a request for one token. On a busy machine
// it may find Redis too slow and enforce its share, which its log or the time of the request
// shows. It is asked again then.
func (s *stage) nothingLeft(ctx context.Context, k key) (problem string) {
	for range 10 {
		before := s.outages()
		e := s.spend(ctx, 2, k, 1)
		if e.refused() {
			return ""
		}
		problem = fmt.Sprintf("nothing is left, and a request for a token is not refused: %v, in %v", e, e.took)
		if e.took < redisTimeout && s.redisShared() && s.outages() == before {
			return problem
		}
		testrig.Pause(ctx, time.Second)
	}
	return problem
}

// mostOpen is the number of requests of the background that are open at a time.
const mostOpen = 100

// background sends small requests to all nodes in turn until it is ended, and returns
// what its clients saw. A machine that is too busy for the rate gets fewer.
func (s *stage) background(ctx context.Context, rate float64, pick func(i int) (key, string)) (end func() []exchange) {
	offering, cancel := context.WithCancel(ctx)
	var seen testrig.History[exchange]
	open := make(chan struct{}, mostOpen)
	done := make(chan struct{})
	go func() {
		defer close(done)
		testrig.Offer(offering, rate, 0, func(i int) {
			select {
			case open <- struct{}{}:
			default:
				return
			}
			defer func() { <-open }()
			k, model := pick(i)
			seen.Add(s.send(ctx, request{key: k, model: model, node: i % len(s.nodes), script: script{Tag: tag("load"), Say: 2}}))
		})
	}()
	return func() []exchange {
		cancel()
		<-done
		return seen.List()
	}
}

// soon waits for a condition for as many turns of a node as take this time on a quiet machine.
// It returns how long that took, and a problem where the condition was not met.
func (s *stage) soon(ctx context.Context, node int, quiet time.Duration, message string, met func() bool) (time.Duration, string) {
	took, ok := s.nodes[node].Within(ctx, quiet, met)
	return took, testrig.Unless(ok, "%s after it has answered %v's worth of other requests, in %v", message, quiet, took)
}

// goal returns a goal that was missed, for Figures.
func goal(what string, took, most time.Duration) string {
	return testrig.When(took > most, "%s took %v, want at most %v", what, took.Round(time.Millisecond), most)
}

// waitFor waits for a condition. It returns how long that took, and a problem where the
// condition was not met.
func waitFor(ctx context.Context, within time.Duration, message string, met func() bool) (time.Duration, string) {
	began := time.Now()
	if err := testrig.Until(ctx, within, message, met); err != nil {
		return time.Since(began), err.Error()
	}
	return time.Since(began), ""
}

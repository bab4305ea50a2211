package relay

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/targets/balance"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// pair is a gateway whose model "m" has two targets: "up", the gateway's usual upstream,
// and "two".
type pair struct {
	*gateway
	two      *upstreamtest.Server
	provider *provider.Provider // the provider "two"
	route    *route.Route
}

func newPair(t testing.TB, changes ...func(*pair)) *pair {
	t.Helper()
	p := &pair{two: newUpstream(t)}
	base, err := url.Parse(p.two.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	p.gateway = newGateway(t, func(g *gateway) { g.state.Retries = exchange.Retries{Attempts: 3} })
	second := *p.gateway.provider
	second.Name, second.BaseURL = "two", base
	p.provider = &second
	p.route = &route.Route{Name: "m", Balance: balance.InOrder}
	for _, change := range changes {
		change(p)
	}
	for _, who := range []*provider.Provider{p.gateway.provider, p.provider} {
		p.route.Targets = append(p.route.Targets, route.Target{Provider: who, Model: "x", Weight: 1, Timeouts: who.Timeouts})
	}
	only := &route.Route{Name: "only", Balance: balance.InOrder, Continue: p.route.Continue, Targets: p.route.Targets[:1:1]}
	p.state.Routes = route.New([]*route.Route{p.route, only})
	p.relay.Use(p.state)
	return p
}

const (
	pairStream = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	pairPlain  = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
)

func chunkOf(text string) string {
	return fmt.Sprintf("data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", text)
}

func good(text string) upstreamtest.Script {
	return upstreamtest.Stream(chunkOf(text) + stopChunk + sentinel)
}

// TestFailover checks that a stream that fails before its first token fails over to the
// second target.
func TestFailover(t *testing.T) {
	role := "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"},\"finish_reason\":null}]}\n\n"
	for name, c := range map[string]struct {
		first upstreamtest.Script
		why   string
	}{
		"an error status":     {upstreamtest.JSON(500, `{"error":{"message":"x"}}`), "500"},
		"our credential":      {upstreamtest.JSON(401, `{"error":{"message":"x"}}`), "401"},
		"our account":         {upstreamtest.JSON(403, `{"error":{"message":"x"}}`), "403"},
		"too slow":            {upstreamtest.JSON(408, `{"error":{"message":"x"}}`), "408"},
		"a conflict":          {upstreamtest.JSON(409, `{"error":{"message":"x"}}`), "409"},
		"too early":           {upstreamtest.JSON(425, `{"error":{"message":"x"}}`), "425"},
		"a rate limit":        {upstreamtest.JSON(429, `{"error":{"message":"x"}}`), "429"},
		"no money":            {upstreamtest.JSON(429, `{"error":{"message":"x","code":"insufficient_quota"}}`), "429"},
		"overloaded":          {upstreamtest.JSON(503, `{"error":{"message":"x"}}`), "503"},
		"a slow upstream":     {upstreamtest.JSON(504, `{"error":{"message":"x"}}`), "504"},
		"overloaded, too":     {upstreamtest.JSON(529, `{"error":{"message":"x"}}`), "529"},
		"closed":              {func(*upstreamtest.Conn) {}, "upstream_no_answer"},
		"an error event":      {upstreamtest.Stream(role + "data: {\"error\":{\"message\":\"x\",\"code\":\"c\"}}\n\n"), "c"},
		"a role and an end":   {upstreamtest.Stream(role), "upstream_truncated"},
		"a role and a cut":    {upstreamtest.Break(role), "upstream_truncated"},
		"nothing":             {upstreamtest.Stream(""), "upstream_truncated"},
		"a page":              {func(c *upstreamtest.Conn) { c.Whole(200, "text/html", "<html>") }, "upstream_invalid_response"},
		"garbage in an event": {upstreamtest.Stream("data: {{{\n\n"), "upstream_invalid_response"},
		"elsewhere":           {upstreamtest.JSON(302, ""), "302"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.up.Answer(c.first)
			p.two.Answer(good("fine"))
			resp, body, err := p.post(t, chatPath, pairStream)
			if err != nil || body != chunkOf("fine")+stopChunk+sentinel {
				t.Errorf("%v %q", err, body)
			}
			if got, want := resp.Header.Get("Isogloss-Attempts"), `2;failed="up/x=`+c.why+`"`; got != want || resp.Header.Get("Isogloss-Target") != "two/x" {
				t.Errorf("%s %s, want %s", got, resp.Header.Get("Isogloss-Target"), want)
			}
			if strings.Contains(fmt.Sprint(resp.Header)+body, upstreamKey) {
				t.Error("the client sees the key")
			}
		})
	}
}

// TestNoFailover checks that a client error is returned without trying another target.
func TestNoFailover(t *testing.T) {
	for _, status := range []int{400, 404, 413, 422} {
		p := newPair(t)
		refusal := fmt.Sprintf(`{"error":{"message":"no %d","type":"invalid_request_error"}}`, status)
		p.up.Answer(upstreamtest.JSON(status, refusal))
		resp, body, _ := p.post(t, chatPath, pairPlain)
		if resp.StatusCode != status || body != refusal || len(p.two.Requests()) != 0 || len(p.up.Requests()) != 1 {
			t.Errorf("%d: %s %s, %d asked", status, resp.Status, body, len(p.two.Requests()))
		}
	}
}

// TestNoFailoverAfterFirstToken checks that a stream that fails after its first token
// ends with an error.
func TestNoFailoverAfterFirstToken(t *testing.T) {
	p := newPair(t)
	p.up.Answer(upstreamtest.Break(chunkOf("half")))
	_, body, _ := p.post(t, chatPath, pairStream)
	if code, _ := readErrorEvent(t, body, chunkOf("half")); code != "upstream_truncated" || len(p.two.Requests()) != 0 {
		t.Errorf("%s, %d asked", code, len(p.two.Requests()))
	}
}

// TestNotRepeatable checks that a background request is retried only if the first target
// rejected it, because it may have started a job otherwise.
func TestNotRepeatable(t *testing.T) {
	p := newPair(t, func(p *pair) {
		p.gateway.provider.Protocol = responsesDialect
		p.provider.Protocol = responsesDialect
	})
	p.up.Answer(func(*upstreamtest.Conn) {})
	ask := `{"model":"m","input":"hi","background":true}`
	if resp, _, _ := p.post(t, "/v1/responses", ask); resp.StatusCode != http.StatusBadGateway || len(p.two.Requests()) != 0 {
		t.Errorf("%s, %d asked", resp.Status, len(p.two.Requests()))
	}
	p.up.Answer(upstreamtest.JSON(503, `{"error":{"message":"x"}}`))
	p.two.Answer(upstreamtest.JSON(200, `{"id":"r","object":"response","status":"queued","model":"x","output":[]}`))
	if resp, body, _ := p.post(t, "/v1/responses", ask); resp.StatusCode != http.StatusOK || len(p.two.Requests()) != 1 {
		t.Errorf("%s %s, %d asked", resp.Status, body, len(p.two.Requests()))
	}
}

// TestRetryOnSameTarget checks that a request is retried on its only target if the target
// certainly has not processed it and Retry-After is short.
func TestRetryOnSameTarget(t *testing.T) {
	ask := strings.Replace(pairPlain, `"m"`, `"only"`, 1)
	for name, c := range map[string]struct {
		first upstreamtest.Script
		asked int
	}{
		"busy":           {upstreamtest.JSON(503, `{}`), 3},
		"limited":        {upstreamtest.JSON(429, `{}`), 3},
		"limited for 9s": {upstreamtest.JSON(429, `{}`, "Retry-After", "9"), 1},
		"no credential":  {upstreamtest.JSON(401, `{}`), 1},
		"closed":         {func(*upstreamtest.Conn) {}, 1},
		"a page":         {func(c *upstreamtest.Conn) { c.Whole(200, "text/html", "<html>") }, 1},
		"wrong":          {upstreamtest.JSON(400, `{}`), 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.up.Answer(c.first)
			resp, body, _ := p.post(t, chatPath, ask)
			if got := len(p.up.Requests()); got != c.asked || resp.StatusCode < 400 {
				t.Errorf("%d requests, want %d: %s %s %s", got, c.asked, resp.Status, body, resp.Header.Get("Isogloss-Attempts"))
			}
		})
	}
	p := newPair(t)
	tries := 0
	p.up.Answer(func(c *upstreamtest.Conn) {
		if tries++; tries < 3 {
			c.Whole(503, "application/json", "{}")
			return
		}
		c.Whole(200, "application/json", plainResponse)
	})
	if resp, body, _ := p.post(t, chatPath, ask); body != plainResponse || resp.Header.Get("Isogloss-Attempts") != `3;failed="up/x=503 up/x=503"` {
		t.Errorf("%s %s", body, resp.Header.Get("Isogloss-Attempts"))
	}
}

// TestRefusedCredentialCoolsDown checks that a target that refuses the gateway's
// credential is skipped by the following requests, and that the client does not see the
// error.
func TestRefusedCredentialCoolsDown(t *testing.T) {
	p := newPair(t)
	p.up.Answer(upstreamtest.JSON(401, `{}`))
	p.two.Answer(upstreamtest.JSON(200, plainResponse))
	for i := range 3 {
		resp, body, _ := p.post(t, chatPath, pairPlain)
		if body != plainResponse {
			t.Fatalf("%d: %s %s", i, resp.Status, body)
		}
		if i > 0 && resp.Header.Get("Isogloss-Attempts") != `1;skipped="up/x=credential_refused"` {
			t.Errorf("%d: %s", i, resp.Header.Get("Isogloss-Attempts"))
		}
	}
	if n := len(p.up.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestEjection checks that a target that fails repeatedly is ejected and stays ejected
// after a reload of the configuration.
func TestEjection(t *testing.T) {
	p := newPair(t)
	p.up.Answer(upstreamtest.JSON(500, `{}`))
	p.two.Answer(upstreamtest.JSON(200, plainResponse))
	for range 8 {
		if _, body, _ := p.post(t, chatPath, pairPlain); body != plainResponse {
			t.Fatal(body)
		}
	}
	p.relay.Use(p.state)
	resp, _, _ := p.post(t, chatPath, pairPlain)
	if n := len(p.up.Requests()); n != 5 || resp.Header.Get("Isogloss-Attempts") != `1;skipped="up/x=ejected"` {
		t.Errorf("%d requests, %s", n, resp.Header.Get("Isogloss-Attempts"))
	}
}

// TestFirstTokenTimeout checks that an upstream that sends only headers is abandoned for
// the next target.
func TestFirstTokenTimeout(t *testing.T) {
	inBubble(t, func(t bubble) {
		p := newPair(t, func(p *pair) { p.gateway.provider.Timeouts.FirstToken = soon })
		p.up.Answer(func(c *upstreamtest.Conn) {
			c.BeginStream()
			c.Gone(never)
		})
		p.two.Answer(good("fine"))
		resp, body, _ := p.post(t, chatPath, pairStream)
		if resp.Header.Get("Isogloss-Attempts") != `2;failed="up/x=timeout_first_token"` {
			t.Errorf("%s %q", resp.Header.Get("Isogloss-Attempts"), body)
		}
	})
}

// TestFullTargets checks that a target at its concurrency limit is skipped. If all
// targets are, the request is queued, or rejected with Retry-After when the queue is
// full.
func TestFullTargets(t *testing.T) {
	inBubble(t, func(t bubble) {
		p := newPair(t, func(p *pair) {
			p.gateway.provider.Concurrency, p.provider.Concurrency = 1, 1
			p.state.Overload = limit.Config{Queue: 1, Wait: never}
		})
		release := make(chan bool)
		hold := func(c *upstreamtest.Conn) {
			<-release
			c.Whole(200, "application/json", plainResponse)
			c.KeepAlive() // the queued request may get this connection
		}
		p.up.Answer(hold)
		p.two.Answer(hold)
		answers := make(chan string, 3)
		for range 3 {
			go func() {
				resp, body, _ := p.post(t, chatPath, pairPlain)
				answers <- fmt.Sprintf("%d %s %t", resp.StatusCode, resp.Header.Get("Isogloss-Target"), body == plainResponse)
			}()
			synctest.Wait()
		}
		if len(p.up.Requests()) != 1 || len(p.two.Requests()) != 1 || waiting(p) != 1 {
			t.Fatalf("%d and %d requests are sent, %d wait", len(p.up.Requests()), len(p.two.Requests()), waiting(p))
		}
		start := time.Now()
		resp, body, _ := p.post(t, chatPath, pairPlain)
		if took := time.Since(start); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || readFault(t, chatDialect, body).message == "" || took != 0 {
			t.Errorf("%s after %s: %v %s", resp.Status, took, resp.Header, body)
		}
		close(release)
		got := map[string]int{<-answers: 1}
		got[<-answers]++
		got[<-answers]++
		if got["200 up/x true"]+got["200 two/x true"] != 3 || got["200 up/x true"] == 0 || got["200 two/x true"] == 0 {
			t.Errorf("%v", got)
		}
	})
}

func waiting(p *pair) int {
	n := 0
	for _, s := range p.relay.fleet.Snapshot().Targets {
		n += s.Waiting
	}
	return n
}

// TestCriticality checks the values that the criticality header accepts.
func TestCriticality(t *testing.T) {
	p := newPair(t)
	p.up.Answer(upstreamtest.JSON(200, plainResponse))
	if resp, body, _ := p.post(t, chatPath, pairPlain, criticalityHeader, "urgent"); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "sheddable") {
		t.Errorf("%s %s", resp.Status, body)
	}
	if resp, _, _ := p.post(t, chatPath, pairPlain, criticalityHeader, "critical"); resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
	for _, c := range []struct {
		key, said string
		want      limit.Class
	}{{"", "", limit.Normal}, {"", "critical", limit.Critical}, {"sheddable", "", limit.Sheddable}, {"sheddable", "critical", limit.Sheddable}, {"critical", "", limit.Critical}, {"critical", "sheddable", limit.Sheddable}} {
		client := &http.Request{Header: http.Header{}}
		client.Header.Set(criticalityHeader, c.said)
		q := &request{caller: access.Caller{Criticality: c.key}}
		q.Call = &exchange.Call{Client: client}
		if got, err := q.classify(); err != nil || got != c.want {
			t.Errorf("a %q key and the header %q: %v, %v", c.key, c.said, got, err)
		}
	}
}

// answerIn answers with a stream after some time of the bubble.
func answerIn(d time.Duration, text string) upstreamtest.Script {
	return func(c *upstreamtest.Conn) {
		time.Sleep(d)
		good(text)(c)
	}
}

// learnLatency sends so many requests that their usual time to the first token is known.
func (p *pair) learnLatency(t testing.TB) {
	t.Helper()
	for range 25 {
		if _, body, err := p.post(t, chatPath, pairStream); err != nil || !strings.Contains(body, "quick") && !strings.Contains(body, "second") {
			t.Fatalf("%v: %s", err, body)
		}
	}
	synctest.Wait() // an upstream may not have recorded the last hedged request yet
}

// TestHedge checks that a late first token starts a second attempt on another target and
// that the slower attempt is cancelled.
func TestHedge(t *testing.T) {
	inBubble(t, func(t bubble) {
		p := newPair(t, func(p *pair) { p.route.Hedge = route.Hedge{Quantile: 0.9, Share: 1} })
		p.up.Answer(answerIn(10*time.Millisecond, "quick"))
		p.two.Answer(answerIn(10*time.Millisecond, "second"))
		p.learnLatency(t)
		gone := make(chan bool, 1)
		p.up.Answer(func(c *upstreamtest.Conn) {
			c.BeginStream()
			gone <- c.Gone(never)
		})
		before := len(p.two.Requests())
		resp, body, _ := p.post(t, chatPath, pairStream)
		if body != chunkOf("second")+stopChunk+sentinel || resp.Header.Get("Isogloss-Target") != "two/x" || len(p.two.Requests()) != before+1 {
			t.Errorf("%q %v", body, resp.Header)
		}
		if !<-gone {
			t.Error("the slow request was not cancelled")
		}
		if m := p.metrics(); !strings.Contains(m, `isogloss_hedges_total{provider="up",sooner="second"}`) {
			t.Error("the hedge was not counted")
		}
	})
}

// TestHedgesAvoidTargetsOutOfService checks that a target whose credential was rejected gets no second attempt.
func TestHedgesAvoidTargetsOutOfService(t *testing.T) {
	inBubble(t, func(t bubble) {
		p := newPair(t, func(p *pair) { p.route.Hedge = route.Hedge{Quantile: 0.9, Share: 1} })
		p.up.Answer(answerIn(10*time.Millisecond, "quick"))
		p.two.Answer(upstreamtest.JSON(401, `{"error":{"message":"x"}}`))
		p.learnLatency(t)
		p.up.Answer(upstreamtest.JSON(503, busy))
		_, _, _ = p.post(t, chatPath, pairStream) // fails over to the second target
		match, _ := p.relay.state.Load().Routes.Find("m")
		if s := match.Targets[1].Live.State(); s.Ready {
			t.Fatalf("%+v", s)
		}
		before := len(p.two.Requests())
		p.up.Answer(answerIn(time.Second, "quick"))
		if _, body, err := p.post(t, chatPath, pairStream); err != nil || !strings.Contains(body, "quick") || len(p.two.Requests()) != before {
			t.Errorf("%v %q, and the second target had %d requests more", err, body, len(p.two.Requests())-before)
		}
	})
}

// TestHedgeBudget checks that no more than the configured share of requests is hedged.
func TestHedgeBudget(t *testing.T) {
	inBubble(t, func(t bubble) {
		p := newPair(t, func(p *pair) { p.route.Hedge = route.Hedge{Quantile: 0.5, Share: 0.05} })
		var n atomic.Int64
		p.up.Answer(func(c *upstreamtest.Conn) { // a later first token each time
			answerIn(time.Duration(n.Add(1))*time.Millisecond, "quick")(c)
		})
		p.two.Answer(good("second"))
		for range 200 {
			if _, _, err := p.post(t, chatPath, pairStream); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(p.two.Requests()); n == 0 || n > 10 {
			t.Errorf("%d of 200 were hedged", n)
		}
	})
}

// TestContinue checks that another target continues a truncated stream, without repeated
// text, if the route allows it.
func TestContinue(t *testing.T) {
	for name, c := range map[string]struct{ said, rest, want string }{
		"the rest":               {"The answer is ", "forty-two.", "The answer is forty-two."},
		"with the blank":         {"The answer is ", " forty-two.", "The answer is  forty-two."},
		"the whole again":        {"The answer to it all is ", "The answer to it all is forty-two.", "The answer to it all is forty-two."},
		"a word alike by chance": {"The answer is ", "The rest", "The answer is The rest"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, func(p *pair) {
				p.route.Continue = true
				p.provider.Continuation = provider.ContinueVLLM
			})
			p.up.Answer(upstreamtest.Break(chunkOf(c.said[:4]) + chunkOf(c.said[4:])))
			p.two.Answer(upstreamtest.Stream(chunkOf(c.rest[:3]) + chunkOf(c.rest[3:]) + stopChunk + sentinel))
			resp := p.open(t, chatPath, pairStream)
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			body := string(b)
			want := strings.Replace(c.want, "is  forty", "is forty", 1)
			if got := textOf(t, body); err != nil || got != want || !strings.HasSuffix(body, sentinel) {
				t.Errorf("%v %q in %s", err, got, body)
			}
			if got := resp.Trailer.Get("Isogloss-Continued"); got != fmt.Sprintf("two/x;at=%d", len(c.said)) || !strings.Contains(body, ": continued by two/x") {
				t.Errorf("the mark is %q in %q", got, body)
			}
			sent := string(p.two.Last(t).Body)
			if !strings.Contains(sent, `"continue_final_message":true`) || !strings.Contains(sent, `{"role":"assistant","content":"`+strings.TrimRight(c.said, " ")+`"}`) {
				t.Errorf("the rest was asked for with %s", sent)
			}
			eventually(t, "the log says that the stream was continued", func() bool { return strings.Contains(p.log.String(), `"continued":1`) })
		})
	}
}

// TestNotContinued checks that a truncated stream that cannot be continued ends with an
// error.
func TestNotContinued(t *testing.T) {
	tool := "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"t\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]},\"finish_reason\":null}]}\n\n"
	for name, c := range map[string]struct {
		said, rest string
		how        provider.Continuation
	}{
		"nobody can":     {chunkOf("half"), chunkOf("x"), provider.NoContinuation},
		"a tool call":    {chunkOf("half") + tool, chunkOf("x"), provider.ContinueTrailing},
		"in other words": {chunkOf("The answer to it all is forty"), chunkOf("The answer to it all, my friend, is"), provider.ContinueTrailing},
		"cut again":      {chunkOf("The answer to it all is"), "", provider.ContinueTrailing},
		"hardly begun":   {chunkOf("The answer"), chunkOf("The answer is") + stopChunk + sentinel, provider.ContinueTrailing}, // too short to tell whether the second target repeats the text
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, func(p *pair) {
				p.route.Continue = true
				p.provider.Continuation = c.how
			})
			p.up.Answer(upstreamtest.Break(c.said))
			p.two.Answer(upstreamtest.Stream(c.rest))
			_, body, _ := p.post(t, chatPath, pairStream)
			if strings.Contains(body, "[DONE]") || !strings.Contains(body, `"error"`) || strings.Contains(body, "my friend") {
				t.Errorf("%q", body)
			}
		})
	}
}

// TestContinuationsAreAttempts checks that a continuation is one of the attempts that a request may have.
func TestContinuationsAreAttempts(t *testing.T) {
	p := newPair(t, func(p *pair) {
		p.route.Continue = true
		p.provider.Continuation = provider.ContinueVLLM
		p.state.Retries.Attempts = 1
	})
	p.up.Answer(upstreamtest.Break(chunkOf("The answer is ")))
	p.two.Answer(good("forty-two."))
	_, body, _ := p.post(t, chatPath, pairStream)
	if !strings.Contains(body, `"error"`) || len(p.two.Requests()) > 0 {
		t.Errorf("%d requests to the other target: %s", len(p.two.Requests()), body)
	}
}

// TestContinuedStreamFailsOnce checks that a broken stream that may be continued counts as
// one failure of each target that broke it: five in a row eject a target, not three.
func TestContinuedStreamFailsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		how     provider.Continuation
		ejected int
	}{
		"no other target can continue it":  {provider.NoContinuation, 1},
		"the other target breaks off, too": {provider.ContinueTrailing, 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, func(p *pair) {
				p.route.Continue = true
				p.provider.Continuation = c.how
			})
			p.up.Answer(upstreamtest.Break(chunkOf("The answer to it all is")))
			p.two.Answer(upstreamtest.Break(": nothing\n\n"))
			for n := range 5 {
				if got := strings.Count(p.log.String(), `"reason":"ejected"`); got != 0 {
					t.Fatalf("%d targets are ejected after %d broken streams", got, n)
				}
				_, _, _ = p.post(t, chatPath, pairStream)
			}
			if got := strings.Count(p.log.String(), `"reason":"ejected"`); got != c.ejected {
				t.Errorf("%d targets are ejected after 5 broken streams, want %d", got, c.ejected)
			}
		})
	}
}

// textOf returns the text of a stream of Chat chunks.
func textOf(t testing.TB, body string) string {
	t.Helper()
	var b strings.Builder
	for _, piece := range strings.Split(body, `"content":"`)[1:] {
		text, _, _ := strings.Cut(piece, `"`)
		b.WriteString(text)
	}
	return b.String()
}

// TestSealedConversationsArePinned checks that a conversation with signed reasoning
// always goes to the target that signed it, whatever the balancing policy.
func TestSealedConversationsArePinned(t *testing.T) {
	p := newPair(t, func(p *pair) {
		p.route.Balance = balance.Weighted
		p.gateway.provider.Protocol, p.provider.Protocol = anthropicDialect, anthropicDialect
	})
	answer := upstreamtest.JSON(200, sharedCase(t, "text").whole(anthropicDialect))
	p.up.Answer(answer)
	p.two.Answer(answer)
	for i := range 12 {
		first := fmt.Sprintf(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"question %d"}`, i)
		resp, _, _ := p.post(t, "/v1/messages", first+`]}`)
		who := resp.Header.Get("Isogloss-Target")
		for range 4 {
			resp, _, _ = p.post(t, "/v1/messages", first+`,{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"x"}]},{"role":"user","content":"on"}]}`)
			if got := resp.Header.Get("Isogloss-Target"); got != who {
				t.Fatalf("conversation %d went to %s and then to %s", i, who, got)
			}
		}
	}
}

// TestEachTargetGetsABodyOfItsOwn checks that neither the upstream request nor the losses
// of a failed attempt affect the next attempt (LIF-10).
func TestEachTargetGetsABodyOfItsOwn(t *testing.T) {
	for _, stream := range []bool{false, true} {
		p := newPair(t, func(p *pair) { p.gateway.provider.Protocol = anthropicDialect })
		p.up.Answer(upstreamtest.JSON(529, `{"type":"error","error":{"type":"overloaded_error","message":"later"}}`))
		p.two.Answer(upstreamtest.JSON(200, plainResponse))
		if stream {
			p.two.Answer(good("fine"))
		}
		ask := fmt.Sprintf(`{"model":"m", "seed":7,"logit_bias":{"1":2},"stream":%t,"odd":1e2,"messages":[{"role":"user","content":"hi"}]}`, stream)
		resp, _, _ := p.post(t, chatPath, ask)
		if sent := string(p.two.Last(t).Body); sent != strings.Replace(ask, `"m"`, `"x"`, 1) {
			t.Errorf("the second target was sent %s", sent)
		}
		if first := string(p.up.Last(t).Body); !strings.Contains(first, "max_tokens") || strings.Contains(first, "logit_bias") {
			t.Errorf("the first target was sent %s", first)
		}
		if resp.Header.Get("Isogloss-Fidelity") != exchange.Exact || resp.Header.Get("Isogloss-Target") != "two/x" {
			t.Errorf("%v", resp.Header)
		}
	}
}

// TestHistoryOfCacheAwareRoute checks that a cache-aware route counts the prompt tokens of responses, and takes one
// without usage.
func TestHistoryOfCacheAwareRoute(t *testing.T) {
	p := newPair(t, func(p *pair) { p.route.Balance = balance.CacheAware })
	for _, c := range []struct {
		usage  string
		prompt int64
	}{{`,"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}`, 7}, {"", 7}, {`,"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}`, 12}} {
		answer := upstreamtest.JSON(200, `{"id":"1","object":"chat.completion","created":1,"model":"x","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]`+c.usage+`}`)
		p.up.Answer(answer)
		p.two.Answer(answer)
		if resp, body, _ := p.post(t, chatPath, pairPlain); resp.StatusCode != http.StatusOK {
			t.Fatalf("usage %q: %s %s", c.usage, resp.Status, body)
		}
		var prompt int64
		testrig.Eventually(t, "the tokens are not counted", func() bool {
			prompt = 0
			for _, r := range p.relay.state.Load().Routes.Routes() {
				if r.History != nil {
					for _, target := range r.History.Targets() {
						prompt += target.Prompt
					}
				}
			}
			return prompt == c.prompt
		})
		if text := p.log.String(); strings.Contains(text, "panic") {
			t.Fatalf("usage %q: %s", c.usage, text)
		}
	}
}

package engines

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/gosdk"
	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// The ways in which an answer ends, for all dialects.
const (
	ended  = "end"    // the model ended it, or a stop sequence
	cut    = "length" // it reached the token limit
	called = "call"   // it calls a tool
)

// finishes maps the finish reasons of all dialects.
var finishes = map[string]string{
	"stop": ended, "end_turn": ended, "stop_sequence": ended, "completed": ended, "STOP": ended,
	"length": cut, "max_tokens": cut, "max_output_tokens": cut, "MAX_TOKENS": cut,
	"tool_calls": called, "tool_use": called,
}

// client sends requests in one dialect with its vendor's SDK.
type client struct {
	*gosdk.SDK
	last *recorder
}

// spoken are the dialects of clients, in their order.
var spoken = []string{"openai-chat", "openai-responses", "anthropic", "gemini"}

// clients returns a client of a gateway for each dialect.
func clients(t *testing.T, g *rig.Gateway) []*client {
	t.Helper()
	var all []*client
	for _, c := range []struct {
		sdk  gosdk.New
		path string
	}{{gosdk.Chat, "/v1"}, {gosdk.Responses, "/v1"}, {gosdk.Anthropic2, ""}, {gosdk.Gemini, ""}} {
		all = append(all, newClient(t, g.URL+c.path, c.sdk))
	}
	return all
}

func newClient(t *testing.T, baseURL string, sdk gosdk.New) *client {
	t.Helper()
	r := &recorder{}
	c, err := sdk(t.Context(), gosdk.Options{BaseURL: baseURL, Key: rig.ClientKey, HTTP: &http.Client{Transport: r}})
	if err != nil {
		t.Fatal(err)
	}
	return &client{c, r}
}

// ask sends a request with temperature 0 and returns the answer with one of our finish
// reasons.
func (c *client) ask(ctx context.Context, q gosdk.Request) (gosdk.Answer, error) {
	q.Fixed, q.Usage = true, true
	a, err := c.Ask(ctx, q)
	if finish, ok := finishes[a.Finish]; ok {
		a.Finish = finish
	}
	if noReasonForCalls := c.Dialect == "openai-responses" || c.Dialect == "gemini"; noReasonForCalls && a.Finish == ended && len(a.Calls) > 0 {
		a.Finish = called
	}
	return a, err
}

// must sends a request that has to succeed.
func (c *client) must(t *testing.T, q gosdk.Request) gosdk.Answer {
	t.Helper()
	a, err := c.ask(t.Context(), q)
	if err != nil {
		t.Fatalf("%v\n%s", err, c.last)
	}
	return a
}

// recorder keeps the last response, for what an SDK does not report.
type recorder struct {
	mu     sync.Mutex
	status int
	header http.Header
	body   *rig.Log
}

// RoundTrip sends a request and copies the response while the SDK reads it.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.header, r.body = res.StatusCode, res.Header, &rig.Log{}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(res.Body, r.body), res.Body}
	return res, nil
}

func (r *recorder) response() (status int, header http.Header, body string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.body == nil {
		return 0, http.Header{}, ""
	}
	return r.status, r.header, r.body.String()
}

func (r *recorder) String() string {
	_, _, body := r.response()
	return "the client got:\n" + body
}

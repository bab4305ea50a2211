package engines

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// question is what is asked, in no dialect. Every one has the temperature 0, and a seed
// where the dialect has a place for it.
type question struct {
	model    string
	text     string
	tokens   int      // the most to answer with
	stop     []string // texts that end the answer
	schema   map[string]any
	logprobs bool
	tool     string // a tool that may be called, with one argument, city
	force    bool   // it has to be called
	stream   bool
	piece    func(string) // is told of each piece of text of a stream; may be nil
}

// tell of a piece of text.
func (q question) tell(piece string) {
	if q.piece != nil && piece != "" {
		q.piece(piece)
	}
}

// seed of every question.
const seed = 7

// answer is what the client's SDK makes of what it got.
type answer struct {
	text     string
	calls    []string // name and arguments
	finish   string   // one of ended, cut and called; else the dialect's word
	usage    usage
	logprobs []logprob
}

const (
	ended  = "end"    // by itself
	cut    = "length" // because it has as many tokens as were asked for
	called = "call"   // to have a tool called
)

// usage counts tokens. In includes Cached.
type usage struct{ In, Cached, Out, Total int }

// logprob is how likely a token was.
type logprob struct {
	Token string
	Value float32
	Top   int // how many others are named beside it
}

// A client asks in one dialect, with its vendor's SDK.
type client struct {
	dialect string
	ask     func(ctx context.Context, q question) (answer, error)
	heard   *heard
}

// clients of a gateway, one for each dialect.
func clients(t *testing.T, g *rig.Gateway) []*client {
	t.Helper()
	var out []*client
	for _, make := range []func(context.Context, string, *http.Client) (*client, error){newChat, newResponses, newMessages, newGemini} {
		h := &heard{}
		c, err := make(t.Context(), g.URL, &http.Client{Transport: h})
		if err != nil {
			t.Fatal(err)
		}
		c.heard = h
		out = append(out, c)
	}
	return out
}

// must asks and holds that there is an answer.
func (c *client) must(t *testing.T, q question) answer {
	t.Helper()
	a, err := c.ask(t.Context(), q)
	if err != nil {
		t.Fatalf("%v\n%s", err, c.heard)
	}
	return a
}

// heard keeps what came back last, for what an SDK does not tell.
type heard struct {
	mu     sync.Mutex
	status int
	header http.Header
	body   *rig.Log
}

func (h *heard) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status, h.header, h.body = res.StatusCode, res.Header, &rig.Log{}
	res.Body = &tee{res.Body, h.body}
	return res, nil
}

type tee struct {
	io.ReadCloser
	copy *rig.Log
}

func (t *tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	_, _ = t.copy.Write(p[:n]) // a buffer takes everything
	return n, err
}

// last is what came back last.
func (h *heard) last() (status int, header http.Header, body string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.body == nil {
		return 0, http.Header{}, ""
	}
	return h.status, h.header, h.body.String()
}

func (h *heard) String() string {
	_, _, body := h.last()
	return "the client got:\n" + body
}

// as is a dialect's word for how an answer ended, in ours.
func as(words map[string]string, word string) string {
	if ours, ok := words[word]; ok {
		return ours
	}
	return word
}

// call is a call of a tool in one spelling.
func call(name, args string) string { return name + rig.Compact(rig.Parse([]byte(args))) }

// citySchema is of the arguments of every tool.
func citySchema() map[string]any {
	return map[string]any{
		"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}},
		"required": []string{"city"}, "additionalProperties": false,
	}
}

package crowd

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// tokens are the counts of one exchange; what was cached is part of what went in.
type tokens struct{ Input, Cached, Output int }

// exchange is what passed between the gateway and the engine.
type exchange struct {
	id    string // that the gateway will log as the upstream's own
	nonce string
	ended bool // the engine has said all that it had to say
	text  string
	used  tokens
}

// observer stands between the gateway and the engine and reads what the engine says,
// with code that the gateway has no part in.
type observer struct {
	url string

	mu   sync.Mutex
	seen map[string]*exchange // by nonce
	n    int
}

var nonceOf = regexp.MustCompile(`a long story about ([a-z0-9-]+)\.`)

func newObserver(t *testing.T, engine string) *observer {
	t.Helper()
	to, err := url.Parse(engine)
	if err != nil {
		t.Fatal(err)
	}
	o := &observer{seen: map[string]*exchange{}}
	proxy := &httputil.ReverseProxy{
		// The engine closes idle connections when it likes. The gateway copes with that; a
		// bare proxy does not, and would have the gateway answer for it.
		Transport:      &http.Transport{DisableKeepAlives: true},
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Header.Del("Accept-Encoding") },
		ModifyResponse: o.watch,
		FlushInterval:  -1,
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil { // else the gateway has left
				t.Errorf("the engine does not answer %s: %v", r.Header.Get("X-Nonce"), err)
			}
			panic(http.ErrAbortHandler)
		},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the gateway has left
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if m := nonceOf.FindSubmatch(body); m != nil {
			r.Header.Set("X-Nonce", string(m[1]))
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	o.url = s.URL
	return o
}

// watch gives an answer an id and reads along.
func (o *observer) watch(res *http.Response) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n++
	e := &exchange{id: "engine-" + strconv.Itoa(o.n), nonce: res.Request.Header.Get("X-Nonce")}
	o.seen[e.nonce] = e
	res.Header.Set("X-Request-Id", e.id)
	res.Body = &along{ReadCloser: res.Body, over: func(all []byte) {
		o.mu.Lock()
		defer o.mu.Unlock()
		e.read(all)
	}}
	return nil
}

func (o *observer) exchanges() map[string]exchange {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := map[string]exchange{}
	for nonce, e := range o.seen {
		out[nonce] = *e
	}
	return out
}

// along keeps what is read and hands it over at the end, whichever it is.
type along struct {
	io.ReadCloser
	all  bytes.Buffer
	over func([]byte)
	once sync.Once
}

func (a *along) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.all.Write(p[:n])
	if err != nil {
		a.end()
	}
	return n, err
}

func (a *along) Close() error {
	a.end()
	return a.ReadCloser.Close()
}

func (a *along) end() { a.once.Do(func() { a.over(a.all.Bytes()) }) }

// read takes text and counts out of an answer in any of the engine's dialects, whole
// or streamed.
func (e *exchange) read(answer []byte) {
	if o := testrig.Parse(answer); o != nil {
		e.whole(o)
		return
	}
	for line := range strings.Lines(string(answer)) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			e.event(testrig.Parse([]byte(data)))
		}
	}
}

func (e *exchange) whole(o testrig.Object) {
	for _, c := range o.List("choices") {
		e.text += c.Obj("message").Str("content")
	}
	for _, item := range o.List("output") {
		e.text += item.Text("content")
	}
	e.text += o.Text("content")
	e.count(o.Obj("usage"))
	e.ended = true
}

func (e *exchange) event(o testrig.Object) {
	for _, c := range o.List("choices") {
		e.text += c.Obj("delta").Str("content")
	}
	switch o.Str("type") {
	case "response.output_text.delta":
		e.text += o.Str("delta")
	case "content_block_delta":
		e.text += o.Obj("delta").Str("text")
	case "response.completed", "response.incomplete", "message_stop":
		e.ended = true
	}
	for _, u := range []testrig.Object{o.Obj("usage"), o.Obj("response").Obj("usage"), o.Obj("message").Obj("usage")} {
		e.count(u)
	}
	e.ended = e.ended || o.Has("usage") && o.Has("choices")
}

// count takes what a usage has; Messages says it in two pieces, and counts what was
// cached apart.
func (e *exchange) count(u testrig.Object) {
	if u.Has("prompt_tokens") {
		e.used = tokens{u.Num("prompt_tokens"), u.Obj("prompt_tokens_details").Num("cached_tokens"), u.Num("completion_tokens")}
		return
	}
	if u.Has("input_tokens") {
		e.used.Input, e.used.Cached = u.Num("input_tokens"), u.Obj("input_tokens_details").Num("cached_tokens")
	}
	if u.Has("cache_read_input_tokens") {
		e.used.Cached = u.Num("cache_read_input_tokens")
		e.used.Input += e.used.Cached
	}
	if u.Has("output_tokens") {
		e.used.Output = u.Num("output_tokens")
	}
}

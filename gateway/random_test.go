package gateway_test

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/conform"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/translate"
)

// exchange is what one upstream request and its response were.
type exchange struct {
	path     string
	body     []byte
	status   int
	header   http.Header
	response []byte
	requests int
}

// wire records the exchanges with the upstream by the model, of which each player has its own.
type wire struct {
	mu    sync.Mutex
	by    map[string]*exchange
	proxy *httputil.ReverseProxy
}

var upstreamModel = regexp.MustCompile(`up-\d+`)

func (p *wire) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	model := cmp.Or(upstreamModel.FindString(r.URL.Path), upstreamModel.FindString(string(body)))
	recorder := httptest.NewRecorder()
	r.Body = io.NopCloser(bytes.NewReader(body))
	p.proxy.ServeHTTP(recorder, r)
	p.mu.Lock()
	n := 1
	if old := p.by[model]; old != nil {
		n += old.requests
	}
	p.by[model] = &exchange{path: r.URL.RequestURI(), body: body, status: recorder.Code, header: recorder.Header().Clone(), response: recorder.Body.Bytes(), requests: n}
	p.mu.Unlock()
	for name, values := range recorder.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(recorder.Code)
	_, _ = w.Write(recorder.Body.Bytes())
}

// take returns the exchange of a model and forgets it.
func (p *wire) take(model string) *exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.by[model]
	delete(p.by, model)
	return x
}

var dialects = map[string]protocol.Name{"chat": protocol.OpenAIChat, "responses": protocol.OpenAIResponses, "anthropic": protocol.Anthropic, "gemini": protocol.Gemini, "converse": protocol.Converse}

var clientModel = regexp.MustCompile(`on-(chat|responses|anthropic|gemini|converse)/(up-\d+)`)

// comment is a comment in a stream of the gateway, with losses.
var comment = regexp.MustCompile(`(?m)^: .*\n\n?`)

// TestRandomConversationsAreEqual plays random conversations against the gateway, and each exchange of them through
// package translate: the upstream's request and the client's response have the same bytes.
func TestRandomConversationsAreEqual(t *testing.T) {
	l, err := conform.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := conform.NewUpstream(l)
	to, err := url.Parse(u.URL())
	if err != nil {
		t.Fatal(err)
	}
	up := &wire{by: map[string]*exchange{}, proxy: httputil.NewSingleHostReverseProxy(to)}
	upstream := httptest.NewServer(up)
	g := start(t, upstream.URL)
	memory := translate.NewMemory(64 << 20)
	var mu sync.Mutex // of the counts
	compared, translated := 0, 0
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		path, _ := url.PathUnescape(r.URL.Path)
		found := clientModel.FindStringSubmatch(path + string(body))
		if found == nil {
			t.Errorf("no model in %s", r.URL.Path)
			return
		}
		header, uri := r.Header.Clone(), r.URL.RequestURI()
		r.Body = io.NopCloser(bytes.NewReader(body))
		recorder := httptest.NewRecorder()
		began := time.Now()
		g.ServeHTTP(recorder, r)
		ended := time.Now()
		x := up.take(found[2])
		for name, values := range recorder.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes())
		if x == nil || x.requests > 1 || recorder.Code != http.StatusOK {
			return // refused, or tried again
		}
		client := clientOf(path)
		if same := compare(t, client, dialects[found[1]], found[2], uri, header, body, memory, x, recorder, began, ended); same {
			mu.Lock()
			defer mu.Unlock()
			if compared++; client != dialects[found[1]] {
				translated++
			}
		}
	}))
	r := &conform.Runner{Target: conform.SelfTarget(front.URL), Upstream: u}
	defer func() {
		r.Close()
		front.Close()
		upstream.Close()
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	}()
	n := 8
	if *whole {
		n = 200
	}
	report, err := r.Random(t.Context(), conform.Random{Seed: 3, N: n})
	if err != nil || report.Failed() > 0 {
		t.Error(err, report.Failed(), "failures of the gateway")
	}
	t.Logf("%d exchanges are equal, %d of them translated", compared, translated)
	if compared < 20*n || translated < 10*n {
		t.Errorf("only %d exchanges are equal, %d of them translated", compared, translated)
	}
}

// compare plays an exchange through package translate and reports whether its bytes are those of the gateway.
func compare(t *testing.T, client, upstream protocol.Name, model, uri string, header http.Header, body []byte, memory translate.Memory, x *exchange, got *httptest.ResponseRecorder, began, ended time.Time) bool {
	var last []byte
	for second := began.Unix(); second <= ended.Unix(); second++ {
		tr, err := translate.New(translate.Options{Client: client, Upstream: upstream, Model: model, Engine: true, Memory: memory,
			Now: func() time.Time { return time.Unix(second, 0) },
			NewID: func() string {
				h := got.Header()
				return cmp.Or(h.Get("X-Request-Id"), h.Get("Request-Id"), h.Get("X-Amzn-Requestid"))
			}})
		if err != nil {
			t.Error(err)
			return false
		}
		e, err := tr.RequestTo(uri, header, body)
		if err != nil {
			t.Errorf("%s>%s: %v\n%s", client, upstream, err, body)
			return false
		}
		if client != upstream && (!bytes.Equal(e.Body, x.body) || e.Path != x.path) {
			t.Errorf("%s>%s: the upstream gets\n%s %s\nfrom the gateway\n%s %s", client, upstream, e.Path, e.Body, x.path, x.body)
			return false
		}
		if client == upstream { // the gateway may ask for usage and remove it again
			return true
		}
		switch {
		case translate.IsStream(x.header) && e.Streams:
			if last, err = io.ReadAll(e.Stream(bytes.NewReader(x.response))); err != nil {
				t.Error(err)
			}
		default:
			answer, err := e.Response(x.status, x.header, x.response)
			if err != nil {
				t.Errorf("%s>%s: %v", client, upstream, err)
				return false
			}
			last = answer.Body
		}
		if bytes.Equal(last, comment.ReplaceAll(got.Body.Bytes(), nil)) {
			return true
		}
	}
	t.Errorf("%s>%s: the client gets\n%s\nfrom the gateway\n%s", client, upstream, last, got.Body)
	return false
}

func clientOf(path string) protocol.Name {
	for end, name := range map[string]protocol.Name{"/chat/completions": protocol.OpenAIChat, "/responses": protocol.OpenAIResponses, "/messages": protocol.Anthropic} {
		if strings.HasSuffix(path, end) {
			return name
		}
	}
	if strings.HasPrefix(path, "/model/") {
		return protocol.Converse
	}
	return protocol.Gemini
}

package translate_test

import (
	"bytes"
	"cmp"
	"flag"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/conform"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/translate"
)

// dialects are the names of the corpus and of the packages.
var dialects = map[conform.Dialect]protocol.Name{conform.Chat: protocol.OpenAIChat, conform.Responses: protocol.OpenAIResponses,
	conform.Anthropic: protocol.Anthropic, conform.Gemini: protocol.Gemini, conform.Converse: protocol.Converse}

// door is a server around a Translator, as short as a user would write one.
type door struct {
	upstream string
	memory   translate.Memory
}

// named finds the upstream's dialect and its model in the name of the model, in a path or a body.
var named = regexp.MustCompile(`on-(chat|responses|anthropic|gemini|converse)(?:/([^":]+))?[":]?`)

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	client := clientOf(r.URL.Path)
	found := named.FindStringSubmatch(r.URL.Path)
	if found == nil {
		found = named.FindStringSubmatch(string(body))
	}
	if found == nil {
		http.Error(w, "no model", http.StatusNotFound)
		return
	}
	model, _, _ := strings.Cut(found[2], "/converse")
	t, err := translate.New(translate.Options{Client: client, Upstream: dialects[conform.Dialect(found[1])], Model: cmp.Or(model, "up"), Engine: true, Memory: d.memory,
		Mode: llm.Mode(strings.ToLower(r.Header.Get("Isogloss-Fidelity-Mode")))})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	x, err := t.RequestTo(r.URL.RequestURI(), r.Header, body)
	if err != nil {
		answer(w, t.Error(err), nil)
		return
	}
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, d.upstream+x.Path, bytes.NewReader(x.Body))
	if err != nil {
		answer(w, t.Error(err), nil)
		return
	}
	req.Header = x.Header
	for name, scheme := range map[string]string{"Authorization": "Bearer ", "X-Api-Key": "", "X-Goog-Api-Key": ""} {
		req.Header.Set(name, scheme+"sk-conform-upstream")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		answer(w, t.Error(err), nil)
		return
	}
	defer resp.Body.Close()
	switch streams := translate.IsStream(resp.Header) && resp.StatusCode < 300; {
	case streams && x.Streams:
		stream := x.Stream(resp.Body)
		if err := stream.Begin(); err != nil {
			answer(w, t.Error(err), nil)
			return
		}
		w.Header().Set("Content-Type", x.ContentType())
		setFidelity(w, x.Losses)
		flushing{w}.copy(stream)
	case streams:
		out, _ := x.Collect(resp.Body)
		answer(w, out, x.Losses)
	default:
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			answer(w, t.Error(err), nil)
			return
		}
		out, _ := x.Response(resp.StatusCode, resp.Header, body)
		answer(w, out, x.Losses)
	}
}

type flushing struct{ http.ResponseWriter }

func (f flushing) copy(from io.Reader) {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if _, werr := f.Write(buf[:n]); err != nil || werr != nil {
			return
		}
		f.ResponseWriter.(http.Flusher).Flush()
	}
}

func answer(w http.ResponseWriter, r *translate.Response, losses []llm.Loss) {
	maps.Copy(w.Header(), r.Header)
	setFidelity(w, append(losses, r.Losses...))
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body)
}

func setFidelity(w http.ResponseWriter, losses []llm.Loss) {
	if len(losses) > 0 {
		w.Header().Set("Isogloss-Fidelity", "approximated")
	}
}

func clientOf(path string) protocol.Name {
	path, _ = url.PathUnescape(path)
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return protocol.OpenAIChat
	case strings.HasSuffix(path, "/responses"):
		return protocol.OpenAIResponses
	case strings.HasSuffix(path, "/messages"):
		return protocol.Anthropic
	case strings.HasPrefix(path, "/model/"):
		return protocol.Converse
	}
	return protocol.Gemini
}

func newRunner(t *testing.T) *conform.Runner {
	t.Helper()
	l, err := conform.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := conform.NewUpstream(l)
	server := httptest.NewServer(&door{upstream: u.URL(), memory: translate.NewMemory(64 << 20)})
	r := &conform.Runner{Target: conform.SelfTarget(server.URL), Upstream: u}
	t.Cleanup(func() {
		r.Close()
		server.Close()
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

var whole = flag.Bool("whole", false, "play all checks of the corpus")

// TestCorpus plays the conformance corpus through the package, in all 25 pairs of dialects: a quarter of its checks, or
// with -whole all.
func TestCorpus(t *testing.T) {
	cases, err := conform.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	r := newRunner(t)
	n, ran, failed := 0, 0, 0
	for _, c := range cases {
		if c.Name == "err/key-stays-here" { // the package has no key of the upstream
			continue
		}
		for _, cell := range r.Cells(c) {
			if n++; n%4 != 0 && !*whole {
				continue
			}
			ran++
			if res := r.Run(t.Context(), c, cell); !res.Passed() {
				failed++
				t.Errorf("%s %s: %.600q", c.Name, cell, res.Problems)
			}
		}
	}
	t.Logf("%d checks, %d do not hold", ran, failed)
	if ran < 1000 {
		t.Errorf("only %d checks were run", ran)
	}
}

package translate_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
	"github.com/isogloss-gateway/isogloss/sse"
	"github.com/isogloss-gateway/isogloss/translate"
)

// TestDependencies checks that the package brings one module along.
func TestDependencies(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, module := range strings.Fields(string(out)) {
		found[module] = true
	}
	delete(found, "github.com/isogloss-gateway/isogloss")
	delete(found, "github.com/go-json-experiment/json")
	if len(found) > 0 {
		t.Errorf("translate needs %v; it may import the standard library and go-json-experiment/json", found)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []translate.Options{
		{}, {Client: protocol.Gemini}, {Client: "x", Upstream: protocol.Gemini}, {Client: protocol.Gemini, Upstream: protocol.Gemini, Mode: "odd"},
	} {
		if _, err := translate.New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// requests are a streaming request of each dialect, with its path.
var requests = map[protocol.Name][2]string{
	protocol.OpenAIChat:      {"", `{"model":"m","stream":true,"messages":[{"role":"user","content":"q"}]}`},
	protocol.OpenAIResponses: {"", `{"model":"m","stream":true,"input":"q"}`},
	protocol.Anthropic:       {"", `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"q"}]}`},
	protocol.Gemini:          {"/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"q"}]}]}`},
	protocol.Converse:        {"/model/m/converse-stream", `{"messages":[{"role":"user","content":[{"text":"q"}]}]}`},
}

// exchange returns the exchange of a streaming request of a client to a Messages upstream.
func exchange(t *testing.T, client protocol.Name) (*translate.Translator, *translate.Exchange) {
	t.Helper()
	tr := newTranslator(client, protocol.Anthropic, "claude-opus-5", nil)
	x, err := tr.RequestTo(requests[client][0], nil, []byte(requests[client][1]))
	if err != nil {
		t.Fatal(client, err)
	}
	if !x.Streams {
		t.Fatal(client, "the request asks for no stream")
	}
	return tr, x
}

// TestStreamsOfAnyCut reads streams that arrive byte by byte, and are read byte by byte.
func TestStreamsOfAnyCut(t *testing.T) {
	for _, client := range protocol.Names() {
		_, x := exchange(t, client)
		want, err := io.ReadAll(x.Stream(strings.NewReader(anthropicStream)))
		if err != nil || len(want) == 0 {
			t.Fatal(client, err)
		}
		for _, name := range []string{"arrive", "are read"} {
			_, x := exchange(t, client)
			var from io.Reader = strings.NewReader(anthropicStream)
			if name == "arrive" {
				from = iotest.OneByteReader(from)
			}
			var to io.Reader = x.Stream(from)
			if name == "are read" {
				to = iotest.OneByteReader(to)
			}
			if got, err := io.ReadAll(to); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: bytes %s one by one: %v\n%s\nwant\n%s", client, name, err, got, want)
			}
		}
	}
}

// TestCutStreams cuts a stream after each event: no result looks complete, and each has the error.
func TestCutStreams(t *testing.T) {
	events := strings.SplitAfter(anthropicStream, "\n\n")
	for _, client := range protocol.Names() {
		_, x := exchange(t, client)
		whole, err := io.ReadAll(x.Stream(strings.NewReader(anthropicStream)))
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(events) - 2 {
			_, x := exchange(t, client)
			s := x.Stream(io.MultiReader(strings.NewReader(strings.Join(events[:i], "")), iotest.ErrReader(io.ErrUnexpectedEOF)))
			got, err := io.ReadAll(s)
			var e *llm.Error
			if err != nil || !errors.As(s.Err(), &e) || bytes.Equal(got, whole) {
				t.Errorf("%s, %d events: %v, %v\n%s", client, i, err, s.Err(), got)
			}
			if begun := func() error {
				_, x := exchange(t, client)
				return x.Stream(strings.NewReader(strings.Join(events[:i], ""))).Begin()
			}(); (begun != nil) != (i < 3) && client != protocol.Anthropic {
				t.Errorf("%s, %d events: Begin returns %v", client, i, begun)
			}
		}
	}
}

// closed counts the calls of Close.
type closed struct {
	io.Reader
	n int
}

func (c *closed) Close() error { c.n++; return nil }

func TestCloseEndsTheUpstream(t *testing.T) {
	_, x := exchange(t, protocol.OpenAIChat)
	up := &closed{Reader: strings.NewReader(anthropicStream)}
	s := x.Stream(up)
	if _, err := s.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil || up.n != 1 {
			t.Errorf("the upstream was closed %d times: %v", up.n, err)
		}
	}
	if _, err := s.Read(make([]byte, 10)); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

// TestHostileInput gives each upstream's reader and each client's writer what no honest peer sends.
func TestHostileInput(t *testing.T) {
	for _, client := range protocol.Names() {
		for _, upstream := range protocol.Names() {
			tr, err := translate.New(translate.Options{Client: client, Upstream: upstream, MaxEvent: 1 << 10, MaxResponse: 1 << 12})
			if err != nil {
				t.Fatal(err)
			}
			for _, body := range []string{"", "null", "[]", "{", `{"messages":1}`, `{"model":{}}`, strings.Repeat("[", 1000), "\xff\xfe"} {
				if _, err := tr.Request([]byte(body)); err != nil {
					if r := tr.Error(err); r.Status < 400 || len(r.Body) == 0 {
						t.Errorf("%s: %q: %+v", client, body, r)
					}
				}
			}
			for _, body := range []string{"", "null", "\x00\x00\x00\x10", "data: {}\n\n", "data: " + strings.Repeat("x", 1<<11), strings.Repeat("event: x\n", 9)} {
				x, err := tr.RequestTo(requests[client][0], nil, []byte(requests[client][1]))
				if err != nil {
					t.Fatal(err)
				}
				s := x.Stream(strings.NewReader(body))
				if _, err := io.ReadAll(s); err != nil || s.Err() == nil {
					t.Errorf("%s>%s: a stream %.20q ends without an error: %v", client, upstream, body, err)
				}
				if r, err := x.Collect(strings.NewReader(body)); err == nil || r.Status < 400 {
					t.Errorf("%s>%s: a stream %.20q is collected", client, upstream, body)
				}
				if r, err := x.Response(200, http.Header{}, []byte(body)); err == nil || r.Status < 400 {
					t.Errorf("%s>%s: a response %.20q is translated: %s", client, upstream, body, r.Body)
				}
			}
		}
	}
}

// kept is a memory of a caller's own.
type kept map[string][]byte

func (k kept) Load(key string) ([]byte, bool) { v, ok := k[key]; return v, ok }
func (k kept) Store(key string, v []byte)     { k[key] = bytes.Clone(v) }

// TestStoredResponses continues a response by its id, on an upstream that stores nothing.
func TestStoredResponses(t *testing.T) {
	for name, memory := range map[string]translate.Memory{"own": kept{}, "built in": translate.NewMemory(1 << 20)} {
		tr := newTranslator(protocol.OpenAIResponses, protocol.OpenAIChat, "llama", memory)
		x, err := tr.Request([]byte(`{"model":"m","input":"My name is Ann."}`))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := x.Response(200, ok, []byte(`{"id":"c1","object":"chat.completion","created":1,"model":"llama","choices":[{"index":0,"message":{"role":"assistant","content":"Hello Ann."},"finish_reason":"stop"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(answer.Body), `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		next, err := tr.Request(fmt.Appendf(nil, `{"model":"m","previous_response_id":%q,"input":"Who am I?"}`, id))
		if err != nil {
			t.Fatal(name, err)
		}
		if !strings.Contains(string(next.Body), "My name is Ann.") || !strings.Contains(string(next.Body), "Hello Ann.") {
			t.Errorf("%s: %s", name, next.Body)
		}
		if _, err := newTranslator(protocol.OpenAIResponses, protocol.OpenAIChat, "llama", nil).Request(fmt.Appendf(nil, `{"model":"m","previous_response_id":%q,"input":"Who am I?"}`, id)); err == nil {
			t.Error("without a memory the reference is accepted")
		}
	}
}

// endless sends a piece n times, and calls half in the middle.
type endless struct {
	piece   string
	n, sent int
	rest    string
	half    func()
}

func (e *endless) Read(p []byte) (int, error) {
	if e.rest == "" {
		if e.sent++; e.sent > e.n {
			return 0, io.EOF
		}
		if e.sent == e.n/2 {
			e.half()
		}
		e.rest = e.piece
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// TestConstantMemory translates a stream of 32 MiB: the second half adds nothing to what the first has left.
func TestConstantMemory(t *testing.T) {
	live := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, client := range []protocol.Name{protocol.OpenAIChat, protocol.Gemini, protocol.Converse, protocol.Anthropic} { // the last event of Responses repeats the response
		tr := newTranslator(client, protocol.OpenAIChat, "llama", nil)
		x, err := tr.RequestTo(requests[client][0], nil, []byte(requests[client][1]))
		if err != nil {
			t.Fatal(err)
		}
		var half uint64
		up := &endless{piece: "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + strings.Repeat("x", 8<<10) + "\"}}]}\n\n", n: 4096, half: func() { half = live() }}
		s := x.Stream(up)
		n, err := io.Copy(io.Discard, struct{ io.Reader }{s})
		if end := live(); err != nil || n < 32<<20 || half == 0 || end > half+1<<20 {
			t.Errorf("%s: %d bytes, %v; %d bytes are live at half and %d at the end", client, n, err, half, end)
		}
		runtime.KeepAlive(s)
	}
}

var chatRequest = []byte(`{"model":"m","max_tokens":100,"system":"Be brief.","messages":[{"role":"user","content":"` + strings.Repeat("Hello. ", 200) + `"}]}`)

// codecs are the codecs by their names.
func codecs() map[protocol.Name]protocol.Translator {
	list := map[protocol.Name]protocol.Translator{}
	for _, c := range all.Codecs() {
		list[c.Name()] = c
	}
	return list
}

func BenchmarkRequest(b *testing.B) {
	from, to := codecs()[protocol.Anthropic], codecs()[protocol.OpenAIChat]
	b.Run("codecs", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var report llm.Report
			req, err := from.DecodeRequest(protocol.Incoming{Body: chatRequest})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := to.EncodeRequest(req, protocol.Target{Model: "llama"}, &report); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("translate", func(b *testing.B) {
		b.ReportAllocs()
		tr := newTranslator(protocol.Anthropic, protocol.OpenAIChat, "llama", nil)
		for b.Loop() {
			if _, err := tr.Request(chatRequest); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkEvent translates an event of a stream per operation.
func BenchmarkEvent(b *testing.B) {
	const piece = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"}}]}\n\n"
	b.Run("codecs", func(b *testing.B) {
		b.ReportAllocs()
		decoder, encoder := codecs()[protocol.OpenAIChat].NewStreamDecoder(), codecs()[protocol.Anthropic].NewStreamEncoder(&llm.Request{Stream: true})
		reader := sse.NewReader(&endless{piece: piece, n: b.N, half: func() {}}, sse.Options{})
		var events []llm.Event
		var out []byte
		for {
			batch, err := reader.Batch()
			events, out = events[:0], out[:0]
			for e := range batch.Events() {
				events = decoder.Decode(e.Name, e.Data, events)
			}
			for _, e := range events {
				out = encoder.Encode(e, out)
			}
			if err != nil {
				return
			}
		}
	})
	b.Run("translate", func(b *testing.B) {
		b.ReportAllocs()
		x, err := newTranslator(protocol.Anthropic, protocol.OpenAIChat, "llama", nil).Request([]byte(requests[protocol.Anthropic][1]))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, struct{ io.Reader }{x.Stream(&endless{piece: piece, n: b.N, half: func() {}})}); err != nil {
			b.Fatal(err)
		}
	})
}

package observe

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// receiver is an OTLP/HTTP collector that records spans.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	paths    []string
	raw      bytes.Buffer
	resource map[string]any
	spans    []*traces.Span
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := r.take(req); err != nil {
			t.Errorf("receiver: %v", err)
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// readExport returns the body of an OTLP request.
func readExport(req *http.Request) ([]byte, error) {
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = unzipped
	}
	return io.ReadAll(body)
}

func (r *receiver) take(req *http.Request) error {
	raw, err := readExport(req)
	if err != nil {
		return err
	}
	var got collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(raw, &got); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paths = append(r.paths, req.URL.Path)
	r.raw.Write(raw)
	for _, rs := range got.ResourceSpans {
		r.resource = attributes(rs.Resource.Attributes)
		for _, ss := range rs.ScopeSpans {
			r.spans = append(r.spans, ss.Spans...)
		}
	}
	return nil
}

// span returns the one span of a kind.
func (r *receiver) span(t *testing.T, kind traces.Span_SpanKind) *traces.Span {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []*traces.Span
	for _, s := range r.spans {
		if s.Kind == kind {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans of kind %s, want 1", len(found), kind)
	}
	return found[0]
}

func attributes(all []*common.KeyValue) map[string]any {
	m := map[string]any{}
	for _, kv := range all {
		switch v := kv.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			m[kv.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			m[kv.Key] = v.IntValue
		case *common.AnyValue_BoolValue:
			m[kv.Key] = v.BoolValue
		case *common.AnyValue_DoubleValue:
			m[kv.Key] = v.DoubleValue
		case *common.AnyValue_ArrayValue:
			var texts []string
			for _, e := range v.ArrayValue.Values {
				texts = append(texts, e.GetStringValue())
			}
			m[kv.Key] = strings.Join(texts, ",")
		}
	}
	return m
}

// flush closes the observer, so that the receiver has all spans.
func flush(t *testing.T, o *Observer) {
	t.Helper()
	if err := o.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

const (
	parentTrace   = "0af7651916cd43dd8448eb211c80319c"
	parentSpan    = "b7ad6b7169203331"
	sampledParent = "00-" + parentTrace + "-" + parentSpan + "-01"
	plainParent   = "00-" + parentTrace + "-" + parentSpan + "-00"
)

func TestTrace(t *testing.T) {
	r := newReceiver(t)
	o, log := open(t, Options{Traces: exporters(t, r.URL).Traces, TraceSample: 1, Version: "1.2.3"})
	x := whole(o)
	x.End()
	flush(t, o)

	server := r.span(t, traces.Span_SPAN_KIND_SERVER)
	if server.Name != "chat openai/*" || len(server.ParentSpanId) != 0 || server.Status.GetCode() != traces.Status_STATUS_CODE_UNSET {
		t.Errorf("server span %v", server)
	}
	want := map[string]any{
		"gen_ai.operation.name":                    "chat",
		"gen_ai.provider.name":                     "openai",
		"gen_ai.request.model":                     "openai/*",
		"gen_ai.request.stream":                    true,
		"gen_ai.response.model":                    "gpt-5-2026",
		"gen_ai.response.finish_reasons":           "stop",
		"gen_ai.response.time_to_first_chunk":      0.25,
		"gen_ai.usage.input_tokens":                int64(60),
		"gen_ai.usage.cache_read.input_tokens":     int64(20),
		"gen_ai.usage.cache_creation.input_tokens": int64(30),
		"gen_ai.usage.output_tokens":               int64(90),
		"gen_ai.usage.reasoning.output_tokens":     int64(50),
		"isogloss.usage.cache_write_1h":            int64(25),
		"http.response.status_code":                int64(200),
		"isogloss.exchange.id":                     "id-1",
	}
	if got := attributes(server.Attributes); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}

	client := r.span(t, traces.Span_SPAN_KIND_CLIENT)
	if client.Name != "upstream openai" || !bytes.Equal(client.ParentSpanId, server.SpanId) {
		t.Errorf("client span %v", client)
	}
	want = map[string]any{
		"gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5", "http.response.status_code": int64(200),
	}
	if got := attributes(client.Attributes); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}

	if got := one(t, log)[attrTraceID]; got != hex.EncodeToString(server.TraceId) {
		t.Errorf("logged trace %v, want %x", got, server.TraceId)
	}
	if !slices.Equal(r.paths, []string{"/v1/traces"}) || r.resource["service.name"] != "isogloss" || r.resource["service.version"] != "1.2.3" {
		t.Errorf("paths %v, resource %v", r.paths, r.resource)
	}
}

func TestTraceFollowsTheClient(t *testing.T) {
	for _, c := range []struct {
		name, parent string
		sample       float64
		spans        int
	}{
		{"client samples", sampledParent, 0, 2},
		{"client does not", plainParent, 1, 0},
		{"no parent, none sampled", "", 0, 0},
		{"broken parent", "00-canary-01", 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newReceiver(t)
			o, log := open(t, Options{Traces: exporters(t, r.URL).Traces, TraceSample: c.sample})
			header := http.Header{"Traceparent": {c.parent}}
			_, x := o.Begin(t.Context(), "id", "messages", "anthropic", header)
			x.Route("m", "p", x.Target)
			upstream := http.Header{}
			x.Inject(upstream)
			x.Status = 200
			x.End()
			flush(t, o)
			if len(r.spans) != c.spans {
				t.Errorf("%d spans, want %d", len(r.spans), c.spans)
			}
			sent := upstream.Get("Traceparent")
			if logged, _ := one(t, log)[attrTraceID].(string); logged == "" || !strings.Contains(sent, logged) {
				t.Errorf("logged trace %q, sent %q", logged, sent)
			}
			follows := c.parent == sampledParent || c.parent == plainParent
			if strings.Contains(sent, parentTrace) != follows || strings.Contains(sent, parentSpan) {
				t.Errorf("sent %q for parent %q", sent, c.parent)
			}
		})
	}
}

func TestInjectNamesTheAttempt(t *testing.T) {
	r := newReceiver(t)
	o, _ := open(t, Options{Traces: exporters(t, r.URL).Traces, TraceSample: 1})
	x := begin(o)
	before, during := http.Header{}, http.Header{"Tracestate": {"old=1"}}
	x.Inject(before)
	x.Route("m", "p", x.Target)
	x.Inject(during)
	x.Status = 200
	x.End()
	flush(t, o)
	server, client := r.span(t, traces.Span_SPAN_KIND_SERVER), r.span(t, traces.Span_SPAN_KIND_CLIENT)
	if got := before.Get("Traceparent"); !strings.Contains(got, hex.EncodeToString(server.SpanId)) {
		t.Errorf("before the attempt: %q", got)
	}
	if got := during.Get("Traceparent"); !strings.Contains(got, hex.EncodeToString(client.SpanId)) {
		t.Errorf("in the attempt: %q", got)
	}
	if during.Get("Tracestate") != "" {
		t.Error("the client's tracestate was sent on")
	}
}

func TestTraceOfFailover(t *testing.T) {
	r := newReceiver(t)
	o, _ := open(t, Options{Traces: exporters(t, r.URL+"/v1/traces").Traces, TraceSample: 1})
	x := begin(o)
	x.Target = "first/a"
	x.Route("fast", "first", x.Target)
	x.Responded(503, x.start)
	x.Failed(&llm.Error{Kind: llm.Overloaded})
	x.Target = "second/b"
	x.Route("fast", "second", x.Target)
	x.Err = &llm.Error{Kind: llm.Timeout}
	x.End()
	flush(t, o)
	if len(r.spans) != 3 {
		t.Fatalf("%d spans, want 3", len(r.spans))
	}
	for _, s := range r.spans {
		if s.Status.GetCode() != traces.Status_STATUS_CODE_ERROR || s.Status.GetMessage() != "" {
			t.Errorf("%s: status %v", s.Name, s.Status)
		}
	}
	for i, want := range []map[string]any{
		{"gen_ai.provider.name": "first", "gen_ai.request.model": "a", "http.response.status_code": int64(503), "error.type": "overloaded"},
		{"gen_ai.provider.name": "second", "gen_ai.request.model": "b", "error.type": "timeout"},
	} {
		if got := attributes(r.spans[i].Attributes); !maps.Equal(got, want) {
			t.Errorf("attempt %d: got  %v\nwant %v", i, got, want)
		}
	}
	if !slices.Equal(r.paths, []string{"/v1/traces"}) {
		t.Errorf("paths %v", r.paths)
	}
}

func TestSpanNames(t *testing.T) {
	want := map[string]string{
		"chat_completions": "chat m", "responses": "chat m", "messages": "chat m", "completions": "text_completion m",
		"converse": "chat m", "converse_stream": "chat m",
		"gemini_generateContent": "generate_content m", "gemini_streamGenerateContent": "generate_content m",
		"embeddings": "embeddings m", "gemini_embedContent": "embeddings m", "gemini_batchEmbedContents": "embeddings m", "rerank": "rerank m",
	}
	var routes []codec.Route
	for _, d := range all.Dialects() {
		routes = append(routes, d.Routes...)
	}
	for _, route := range routes {
		want, traced := want[route.Name]
		if !traced {
			want = route.Name
		}
		r := newReceiver(t)
		o, _ := open(t, Options{Traces: exporters(t, r.URL).Traces, TraceSample: 1})
		_, x := o.Begin(t.Context(), "id", route.Name, "openai-chat", nil)
		x.Operation = route.Span
		x.Route("m", "p", x.Target)
		x.Status = 200
		x.End()
		flush(t, o)
		if got := r.span(t, traces.Span_SPAN_KIND_SERVER).Name; got != want {
			t.Errorf("%s: span %q, want %q", route.Name, got, want)
		}
	}
}

func TestCanariesInTraces(t *testing.T) {
	const canary = "canary-7f3a"
	r := newReceiver(t)
	o, _ := open(t, Options{Traces: exporters(t, r.URL).Traces, TraceSample: 1})
	header := http.Header{"Traceparent": {sampledParent}, "Tracestate": {"k=" + canary}, "Authorization": {"Bearer " + canary}, "Baggage": {"k=" + canary}}
	_, x := o.Begin(t.Context(), "id", "chat_completions", "openai-chat", header)
	x.Requested = canary
	x.Route("m", "p", x.Target)
	upstream := http.Header{}
	x.Inject(upstream)
	x.Responded(400, x.start)
	x.Finish, x.ResponseModel = "so said "+canary, "a model called "+canary
	x.Err = &llm.Error{Kind: llm.InvalidRequest, Code: canary, Message: canary}
	x.End()
	flush(t, o)
	if len(r.spans) != 2 || bytes.Contains(r.raw.Bytes(), []byte(canary)) {
		t.Errorf("%d spans, canary in %q", len(r.spans), r.raw.Bytes())
	}
	for name, values := range upstream {
		if strings.Contains(strings.Join(values, " "), canary) {
			t.Errorf("canary sent on in %s", name)
		}
	}
}

// TestCollectorRefuses checks that a failed export is logged without the collector's
// text.
func TestCollectorRefuses(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=canary-7f3a")
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, "you sent "+req.Header.Get("Authorization"))
	}))
	defer echo.Close()
	o, log := open(t, Options{Traces: exporters(t, echo.URL).Traces, TraceSample: 1})
	x := begin(o)
	x.Status = 200
	x.End()
	flush(t, o)
	all := lines(t, log)
	if len(all) != 2 || all[1]["msg"] != "traces not exported" || all[1]["level"] != "WARN" {
		t.Fatalf("logged %v", all)
	}
	if text, _ := all[1][attrError].(string); !strings.Contains(text, "401") || strings.Contains(text, "canary") {
		t.Errorf("logged %q", text)
	}
}

// TestCloseIsBounded checks that Close returns when its context ends and leaves no
// goroutine running.
func TestCloseIsBounded(t *testing.T) {
	before := goleak.IgnoreCurrent()
	release := make(chan struct{})
	stuck := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	o, err := New(Options{Log: io.Discard, Traces: exporters(t, stuck.URL).Traces, TraceSample: 1})
	if err != nil {
		t.Fatal(err)
	}
	begin(o).End()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := o.Close(ctx); err == nil {
		t.Error("Close said that all was sent")
	}
	close(release)
	stuck.Close()
	goleak.VerifyNone(t, before)
}

func TestWithoutTracing(t *testing.T) {
	o, log := open(t, Options{})
	ctx := t.Context()
	header := http.Header{"Traceparent": {sampledParent}}
	got, x := o.Begin(ctx, "id", "chat_completions", "openai-chat", header)
	if got != ctx {
		t.Error("the context was changed")
	}
	upstream := http.Header{}
	x.Route("m", "p", x.Target)
	x.Inject(upstream)
	x.Status = 200
	x.End()
	if len(upstream) != 0 {
		t.Errorf("sent %v", upstream)
	}
	if l := one(t, log); l[attrTraceID] != nil {
		t.Errorf("logged %v", l)
	}
}

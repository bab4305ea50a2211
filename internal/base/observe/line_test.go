package observe

import (
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestLine(t *testing.T) {
	o, log := open(t, Options{})
	whole(o).End()
	l := one(t, log)
	delete(l, "time")
	delete(l, attrDurationMS)
	want := map[string]any{
		"level": "INFO", "msg": "exchange",
		"id": "id-1", "endpoint": "chat_completions", "dialect": "openai-chat",
		"model": "openai/*", "requested": "openai/gpt-5", "provider": "openai", "target": "openai/gpt-5",
		"stream": true, "upstream_stream": true,
		"status": 200.0, "outcome": "ok",
		"upstream_status": 200.0, "upstream_id": "req_1", "upstream_protocol": "openai-chat", "finish": "stop",
		"input_tokens": 10.0, "cache_read_tokens": 20.0, "cache_write_tokens": 30.0,
		"output_tokens": 40.0, "reasoning_tokens": 50.0, "units": map[string]any{"cache_write_1h": 25.0},
		"first_byte_ms": 40.0, "ttft_ms": 250.0,
		"events": 12.0, "bytes_in": 2000.0, "bytes_out": 1000.0, "attempts": 2.0, "fidelity": "exact",
	}
	if !reflect.DeepEqual(l, want) {
		t.Errorf("got  %v\nwant %v", l, want)
	}
}

func TestAbsentFactsAreLeftOut(t *testing.T) {
	o, log := open(t, Options{})
	x := begin(o)
	x.Route("fast", "local", x.Target)
	x.Requested, x.Status = "fast", 200
	x.End()
	got := slices.Sorted(maps.Keys(one(t, log)))
	want := []string{"dialect", "duration_ms", "endpoint", "id", "level", "model", "msg", "outcome",
		"provider", "status", "stream", "time", "upstream_stream"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestLinesAreEmptied checks that a pooled line holds no data of its last use.
func TestLinesAreEmptied(t *testing.T) {
	o, _ := open(t, Options{})
	whole(o).End()
	l := *o.lines.Get().(*line)
	if len(l) != 0 {
		t.Errorf("%d attributes left", len(l))
	}
	for _, a := range l[:cap(l)] {
		if !a.Equal(slog.Attr{}) {
			t.Errorf("kept %v", a)
		}
	}
}

func TestZeroUsageIsAFact(t *testing.T) {
	o, log := open(t, Options{})
	x := begin(o)
	x.Status, x.Usage = 200, &llm.Usage{}
	x.End()
	if l := one(t, log); l[attrInput] != 0.0 || l[attrReasoning] != 0.0 {
		t.Errorf("logged %v", l)
	}
}

func TestLevels(t *testing.T) {
	for _, c := range []struct {
		status int
		kind   llm.Kind
		want   string
	}{
		{200, "", "INFO"},
		{404, llm.NotFound, "INFO"},
		{499, llm.Cancelled, "INFO"},
		{200, llm.Upstream, "WARN"},
		{500, llm.Internal, "WARN"},
		{503, llm.Overloaded, "WARN"},
	} {
		o, log := open(t, Options{})
		x := begin(o)
		x.Status = c.status
		if c.kind != "" {
			x.Err = &llm.Error{Kind: c.kind}
		}
		x.End()
		if l := one(t, log); l["level"] != c.want {
			t.Errorf("%d %s: level %v, want %s", c.status, c.kind, l["level"], c.want)
		}
	}
}

func TestLevelHidesLinesButCounts(t *testing.T) {
	o, log := open(t, Options{Level: slog.LevelWarn})
	whole(o).End()
	if log.Len() != 0 {
		t.Errorf("logged %s", log)
	}
	has(t, o, `stream_events_total 12`)
}

// TestErrorMessages checks that only messages written by the gateway are logged.
func TestErrorMessages(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(*Exchange)
		want  any
	}{
		{"before an upstream was asked", func(*Exchange) {}, "canary"},
		{"upstream did not answer", func(x *Exchange) { x.Route("m", "p", x.Target) }, "canary"},
		{"upstream answered", func(x *Exchange) { x.Route("m", "p", x.Target); x.Responded(400, x.start) }, nil},
		{"headers came", func(x *Exchange) { x.Route("m", "p", x.Target); x.Responded(200, x.start) }, nil},
		{"an earlier attempt was answered", func(x *Exchange) {
			x.Route("m", "p", x.Target)
			x.Responded(500, x.start)
			x.Failed(&llm.Error{Kind: llm.Upstream})
			x.Route("m", "q", x.Target)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, log := open(t, Options{})
			x := begin(o)
			c.setup(x)
			x.Err = &llm.Error{Kind: llm.Upstream, Code: "a_code", Message: "canary"}
			x.End()
			if l := one(t, log); l[attrError] != c.want || l[attrErrorKind] != "upstream" || l[attrErrorCode] != "a_code" {
				t.Errorf("logged %v", l)
			}
		})
	}
}

// TestCanaries checks that no confidential text of a client or an upstream appears in the
// metrics or in the log, at any level or format.
func TestCanaries(t *testing.T) {
	const canary = "canary-7f3a"
	header := http.Header{}
	for _, name := range []string{"Authorization", "X-Api-Key", "Cookie", "Tracestate", "Traceparent", "Baggage"} {
		header.Set(name, canary)
	}
	for _, format := range []string{"json", "text"} {
		t.Run(format, func(t *testing.T) {
			o, log := open(t, Options{Level: slog.LevelDebug - 10, Format: format})
			_, x := o.Begin(t.Context(), "id", "chat_completions", "openai-chat", header)
			x.Requested = "line one\nlevel=ERROR msg=forged\r\x1b[31m"
			x.Target = "local/" + strings.Repeat("m", 1000)
			x.Route("fast", "local", x.Target)
			x.Responded(400, x.start)
			x.UpstreamID = "the prompt was " + canary
			x.UpstreamProtocol = "h2 " + canary
			x.ResponseModel = canary
			x.Finish = "stopped at " + canary
			x.Err = &llm.Error{
				Kind:    llm.InvalidRequest,
				Code:    "bad value '" + canary + "'",
				Param:   canary,
				Message: "cannot read " + canary,
				Cause:   errors.New("Post https://" + canary),
			}
			x.End()
			if strings.Contains(log.String(), canary) {
				t.Errorf("in the log: %s", log)
			}
			if strings.Contains(scrape(t, o), canary) {
				t.Error("in the metrics")
			}
			if n := strings.Count(log.String(), "\n"); n != 1 || strings.ContainsAny(log.String(), "\r\x1b") {
				t.Errorf("control characters came through: %q", log)
			}
			if !strings.Contains(log.String(), "line one") || log.Len() > 2000 {
				t.Errorf("want the requested model, and the target cut: %s", log)
			}
		})
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		s, want string
		n       int
	}{
		{"", "", 4}, {"abcd", "abcd", 4}, {"abcde", "abcd", 4},
		{"abcé", "abc", 4}, {"中文", "中", 4}, {"\x80\x80\x80", "", 2},
	} {
		got := cut(c.s, c.n)
		if got != c.want || (utf8.ValidString(c.s) && !utf8.ValidString(got)) {
			t.Errorf("cut(%q, %d) = %q, want %q", c.s, c.n, got, c.want)
		}
	}
}

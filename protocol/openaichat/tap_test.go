package openaichat

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

const firstEvent = `{"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}],"usage":null}`

func TestTapMarks(t *testing.T) {
	for _, c := range []struct {
		data string
		want protocol.Mark
	}{
		{``, protocol.Keepalive},
		{`  `, protocol.Keepalive},
		{`: ping`, protocol.Keepalive},
		{`[DONE]`, protocol.Done},
		{" [DONE]\t", protocol.Done},
		{firstEvent, protocol.Content},
		{`{"choices":[]}`, protocol.Content},
		{`{"choices":[],"usage":null}`, protocol.Content},
		{`{"choices":[],"usage":{}}`, protocol.UsageOnly},
		{`{"choices":[ ],"usage":{"prompt_tokens":1}}`, protocol.UsageOnly},
		{`{"choices":null,"usage":{"prompt_tokens":1}}`, protocol.UsageOnly},
		{`{"usage" : {"prompt_tokens":1}}`, protocol.UsageOnly},
		{`{"choices":[{}],"usage":{"prompt_tokens":1}}`, protocol.Content},
		{`{"choices":{},"usage":{"prompt_tokens":1}}`, protocol.Content},
		{`{"error":null,"choices":[]}`, protocol.Content},
		{`{"error":"","choices":[]}`, protocol.Content},
		{`{"error":false}`, protocol.Content},
		{`{"error":{"message":"m"},"choices":[]}`, protocol.Failed},
		{`{"error":"m","choices":[],"usage":{}}`, protocol.Failed},
		{`{"error":503}`, protocol.Failed},
		{`{"error":["m"]}`, protocol.Failed},
		{`{"choices":[{"delta":{"content":"{\"error\":{}}"}}]}`, protocol.Content},
	} {
		for _, seen := range []bool{false, true} {
			tap := &Tap{open: 1, known: seen}
			if got := tap.Event([]byte(c.data)); got != c.want {
				t.Errorf("%s (first: %t): mark %d, want %d", c.data, !seen, got, c.want)
			}
			if (tap.Summary().Err != nil) != (c.want == protocol.Failed) {
				t.Errorf("%s: %v", c.data, tap.Summary().Err)
			}
		}
	}
	for _, data := range []string{`oops`, `{"id":`, `[]`, `"x"`, `<html>`} {
		if tap := new(Tap); tap.Event([]byte(data)) != protocol.Failed || tap.Summary().Err.Code != "upstream_invalid_response" || tap.Summary().Err.Relayed {
			t.Errorf("%s: %+v", data, tap.Summary().Err)
		}
	}
}

func TestTapKnowsTheEnd(t *testing.T) {
	finish := func(index, reason string) string {
		return `{"choices":[{"index":` + index + `,"delta":{},"finish_reason":` + reason + `}]}`
	}
	for name, c := range map[string]struct {
		choices int
		events  []string
		finish  string
		whole   bool
	}{
		"nothing":              {1, nil, "", false},
		"text":                 {1, []string{firstEvent}, "", false},
		"finish":               {1, []string{firstEvent, finish("0", `"stop"`)}, "stop", true},
		"finish first":         {1, []string{finish("0", `"stop"`)}, "stop", true},
		"null":                 {1, []string{firstEvent, finish("0", `null`)}, "", false},
		"empty, CST-17":        {1, []string{firstEvent, finish("0", `""`)}, "", false},
		"DONE":                 {1, []string{firstEvent, `[DONE]`}, "", true},
		"one of two":           {2, []string{finish("0", `"stop"`)}, "stop", false},
		"twice, CST-18":        {2, []string{finish("0", `"stop"`), finish("0", `"tool_calls"`)}, "tool_calls", false},
		"both":                 {2, []string{finish("1", `"stop"`), finish("0", `"length"`)}, "length", true},
		"both in one":          {2, []string{`{"choices":[{"index":0,"finish_reason":"stop"},{"index":1,"finish_reason":"stop"}]}`}, "stop", true},
		"two, DONE":            {2, []string{finish("0", `"stop"`), `[DONE]`}, "stop", true},
		"error after finish":   {1, []string{finish("0", `"stop"`), `{"error":"died"}`}, "stop", false},
		"spaces":               {1, []string{firstEvent, `{"choices" : [ { "finish_reason" : "stop" } ] }`}, "stop", true},
		"text about finishing": {1, []string{firstEvent, `{"choices":[{"delta":{"content":"\"finish_reason\":\"stop\""}}]}`}, "", false},
	} {
		tap := Codec{}.NewTap(c.choices)
		for _, e := range c.events {
			tap.Event([]byte(e))
		}
		if got := tap.Summary(); got.Finish != c.finish || got.Complete != c.whole {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestTapCounts(t *testing.T) {
	for usage, want := range map[string]*llm.Usage{
		`null`: nil,
		`7`:    nil,
		`{}`:   {},
		`{"prompt_tokens":140,"completion_tokens":24,"total_tokens":164}`:                                                                                {Input: 140, Output: 24},
		`{"prompt_tokens":140,"completion_tokens":24,"prompt_tokens_details":{"cached_tokens":100},"completion_tokens_details":{"reasoning_tokens":20}}`: {Input: 40, CacheRead: 100, Output: 4, Reasoning: 20},
		`{"prompt_tokens":140,"prompt_tokens_details":{"cached_tokens":100,"cache_write_tokens":30}}`:                                                    {Input: 10, CacheRead: 100, CacheWrite: 30},
		`{"prompt_tokens":10,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":6}`:                                                                  {Input: 6, CacheRead: 4},
		`{"prompt_tokens":"140","completion_tokens":24.0}`:                                                                                               {Input: 140, Output: 24},
		`{"prompt_tokens":1e2,"completion_tokens":5}`:                                                                                                    {Input: 100, Output: 5},
		`{"prompt_tokens":3,"completion_tokens":-5}`:                                                                                                     nil,
		`{"prompt_tokens":null,"completion_tokens":{},"prompt_tokens_details":null}`:                                                                     {},
		`{"prompt_tokens":99999999999999999999999999}`:                                                                                                   nil,
		`{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":9},"completion_tokens":3,"completion_tokens_details":{"reasoning_tokens":9}}`:       {CacheRead: 9, Reasoning: 9},
		`{"prompt_tokens":3,"prompt_tokens_details":[]}`:                                                                                                 nil,
		`{"prompt_tokens":3,"completion_tokens_details":"none"}`:                                                                                         nil,
		`{"\u0070rompt_tokens":3,"prompt_tokens_details":{"a":{}}}`:                                                                                      {Input: 3},
		`{"prompt_tokens":3,"prompt_tokens":4,"queue_time":"\ud83d"}`:                                                                                    {Input: 4},
	} {
		data := []byte(`{"id":"c1","choices":[],"usage":` + usage + `}`)
		event, body := new(Tap), new(Tap)
		event.Event(data)
		if err := body.Body(data); err != nil {
			t.Errorf("%s: %v", usage, err)
		}
		for _, tap := range []*Tap{event, body} {
			if got := tap.Summary().Usage; !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v, want %+v", usage, got, want)
			}
		}
	}
}

// Azure's first chunk has an empty id and model, CST-24.
func TestTapKeepsTheFirstIdentity(t *testing.T) {
	tap := new(Tap)
	for _, e := range []string{`{"id":"","model":"","choices":[],"usage":{}}`, firstEvent, `{"id":"c2","model":"n","choices":[{"finish_reason":"stop"}]}`} {
		tap.Event([]byte(e))
	}
	if got := tap.Summary(); got.ID != "c1" || got.Model != "m" {
		t.Errorf("%+v", got)
	}
}

// FuzzTap holds three readings of the same bytes against each other: as the first
// event of a stream, as a later one, and as a whole answer.
func FuzzTap(f *testing.F) {
	for _, data := range []string{
		firstEvent, `[DONE]`, `: x`, `{"choices":[],"usage":{"prompt_tokens":1}}`, `{"error":{"message":"m","code":429}}`, `{"error":"x"}`,
		`{"id":7,"choices":[{"index":"1","finish_reason":"stop"},{"index":2,"finish_reason":null}],"usage":{"completion_tokens":"5"}}`,
		`{"choices":[{"delta":{"content":"\"usage\":{"},"finish_reason" : "length"}],"usage":{"prompt_tokens_details":[]}}`,
	} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, later, whole := &Tap{open: 1}, &Tap{open: 1}, &Tap{open: 1}
		later.Event([]byte(firstEvent))
		mark, again, err := first.Event(data), later.Event(data), whole.Body(data)
		if mark == protocol.Keepalive || mark == protocol.Done {
			if again != mark || err == nil {
				t.Fatalf("%q: marks %d and %d, as a body %v", data, mark, again, err)
			}
			return
		}
		if (mark == protocol.Failed) != (err != nil) {
			t.Fatalf("%q: mark %d, as a body %v", data, mark, err)
		}
		a, b, c := first.Summary(), later.Summary(), whole.Summary()
		if a.ID != c.ID || a.Model != c.Model || a.Finish != c.Finish || !reflect.DeepEqual(a.Usage, c.Usage) {
			t.Fatalf("%q: as an event %+v, as a body %+v", data, a, c)
		}
		// Later events are searched before they are decoded, for names without
		// escapes; what is not even JSON is then the client's to notice.
		if bytes.Contains(data, []byte(`\`)) || again == protocol.Content && mark == protocol.Failed && a.Err.Code == "upstream_invalid_response" {
			return
		}
		if again != mark || a.Finish != b.Finish || !reflect.DeepEqual(a.Usage, b.Usage) {
			t.Fatalf("%q: first %d %+v, later %d %+v", data, mark, a, again, b)
		}
	})
}

// FuzzTemplate checks that an event that matches an unimportant one is unimportant.
func FuzzTemplate(f *testing.F) {
	f.Add(`{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}`, `{"choices":[{"delta":{"content":"b"},"finish_reason":null}]}`, `{"choices":[{"delta":{"content":"c"},"finish_reason":null}]}`)
	f.Add(`{"a":{}}`, `{"b":{}}`, `{"usage":{}}`)
	f.Add(`{"error":null,"a":"1"}`, `{"error":null,"a":"\\"}`, `{"error":null,"a":"\"}`)
	f.Fuzz(func(t *testing.T, before, event, data string) {
		var token wire.Template
		token.Learn([]byte(before))
		token.Learn([]byte(event))
		if jsontext.Value(data).IsValid() && !mayMatter([]byte(event)) && token.Matches([]byte(data)) && mayMatter([]byte(data)) {
			t.Fatalf("%q and %q: %q matches", before, event, data)
		}
	})
}

func BenchmarkTapEvent(b *testing.B) {
	for name, event := range map[string]string{
		"text":   `{"id":"chatcmpl-123","object":"chat.completion.chunk","created":1770000000,"model":"gpt-5.4","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":" sky"},"logprobs":null,"finish_reason":null}],"usage":null}`,
		"finish": `{"id":"chatcmpl-123","object":"chat.completion.chunk","created":1770000000,"model":"gpt-5.4","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":140,"completion_tokens":24,"total_tokens":164}}`,
		"large":  `{"id":"c","choices":[{"index":0,"delta":{"content":"` + strings.Repeat(`text \"quoted\" `, 1000) + `"},"finish_reason":null}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			tap, data := &Tap{open: 1}, []byte(event)
			tap.Event([]byte(firstEvent))
			tap.Event([]byte(strings.Replace(event, "sky", "grass", 1)))
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if tap.Event(data) != protocol.Content {
					b.Fatal("not content")
				}
			}
		})
	}
}

func TestHasMember(t *testing.T) {
	for data, want := range map[string]bool{
		`{"usage":{}}`:                   true,
		`{"usage" : 1}`:                  true,
		`{"usage":null}`:                 false,
		`{"usage":null,"a":{"usage":1}}`: true,
		`{"xusage":1}`:                   false,
		`{"a":"usage","usage":1}`:        true,
		`{"a":"usage"}`:                  false,
		`{"a":"x usage","b":1}`:          false,
		`{"a":"\"usage\":1"}`:            false,
		`"xusage"usage":1`:               true, // no JSON, and looked at more closely for it
		`usage":1`:                       false,
		``:                               false,
	} {
		if got := hasMember([]byte(data), `"`, `usage"`); got != want {
			t.Errorf("%s: got %v", data, got)
		}
		if got := hasMember([]byte(data), `"us`, `age"`); got != want {
			t.Errorf("%s in other parts: got %v", data, got)
		}
	}
}

func BenchmarkTapBody(b *testing.B) {
	data := []byte(`{"id":"chatcmpl-123","object":"chat.completion","created":1770000000,"model":"gpt-5.4","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("text ", 200) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":140,"completion_tokens":24,"total_tokens":164,"prompt_tokens_details":{"cached_tokens":100},"completion_tokens_details":{"reasoning_tokens":20}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if tap := (Codec{}).NewTap(1); tap.Body(data) != nil {
			b.Fatal("not a response")
		}
	}
}

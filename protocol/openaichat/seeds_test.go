package openaichat

import (
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// These tests hold requirements of docs/evidence/seeds.md that no other test holds.

// wantKnown wants a body to come back as it was, with every member of it known.
func wantKnown[T any](t *testing.T, body string) {
	t.Helper()
	var v T
	if err := wire.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if name := unknownIn(reflect.ValueOf(v)); name != "" {
		t.Errorf("%s: the member %q has no field", body, name)
	}
	if out, err := wire.Marshal(v); err != nil || string(out) != body {
		t.Errorf("%v\n in %s\nout %s", err, body, out)
	}
}

// unknownIn names a member, at any depth, that its type has no field for.
func unknownIn(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[wire.Extra]() {
			v = v.FieldByName("unknown")
			if v.Len() > 0 {
				return v.Index(0).FieldByName("Name").String()
			}
			return ""
		}
		for i := range v.NumField() {
			if name := unknownIn(v.Field(i)); name != "" {
				return name
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if name := unknownIn(v.Index(i)); name != "" {
				return name
			}
		}
	}
	return ""
}

func TestSeedRequestMembers(t *testing.T) {
	for name, values := range map[string][]string{
		"model":                  {`"gpt-5.4"`},
		"messages":               {`[{"role":"user","content":"x"}]`},
		"stream":                 {`true`, `false`},
		"frequency_penalty":      {`-2.0`, `0.5`},
		"logprobs":               {`true`},
		"max_completion_tokens":  {`100`},
		"max_tokens":             {`100`},
		"n":                      {`2`},
		"presence_penalty":       {`-2`, `1e-1`},
		"seed":                   {`9223372036854775807`},
		"store":                  {`true`},
		"temperature":            {`0`, `2.0`},
		"top_logprobs":           {`5`},
		"top_p":                  {`0.90`},
		"parallel_tool_calls":    {`false`},
		"prompt_cache_key":       {`"k"`},
		"prompt_cache_retention": {`"24h"`},
		"safety_identifier":      {`"s"`},
		"user":                   {`"u"`},
		"audio":                  {`{"format":"wav","voice":"alloy"}`},
		"logit_bias":             {`{"50256":-100}`, `{"1":0.5,"2":100}`}, // K57
		"metadata":               {`{"b":"1","a":"2"}`},
		"modalities":             {`["text","audio"]`},
		"reasoning_effort":       {`"none"`, `"minimal"`, `"low"`, `"medium"`, `"high"`, `"xhigh"`, `"max"`, `"of tomorrow"`},
		"service_tier":           {`"auto"`, `"default"`, `"flex"`, `"scale"`, `"priority"`, `"of tomorrow"`},
		"stop":                   {`"a"`, `["a","b"]`},
		"stream_options":         {`{"include_usage":true}`, `{"include_obfuscation":false}`},
		"verbosity":              {`"low"`, `"medium"`, `"high"`},
		"function_call":          {`"none"`, `"auto"`, `{"name":"f"}`},
		"functions":              {`[{"name":"f","description":"d","parameters":{"type":"object"}}]`},
		"prediction":             {`{"type":"content","content":"p"}`, `{"type":"content","content":[{"type":"text","text":"p"}]}`},
		"response_format":        {`{"type":"text"}`, `{"type":"json_object"}`, `{"type":"json_schema","json_schema":{"name":"n","schema":{},"strict":true}}`},
		"tool_choice":            {`"auto"`, `"none"`, `"required"`, `{"type":"custom","custom":{"name":"c"}}`},
		"tools":                  {`[{"type":"function","function":{"name":"f","description":"d","parameters":{},"strict":true}},{"type":"custom","custom":{"name":"c"}}]`},
		"web_search_options": {
			`{"search_context_size":"low","user_location":{"type":"approximate","approximate":{"city":"Beijing","country":"CN","region":"Beijing","timezone":"Asia/Shanghai"}}}`,
			`{"search_context_size":"small"}`, `{"search_context_size":"large"}`, // K1: an open set
		},
		"nvext": {`{"top_k":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, value := range values {
				wantKnown[Request](t, `{"`+name+`":`+value+`}`)
			}
		})
	}
}

func TestSeedMessages(t *testing.T) {
	for name, body := range map[string]string{
		"developer":       `{"role":"developer","content":"d"}`,
		"system in parts": `{"role":"system","content":[{"type":"text","text":"s"}],"name":"n"}`,
		"user":            `{"role":"user","content":[{"type":"text","text":"t"},{"type":"image_url","image_url":{"url":"u","detail":"high"}},{"type":"input_audio","input_audio":{"data":"AA==","format":"mp3"}},{"type":"file","file":{"filename":"a","file_data":"d","file_id":"i"}}]}`,
		"assistant":       `{"role":"assistant","content":[{"type":"text","text":"t"},{"type":"refusal","refusal":"no"}],"refusal":"no","audio":{"id":"a"}}`,
		"content null":    `{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"d","type":"custom","custom":{"name":"g","input":"i"}}]}`,
		"content absent":  `{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
		"function call":   `{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}`,
		"tool":            `{"role":"tool","tool_call_id":"c","content":"r"}`,
		"function":        `{"role":"function","name":"f","content":"r"}`,
		"answer":          `{"role":"assistant","content":"x","refusal":null,"annotations":[{"type":"url_citation","url_citation":{"start_index":0,"end_index":1,"title":"t","url":"u"}}],"audio":{"id":"a","data":"AA==","expires_at":7,"transcript":"x"},"reasoning_content":"r"}`,
	} {
		t.Run(name, func(t *testing.T) { wantKnown[Message](t, body) })
	}
}

func TestSeedAnswers(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":9,"completion_tokens":8,"total_tokens":17,"prompt_tokens_details":{"cached_tokens":1,"audio_tokens":2},"completion_tokens_details":{"reasoning_tokens":3,"audio_tokens":4,"accepted_prediction_tokens":5,"rejected_prediction_tokens":6}}`
	t.Run("response", func(t *testing.T) {
		wantKnown[Response](t, `{"id":"c","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null},"finish_reason":"stop","logprobs":{"content":[],"refusal":null}}],"service_tier":"default","system_fingerprint":"fp",`+usage+`}`)
	})
	t.Run("chunk", func(t *testing.T) {
		const body = `{"id":"c","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":1,"delta":{"role":"assistant","content":"x","refusal":"r","reasoning_content":"t","tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{"}}],"function_call":{"name":"f","arguments":"{"}},"logprobs":{"content":[],"refusal":[]},"finish_reason":null}],"service_tier":"default","system_fingerprint":"fp","usage":null}`
		var c chunk
		if err := json.Unmarshal([]byte(body), &c, wire.Lenient); err != nil {
			t.Fatal(err)
		}
		if unknown := string(c.Unknown) + string(c.Choices[0].Unknown) + string(c.Choices[0].Delta.Unknown); unknown != "" {
			t.Errorf("members without a field: %s", unknown)
		}
	})
	t.Run("choices are never null", func(t *testing.T) {
		var report llm.Report
		if got := string(Codec{}.EncodeResponse(&llm.Response{ID: "r"}, &llm.Request{}, &report)); !strings.Contains(got, `"choices":[]`) {
			t.Error(got)
		}
	})
	t.Run("usage is disjoint inside", func(t *testing.T) {
		var report llm.Report
		resp := &llm.Response{Usage: &llm.Usage{Input: 1, CacheRead: 20, CacheWrite: 300, Output: 4, Reasoning: 50}}
		got := string(Codec{}.EncodeResponse(resp, &llm.Request{}, &report))
		if want := `"usage":{"prompt_tokens":321,"completion_tokens":54,"total_tokens":375,"prompt_tokens_details":{"cached_tokens":20,"cache_write_tokens":300},"completion_tokens_details":{"reasoning_tokens":50}}`; !strings.Contains(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
}

func TestSeedFinishReasons(t *testing.T) {
	const call = `"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]`
	for finish, want := range map[string]struct {
		said string
		stop llm.StopKind
		back string
	}{
		"stop":           {`"content":"x"`, llm.EndTurn, "stop"},
		"length":         {`"content":"x"`, llm.MaxTokens, "length"},
		"tool_calls":     {call, llm.ToolUse, "tool_calls"},
		"content_filter": {`"content":"x"`, llm.ContentFilter, "content_filter"},
		"function_call":  {`"function_call":{"name":"f","arguments":"{}"}`, llm.ToolUse, "function_call"},
		"of tomorrow":    {`"content":"x"`, llm.Other, "of tomorrow"}, // GEM-14: never a clean end
	} {
		t.Run(finish, func(t *testing.T) {
			resp, err := Codec{}.DecodeResponse([]byte(`{"choices":[{"index":0,"message":{"role":"assistant",` + want.said + `},"finish_reason":"` + finish + `"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := resp.Choices[0].Stop; got.Kind != want.stop || got.Raw != finish {
				t.Errorf("%+v, want %s", got, want.stop)
			}
			var report llm.Report
			if got := string(Codec{}.EncodeResponse(resp, &llm.Request{}, &report)); !strings.Contains(got, `"finish_reason":"`+want.back+`"`) {
				t.Errorf("%s\nwant %s", got, want.back)
			}
		})
	}
}

// Both ways to declare a tool at once: nothing is lost, and the newer choice counts.
func TestSeedFunctionsBesideTools(t *testing.T) {
	req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(`{"model":"m","messages":[],"tools":[{"type":"function","function":{"name":"new"}}],"functions":[{"name":"old"}],"tool_choice":"required","function_call":"none"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if len(req.Tools) != 2 || req.Tools[0].Name != "new" || req.Tools[1].Name != "old" || req.ToolChoice.Mode != "required" {
		t.Errorf("%+v %+v", req.Tools, req.ToolChoice)
	}
}

// K9 and K10: two calls begin before either has arguments, one of them never gets
// any. Each keeps its id, its name and its index.
func TestSeedCallsBeginTogether(t *testing.T) {
	call := func(id, name string) llm.Block { return &llm.ToolCall{CallID: id, Kind: llm.FunctionTool, Name: name} }
	stream := string(protocoltest.WriteStream(Codec{}, &llm.Request{}, []llm.Event{
		llm.Start{ID: "r", Model: "m", Created: 7},
		llm.BlockStart{Index: 0, Block: call("a", "f")}, llm.BlockStart{Index: 1, Block: call("b", "g")},
		llm.Delta{Index: 1, Text: `{"y":`}, llm.Delta{Index: 1, Text: `2}`},
		llm.BlockEnd{Index: 0}, llm.BlockEnd{Index: 1},
		llm.ChoiceEnd{Stop: llm.Stop{Kind: llm.ToolUse}}, llm.End{},
	}))
	for line := range strings.Lines(stream) {
		if strings.HasPrefix(line, "data: {") && !strings.Contains(line, `"id":"r","object":"chat.completion.chunk","created":7,"model":"m"`) {
			t.Errorf("a chunk without its identity (K25): %s", line)
		}
	}
	body, err := aggregate([]byte(stream))
	if want := `"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{\"y\":2}"}}]`; err != nil || !strings.Contains(string(body), want) {
		t.Errorf("%v %s\nwant %s\nfrom %s", err, body, want, stream)
	}
}

package completions

import (
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

func ptr[T any](v T) *T { return &v }

func saying(text string) []llm.Turn {
	return []llm.Turn{{Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: text}}}}
}

func TestDecodeRequest(t *testing.T) {
	ext := llm.Ext{Protocol: own}
	for body, want := range map[string]*llm.Request{
		`{"model":"m","prompt":"Hi"}`:   {Model: "m", Turns: saying("Hi"), Ext: ext},
		`{"model":"m","prompt":["Hi"]}`: {Model: "m", Turns: saying("Hi"), Ext: ext},
		`{"model":"m","prompt":""}`:     {Model: "m", Turns: saying(""), Ext: ext},
		`{"model":"m","prompt":"é\u00e9\ud83d\ude00","suffix":null,"echo":false,"best_of":1,"logprobs":null,"n":null}`: {
			Model: "m", Turns: saying("éé😀"), Ext: ext},
		`{"model":"m","prompt":"Hi","max_tokens":16,"temperature":0.70,"top_p":1,"n":2,"stop":"x","stream":true,"stream_options":{"include_usage":true},
		  "presence_penalty":-1,"frequency_penalty":0.5,"seed":7,"user":"u","logit_bias":{"50256":-100}}`: {
			Model: "m", Turns: saying("Hi"), Stream: true, IncludeUsage: true,
			Output:   llm.Output{MaxTokens: ptr(int64(16)), Choices: ptr(int64(2)), Stops: []string{"x"}},
			Sampling: llm.Sampling{Temperature: "0.70", TopP: "1", Seed: "7", PresencePenalty: "-1", FrequencyPenalty: "0.5", LogitBias: `{"50256":-100}`},
			Identity: llm.Identity{User: "u"}, Ext: ext},
		`{"model":"m","prompt":"Hi","stop":["a","b"],"top_k":40,"suffix":"","stream_options":{"include_obfuscation":false}}`: {
			Model: "m", Turns: saying("Hi"), Output: llm.Output{Stops: []string{"a", "b"}},
			Ext: llm.Ext{Protocol: own, Members: []llm.Member{{Name: "top_k", Value: "40"}, {Name: "stream_options", Value: `{"include_obfuscation":false}`}}}},
	} {
		got, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(body)})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n%+v\nwant\n%+v", body, err, got, want)
		}
	}
}

func TestDecodeRequestRefuses(t *testing.T) {
	for _, c := range []struct{ members, code, param string }{
		{`"prompt":["a","b"]`, "completion.unsupported", "prompt"},
		{`"prompt":[1,2]`, "completion.unsupported", "prompt"},
		{`"prompt":[[1,2]]`, "completion.unsupported", "prompt"},
		{`"prompt":["a",[1]]`, "completion.unsupported", "prompt"},
		{`"prompt":[["a"]]`, "completion.unsupported", "prompt"},
		{`"prompt":"a","echo":true`, "completion.unsupported", "echo"},
		{`"prompt":"a","best_of":2`, "completion.unsupported", "best_of"},
		{`"prompt":"a","suffix":"z"`, "completion.unsupported", "suffix"},
		{`"prompt":"a","logprobs":0`, "completion.unsupported", "logprobs"},
		{`"prompt":"a","logprobs":5`, "completion.unsupported", "logprobs"},
		{`"prompt":[]`, "invalid_value", "prompt"},
		{`"prompt":null`, "invalid_value", "prompt"},
		{`"stop":"x"`, "invalid_value", "prompt"},
		{`"prompt":"a","max_tokens":1.5`, "invalid_value", "max_tokens"},
		{`"prompt":"a","n":0.5`, "invalid_value", "n"},
		{`"prompt":"a","best_of":1.5`, "invalid_value", "best_of"},
		{`"prompt":{}`, "invalid_json", ""},
		{`"prompt":"a","echo":"yes"`, "invalid_json", ""},
		{`"prompt":`, "invalid_json", ""},
	} {
		_, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(`{"model":"m",` + c.members + `}`)})
		if err == nil || err.HTTPStatus() != 400 || err.Code != c.code || err.Param != c.param || err.Message == "" {
			t.Errorf("%s: %+v", c.members, err)
		}
	}
}

// answers have one choice, or several, and what a completion has no room for.
func answers() map[string]*llm.Response {
	text := func(s string) llm.Block { return &llm.Text{Text: s} }
	one := func(stop llm.Stop, blocks ...llm.Block) []llm.Choice {
		return []llm.Choice{{Blocks: blocks, Stop: stop}}
	}
	usage := &llm.Usage{Input: 5, CacheRead: 2, Output: 3, Reasoning: 4}
	return map[string]*llm.Response{
		"text":    {ID: "c1", Model: "m", Created: 7, Usage: usage, Choices: one(llm.Stop{Kind: llm.EndTurn}, text("Hel"), text("lo \"é\"\n"))},
		"nothing": {ID: "c1", Model: "m", Created: 7, Choices: one(llm.Stop{Kind: llm.MaxTokens})},
		"several": {ID: "c1", Model: "m", Created: 7, Usage: usage, Choices: []llm.Choice{
			{Index: 0, Blocks: []llm.Block{text("a")}, Stop: llm.Stop{Kind: llm.StopSequence, Matched: "x"}},
			{Index: 1, Blocks: []llm.Block{text("b")}, Stop: llm.Stop{Kind: llm.ContentFilter}}}},
		"reasoning": {ID: "c1", Model: "m", Created: 7, Choices: one(llm.Stop{Kind: llm.EndTurn},
			&llm.Thought{Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: "hmm"}}}, text("so"))},
		"refusal": {ID: "c1", Model: "m", Created: 7, Choices: one(llm.Stop{Kind: llm.Refused, Category: "bio"}, &llm.Refusal{Text: "no"})},
		"call":    {ID: "c1", Model: "m", Created: 7, Choices: one(llm.Stop{Kind: llm.ToolUse}, &llm.ToolCall{Name: "f", Args: "{}"})},
		"cited": {ID: "c1", Model: "m", Created: 7, Tier: "priority", Choices: one(llm.Stop{Kind: llm.Other, Raw: "ODD"},
			&llm.Text{Text: "t", Phase: "final_answer", Citations: []llm.Citation{{URL: "u"}}})},
	}
}

func TestEncodeResponse(t *testing.T) {
	const head, usage = `{"id":"c1","object":"text_completion","created":7,"model":"m","choices":[`, `,"usage":{"prompt_tokens":7,"completion_tokens":7,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":4}}}`
	choice := func(index, text, finish string) string {
		return `{"text":"` + text + `","index":` + index + `,"logprobs":null,"finish_reason":"` + finish + `"}`
	}
	for name, want := range map[string]struct{ body, codes string }{
		"text":      {choice("0", `Hello \"é\"\n`, "stop") + "]" + usage, ""},
		"nothing":   {choice("0", "", "length") + "]}", ""},
		"several":   {choice("0", "a", "stop") + "," + choice("1", "b", "content_filter") + "]" + usage, "stop_reason.lossy"},
		"reasoning": {choice("0", "so", "stop") + "]}", "completion.text_only"},
		"refusal":   {choice("0", "no", "content_filter") + "]}", "refusal.as_text stop_reason.lossy stop_reason.lossy"},
		"call":      {choice("0", "", "stop") + "]}", "completion.text_only stop_reason.lossy"},
		"cited":     {choice("0", "t", "length") + "]}", "tier.unsupported completion.text_only text.phase stop_reason.lossy"},
	} {
		var report llm.Report
		got := Codec{}.EncodeResponse(answers()[name], &llm.Request{}, &report)
		var codes []string
		for _, l := range report.Losses {
			codes = append(codes, l.Code)
		}
		if string(got) != head+want.body || strings.Join(codes, " ") != want.codes {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, codes, got, head+want.body)
		}
	}
}

func TestFinishReasons(t *testing.T) {
	for stop, want := range map[llm.Stop]string{
		{Kind: llm.EndTurn}: "stop", {Kind: llm.ToolUse}: "stop", {Kind: llm.Other}: "stop",
		{Kind: llm.MaxTokens}: "length", {Kind: llm.ContextWindow}: "length", {Kind: llm.Pause}: "length",
		{Kind: llm.Malformed}: "length", {Kind: llm.Other, Raw: "odd"}: "length",
		{Kind: llm.PromptBlocked}: "content_filter", {Kind: llm.Refused}: "content_filter",
	} {
		if got := finishOf(stop); got != want {
			t.Errorf("%+v is %s, want %s", stop, got, want)
		}
	}
}

// completion is an answer or a chunk as a client reads it.
type completion struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Text   string  `json:"text"`
		Index  int     `json:"index"`
		Finish *string `json:"finish_reason"`
	} `json:"choices"`
	Usage map[string]any `json:"usage"`
}

func read(t testing.TB, body string) completion {
	t.Helper()
	var c completion
	if err := json.Unmarshal([]byte(body), &c); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	return c
}

// collect reads a stream that has come to a good end as one completion, and holds
// it to its rules: one head, one finish reason for each choice and nothing after
// it, the usage alone and last.
func collect(t testing.TB, stream string) completion {
	t.Helper()
	chunks, ended := strings.CutSuffix(stream, "data: [DONE]\n\n")
	if !ended || strings.Contains(chunks, "[DONE]") {
		t.Fatalf("the stream does not end as it should\n%s", stream)
	}
	var all completion
	for event := range strings.SplitSeq(strings.TrimSuffix(chunks, "\n\n"), "\n\n") {
		c := read(t, strings.TrimPrefix(event, "data: "))
		if all.ID == "" {
			all.ID, all.Object, all.Created, all.Model = c.ID, c.Object, c.Created, c.Model
		}
		if all.ID != c.ID || all.Object != c.Object || all.Created != c.Created || all.Model != c.Model || all.Usage != nil || (c.Usage != nil) != (len(c.Choices) == 0) {
			t.Fatalf("a chunk is out of place: %s\n%s", event, stream)
		}
		all.Usage = c.Usage
		for _, part := range c.Choices {
			for len(all.Choices) <= part.Index {
				all.Choices = append(all.Choices, part)
				last := &all.Choices[len(all.Choices)-1]
				last.Text, last.Finish, last.Index = "", nil, len(all.Choices)-1
			}
			to := &all.Choices[part.Index]
			if to.Finish != nil {
				t.Fatalf("choice %d goes on after its end\n%s", part.Index, stream)
			}
			to.Text, to.Finish = to.Text+part.Text, part.Finish
		}
	}
	return all
}

func encode(req *llm.Request, events ...llm.Event) string {
	var b []byte
	encoder := Codec{}.NewStreamEncoder(req)
	for _, e := range events {
		b = encoder.Encode(e, b)
	}
	return string(b)
}

// What a client collects of a stream is what it would have got whole.
func TestACollectedStreamIsTheWholeAnswer(t *testing.T) {
	for name, resp := range answers() {
		want := read(t, string(Codec{}.EncodeResponse(resp, nil, &llm.Report{})))
		if got := collect(t, encode(&llm.Request{IncludeUsage: true}, llm.Explode(resp)...)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v\nwant\n%+v", name, got, want)
		}
		want.Usage = nil
		if got := collect(t, encode(&llm.Request{}, llm.Explode(resp)...)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s, without usage:\n%+v\nwant\n%+v", name, got, want)
		}
	}
}

func TestStream(t *testing.T) {
	const head = `data: {"id":"c1","object":"text_completion","created":7,"model":"m","choices":[`
	const part = head + `{"text":"a","index":0,"logprobs":null,"finish_reason":null}]}` + "\n\n"
	const end = head + `{"text":"","index":0,"logprobs":null,"finish_reason":"stop"}]}` + "\n\n"
	begin := []llm.Event{llm.Start{ID: "c1", Created: 7, Model: "m"}, llm.BlockStart{Block: &llm.Text{}}, llm.Delta{Text: "a"}}
	stop := llm.ChoiceEnd{Stop: llm.Stop{Kind: llm.EndTurn}}
	fault := llm.Failure{Err: &llm.Error{Kind: llm.Upstream, Code: "upstream_truncated", Message: "cut"}}
	for name, c := range map[string]struct {
		events []llm.Event
		want   string
	}{
		"whole":               {[]llm.Event{llm.BlockEnd{}, stop, llm.End{}}, part + end + "data: [DONE]\n\n"},
		"two ends":            {[]llm.Event{stop, stop, llm.Delta{Text: "late"}, llm.End{}, llm.End{}}, part + end + "data: [DONE]\n\n"},
		"nothing after a cut": {[]llm.Event{fault, stop, llm.End{}}, part + string(Codec{}.EncodeStreamError(fault.Err))},
		"a ping":              {[]llm.Event{llm.Ping{}}, part + string(sse.AppendComment(nil, "keep-alive"))},
	} {
		if got := encode(nil, append(begin[:len(begin):len(begin)], c.events...)...); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
	if got := encode(nil, fault); !strings.HasPrefix(got, `data: {"error":{`) || strings.Contains(got, "[DONE]") {
		t.Errorf("an error is %s", got)
	}
}

// A request that is read has one prompt, which is what the user says.
func FuzzDecodeRequest(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","prompt":"Hi","stop":["a"],"n":2,"stream_options":{"include_usage":true,"x":1},"top_k":1}`,
		`{"prompt":["\ud83d\ude00"],"best_of":1,"echo":false,"logprobs":null,"logit_bias":{"1":2}}`, `{"prompt":[[1,2],"a"]}`, `{"prompt":"a","suffix":"b"}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, fault := Codec{}.DecodeRequest(protocol.Incoming{Body: body})
		var in struct {
			Prompt   any     `json:"prompt"`
			Suffix   *string `json:"suffix"`
			Echo     *bool   `json:"echo"`
			Logprobs any     `json:"logprobs"`
		}
		if fault != nil || json.Unmarshal(body, &in) != nil {
			return
		}
		said := in.Prompt
		if list, ok := said.([]any); ok && len(list) == 1 {
			said = list[0]
		}
		if len(req.Turns) != 1 || len(req.Turns[0].Blocks) != 1 || said != req.Turns[0].Blocks[0].(*llm.Text).Text {
			t.Errorf("%v became %+v", in.Prompt, req.Turns)
		}
		if in.Suffix != nil && *in.Suffix != "" || in.Echo != nil && *in.Echo || in.Logprobs != nil {
			t.Errorf("it should be refused: %s", body)
		}
	})
}

package openairesponses

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

// schema is what Open Responses requires of an object: its members and the kinds
// of their values. i is a whole number, ? lets null pass, and a word is another
// object of this table or a list of them.
var schema = map[string]map[string]string{
	"response": {
		"id": "s", "object": "s", "created_at": "i", "completed_at": "i?", "status": "s", "incomplete_details": "incomplete?", "model": "s",
		"previous_response_id": "s?", "instructions": "s?", "output": "[item]", "error": "error?", "tools": "[tool]", "tool_choice": "any",
		"truncation": "s", "parallel_tool_calls": "b", "text": "text", "top_p": "n", "presence_penalty": "n", "frequency_penalty": "n",
		"top_logprobs": "i", "temperature": "n", "reasoning": "reasoning?", "usage": "usage?", "max_output_tokens": "i?", "max_tool_calls": "i?",
		"store": "b", "background": "b", "service_tier": "s", "metadata": "any", "safety_identifier": "s?", "prompt_cache_key": "s?",
	},
	"incomplete":    {"reason": "s"},
	"error":         {"code": "s", "message": "s"},
	"tool":          {"type": "s"},
	"tool function": {"name": "s", "description": "s?", "parameters": "any", "strict": "b?"},
	"text":          {"format": "format"},
	"format":        {"type": "s"},
	"reasoning":     {"effort": "s?", "summary": "s?"},
	"usage": {"input_tokens": "i", "output_tokens": "i", "total_tokens": "i",
		"input_tokens_details": "input", "output_tokens_details": "output"},
	"input":              {"cached_tokens": "i"},
	"output":             {"reasoning_tokens": "i"},
	"item":               {"type": "s", "id": "s"},
	"item message":       {"status": "s", "role": "s", "content": "[part]"},
	"item function_call": {"call_id": "s", "name": "s", "arguments": "s", "status": "s"},
	"item reasoning":     {"summary": "[part]"},

	"item tool_search_call": {"execution": "s", "arguments": "any", "status": "s"},

	"part":              {"type": "s"},
	"part output_text":  {"text": "s", "annotations": "[note]"},
	"part summary_text": {"text": "s"},
	"part refusal":      {"refusal": "s"},
	"note":              {"type": "s", "url": "s", "start_index": "i", "end_index": "i", "title": "s"},

	"event":                                        {"type": "s", "sequence_number": "i"},
	"event response.created":                       {"response": "response"},
	"event response.in_progress":                   {"response": "response"},
	"event response.completed":                     {"response": "response"},
	"event response.incomplete":                    {"response": "response"},
	"event response.failed":                        {"response": "response"},
	"event response.output_item.added":             {"output_index": "i", "item": "item"},
	"event response.output_item.done":              {"output_index": "i", "item": "item"},
	"event response.content_part.added":            {"item_id": "s", "output_index": "i", "content_index": "i", "part": "part"},
	"event response.content_part.done":             {"item_id": "s", "output_index": "i", "content_index": "i", "part": "part"},
	"event response.output_text.delta":             {"item_id": "s", "output_index": "i", "content_index": "i", "delta": "s"},
	"event response.output_text.done":              {"item_id": "s", "output_index": "i", "content_index": "i", "text": "s"},
	"event response.output_text.annotation.added":  {"item_id": "s", "output_index": "i", "content_index": "i", "annotation_index": "i", "annotation": "note"},
	"event response.refusal.delta":                 {"item_id": "s", "output_index": "i", "content_index": "i", "delta": "s"},
	"event response.refusal.done":                  {"item_id": "s", "output_index": "i", "content_index": "i", "refusal": "s"},
	"event response.reasoning_summary_part.added":  {"item_id": "s", "output_index": "i", "summary_index": "i", "part": "part"},
	"event response.reasoning_summary_part.done":   {"item_id": "s", "output_index": "i", "summary_index": "i", "part": "part"},
	"event response.reasoning_summary_text.delta":  {"item_id": "s", "output_index": "i", "summary_index": "i", "delta": "s"},
	"event response.reasoning_summary_text.done":   {"item_id": "s", "output_index": "i", "summary_index": "i", "text": "s"},
	"event response.function_call_arguments.delta": {"item_id": "s", "output_index": "i", "delta": "s"},
	"event response.function_call_arguments.done":  {"item_id": "s", "output_index": "i", "arguments": "s"},
}

// extensions are the events and parts of OpenAI's that Open Responses has under
// other names or not at all.
var extensions = map[string]bool{
	"event response.custom_tool_call_input.delta": true, "event response.custom_tool_call_input.done": true,
	"event response.reasoning_text.delta": true, "event response.reasoning_text.done": true,
}

func checkSchema(t *testing.T, kind string, raw jsontext.Value) {
	t.Helper()
	var members map[string]jsontext.Value
	if err := json.Unmarshal(raw, &members); err != nil {
		t.Errorf("%s: %v: %s", kind, err, raw)
		return
	}
	typ := kind + " " + strings.Trim(string(members["type"]), `"`)
	if _, known := schema[typ]; kind == "event" && !known && !extensions[typ] {
		t.Errorf("%s is not in the schema", typ)
	}
	for _, table := range []map[string]string{schema[kind], schema[typ]} {
		for name, want := range table {
			checkMember(t, kind+"."+name, want, members[name])
		}
	}
}

func checkMember(t *testing.T, name, want string, v jsontext.Value) {
	t.Helper()
	want, nullable := strings.CutSuffix(want, "?")
	kinds := map[string]string{"s": `"`, "i": "0", "n": "0", "b": "tf"}
	switch {
	case v == nil:
		t.Errorf("%s is missing", name)
	case v.Kind() == 'n' && nullable, want == "any":
	case kinds[want] != "":
		if !strings.ContainsRune(kinds[want], rune(v.Kind())) || want == "i" && bytes.ContainsAny(v, ".eE") {
			t.Errorf("%s is %s, want %s", name, v, want)
		}
	case want[0] == '[':
		var list []jsontext.Value
		if err := json.Unmarshal(v, &list); err != nil || v.Kind() != '[' {
			t.Errorf("%s is %s, want a list", name, v)
		}
		for _, inner := range list {
			checkSchema(t, strings.Trim(want, "[]"), inner)
		}
	default:
		checkSchema(t, want, v)
	}
}

func checkStreamSchema(t *testing.T, stream []byte) {
	t.Helper()
	for line := range bytes.Lines(stream) {
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			checkSchema(t, "event", bytes.TrimSpace(data))
		}
	}
}

// Whatever is written in a case is valid by the schema of Open Responses.
func TestCasesFollowTheSchema(t *testing.T) {
	for _, c := range protocoltest.Cases(t, "testdata") {
		if stream, ok := c.Section("client.sse"); ok {
			t.Run(c.Name+"/sse", func(t *testing.T) { checkStreamSchema(t, stream) })
		}
		if body, ok := c.Section("client.json"); ok {
			t.Run(c.Name+"/json", func(t *testing.T) { checkSchema(t, "response", body) })
		}
	}
}

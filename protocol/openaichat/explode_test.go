package openaichat

import (
	"bytes"
	"errors"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Bodies as providers send them, members in the providers' own order.
func TestExplode(t *testing.T) {
	bodies := map[string]string{
		"text":     `{"id":"chatcmpl-1","object":"chat.completion","created":1770000000,"model":"gpt-5.4","choices":[{"index":0,"message":{"role":"assistant","content":"Hello <b>","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":2,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0}},"service_tier":"default","system_fingerprint":null}`,
		"tools":    `{"usage":{"total_tokens":5},"choices":[{"finish_reason":"tool_calls","logprobs":null,"message":{"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{ \"b\" : 1 }"}},{"id":"b","type":"custom","custom":{"name":"c","input":"x"}}],"content":null,"refusal":null,"role":"assistant"},"index":0}],"model":"m","created":1,"object":"chat.completion","id":"1","prompt_logprobs":null,"kv_transfer_params":{"a":1.10}}`,
		"several":  `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a","refusal":null},"logprobs":{"content":[{"token":"a","logprob":-0.10,"bytes":[97],"top_logprobs":[]}],"refusal":null},"finish_reason":"length"},{"index":1,"message":{"role":"assistant","content":null,"refusal":"no"},"logprobs":null,"finish_reason":"stop","stop_reason":7}]}`,
		"thinking": `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a","refusal":null,"reasoning_content":"because","reasoning":null},"logprobs":null,"finish_reason":"stop"}]}`,
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			chunks, err := Explode([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			again, err := aggregate(chunks, false)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := reordered(t, again), reordered(t, []byte(body)); !bytes.Equal(got, want) {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
		})
	}
}

// reordered returns the body with sorted members and nothing else changed.
func reordered(t *testing.T, body []byte) []byte {
	t.Helper()
	v := jsontext.Value(bytes.Clone(body))
	if err := v.Format(jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestExplodeUsageChunk(t *testing.T) {
	chunks, err := Explode([]byte(`{"id":"1","created":1,"model":"m","choices":[{"message":{"content":"a","tool_calls":[{"index":4,"id":"x","function":{"name":"f"}}]}}],"usage":{"total_tokens":5}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}`,
		`{"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`,
		`{"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f"}}]},"finish_reason":null}]}`,
		`{"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
		`{"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"total_tokens":5}}`,
	}
	if len(chunks) != len(want) {
		t.Fatalf("%d chunks, want %d", len(chunks), len(want))
	}
	for i := range want {
		if string(chunks[i]) != want[i] {
			t.Errorf("chunk %d:\n got %s\nwant %s", i, chunks[i], want[i])
		}
	}
}

func TestExplodeWithoutAnswer(t *testing.T) {
	if _, err := Explode([]byte(`{"id":"1","choices":[]}`)); !errors.Is(err, ErrNoChoices) {
		t.Errorf("no choices: %v", err)
	}
	_, err := Explode([]byte(`{"error":{"message":"too many","type":"rate_limit_error"}}`))
	if upstream, ok := errors.AsType[*llm.Error](err); !ok || upstream.Message != "too many" {
		t.Errorf("error object: %v", err)
	}
	if _, err := Explode([]byte(`<html>`)); err == nil {
		t.Error("a body that is not JSON was taken")
	}
}

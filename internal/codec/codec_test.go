package codec

import (
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func TestCarry(t *testing.T) {
	gem := llm.Seal{Form: llm.Signature, Data: "s<&\"", Origin: string(protocol.Gemini)}
	redacted := llm.Seal{Form: llm.Redacted, Data: "r", Origin: string(protocol.Anthropic)}
	signed := llm.Seal{Form: llm.Signature, Data: "a", Origin: string(protocol.Anthropic)}
	encrypted := llm.Seal{Form: llm.Encrypted, Data: "e", Origin: string(protocol.OpenAIResponses), ID: "rs_1"}
	for _, c := range []struct {
		own   protocol.Name
		seals []llm.Seal
		want  llm.Raw
		back  []llm.Seal
	}{
		{protocol.OpenAIChat, nil, "", nil},
		{protocol.OpenAIChat, []llm.Seal{gem}, `{"google":{"thought_signature":"s<&\""}}`, []llm.Seal{gem}},
		{protocol.OpenAIChat, []llm.Seal{gem, redacted, signed, encrypted},
			`{"anthropic":{"redacted_thinking":"r","signature":"a"},"google":{"thought_signature":"s<&\""},"openai":{"encrypted_content":"e","id":"rs_1"}}`,
			[]llm.Seal{encrypted, signed, redacted, gem}},
		{protocol.Gemini, []llm.Seal{gem}, "", nil}, // the protocol's own seal is not carried
		{protocol.Gemini, []llm.Seal{gem, signed}, `{"anthropic":{"signature":"a"}}`, []llm.Seal{signed}},
		{protocol.Gemini, []llm.Seal{{Form: llm.Signature, Data: "x", Origin: "unknown"}, {Form: llm.Signature, Data: "x", Origin: string(protocol.OpenAIChat)}}, "", nil},
	} {
		got := Carry(c.seals, c.own)
		if got != c.want || got != Carry(c.seals, c.own) {
			t.Errorf("%v: %s, want %s", c.seals, got, c.want)
		}
		if back := Uncarry(got); !reflect.DeepEqual(back, c.back) {
			t.Errorf("%s: %v, want %v", got, back, c.back)
		}
	}
}

// Uncarry finds the seals in a carrier that the client has changed.
func TestHasForeign(t *testing.T) {
	for body, want := range map[string]bool{
		`{"signature":"aXNvZ2xvc3M6e30="}`:                             true,
		`{"extra_content":{"google":{"thought_signature":"s"}}}`:       true,
		"{\"extra_content\" :\n{ \"openai\" : {}}}":                    true,
		`{"properties":{"extra_content":{"type":"string"}}}`:           false,
		`{"text":"{\"extra_content\":{\"google\":{}}}"}`:               false,
		`{"extra_content":1,"a":{"extra_content":{"anthropic":null}}}`: true,
		`{"extra_content`: false,
	} {
		if got := HasForeign([]byte(body), protocol.Anthropic); got != want {
			t.Errorf("HasForeign(%s) = %t, want %t", body, got, want)
		}
	}
	if HasForeign([]byte(`{"extra_content":{"google":{"thought_signature":"s"}}}`), protocol.OpenAIChat) {
		t.Error("the member of Google's OpenAI-compatible API is foreign to Chat")
	}
}

func TestUncarryIgnoresOtherMembers(t *testing.T) {
	seal := []llm.Seal{{Form: llm.Signature, Data: "s", Origin: string(protocol.Gemini)}}
	for raw, want := range map[llm.Raw][]llm.Seal{
		``: nil, `null`: nil, `7`: nil, `[]`: nil, `{`: nil, `"x"`: nil, `{}`: nil,
		`{"google":null}`:                      nil,
		`{"google":{"thought_signature":""}}`:  nil,
		`{"google":{"thought_signature":7}}`:   nil,
		`{"google":{"thought_signature":"s"}}`: seal,
		`{"google":{"thought_signature":"s","more":[1]},"openai":7,"anthropic":"x","other":{"a":1}}`: seal,
		`{"google":{"thought_signature":"s"},"google":{"thought_signature":"s"}}`:                    seal,
	} {
		if got := Uncarry(raw); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", raw, got, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		seconds, milliseconds string
		want                  time.Duration
	}{
		{"", "", 0}, {"7", "", 7 * time.Second}, {"1.5", "", 1500 * time.Millisecond}, {"0", "", 0}, {"-3", "", 0},
		{"7", "250", 250 * time.Millisecond}, {"7", "x", 7 * time.Second}, {"7", "0", 7 * time.Second},
		{"Wed, 21 Oct 2026 07:28:00 GMT", "", 0}, {"NaN", "", 0}, {"Inf", "", maxRetryAfter}, {"1e300", "", maxRetryAfter},
	} {
		h := http.Header{}
		h.Set("Retry-After", c.seconds)
		h.Set("retry-after-ms", c.milliseconds)
		if got := RetryAfter(h); got != c.want {
			t.Errorf("%q, %q: %s, want %s", c.seconds, c.milliseconds, got, c.want)
		}
	}
	if got := RetryAfter(nil); got != 0 {
		t.Errorf("no headers: %s", got)
	}
}

func TestReadCount(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "null": 0, "0": 0, "-3": 0, "3": 3, "3.0": 3, "1e2": 100, `"128"`: 128, `"1e2"`: 100, `"1_0"`: 10, "2147483648": 1 << 31} {
		if n, err := ReadCount("n", wire.Raw(text)); n != want || err != nil {
			t.Errorf("%s: %d and error %v, want %d", text, n, err, want)
		}
	}
	for _, text := range []string{`" 128 "`, `"0x10"`, `"many"`, `""`, `"\u0031"`, "[128]", "{}", "true", "1e300", "1e999", "9223372036854775808", "2147483649"} {
		if n, err := ReadCount("n", wire.Raw(text)); err == nil || err.Param != "n" {
			t.Errorf("%s: %d and error %v, want an error about n", text, n, err)
		}
	}
}

func TestSealsOfKnownProtocolsAreCarried(t *testing.T) {
	for n := range carried {
		if !slices.Contains(protocol.Names(), n) {
			t.Errorf("seals of %q are carried, and there is no such protocol", n)
		}
	}
}

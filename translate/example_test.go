package translate_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/translate"
)

// newTranslator returns a translator with a fixed clock and fixed ids, so that the examples have the same output each time.
func newTranslator(client, upstream protocol.Name, model string, memory translate.Memory) *translate.Translator {
	n := 0
	t, err := translate.New(translate.Options{Client: client, Upstream: upstream, Model: model, Memory: memory,
		Now:   func() time.Time { return time.Unix(1790000000, 0) },
		NewID: func() string { n++; return fmt.Sprint("id-", n) }})
	if err != nil {
		panic(err)
	}
	return t
}

var ok = http.Header{"Content-Type": {"application/json"}}

// Translate a request: a Messages client on a Chat Completions upstream.
func ExampleTranslator_Request() {
	t := newTranslator(protocol.Anthropic, protocol.OpenAIChat, "llama-3-70b", nil)
	x, err := t.Request([]byte(`{"model":"claude-opus-5","max_tokens":100,"system":"Be brief.","messages":[{"role":"user","content":"Hello"}]}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(x.Path)
	fmt.Println(string(x.Body))
	// Output:
	// /v1/chat/completions
	// {"model":"llama-3-70b","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello"}],"max_completion_tokens":100}
}

// Translate a response: what the upstream sent becomes what the client's SDK reads.
func ExampleExchange_Response() {
	t := newTranslator(protocol.Anthropic, protocol.OpenAIChat, "llama-3-70b", nil)
	x, err := t.Request([]byte(`{"model":"claude-opus-5","max_tokens":100,"messages":[{"role":"user","content":"Hello"}]}`))
	if err != nil {
		panic(err)
	}
	answer, err := x.Response(http.StatusOK, ok, []byte(`{"id":"c1","object":"chat.completion","created":1,"model":"llama-3-70b",
		"choices":[{"index":0,"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(string(answer.Body))
	fmt.Println(answer.Usage.Input, answer.Usage.Output)
	// Output:
	// {"id":"c1","type":"message","role":"assistant","model":"llama-3-70b","content":[{"type":"text","text":"Hi."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":9,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":2}}
	// 9 2
}

// Translate a stream: a Chat Completions client on a Messages upstream.
func ExampleExchange_Stream() {
	t := newTranslator(protocol.OpenAIChat, protocol.Anthropic, "claude-opus-5", nil)
	x, err := t.Request([]byte(`{"model":"gpt","stream":true,"messages":[{"role":"user","content":"Hello"}]}`))
	if err != nil {
		panic(err)
	}
	upstream := io.NopCloser(strings.NewReader(anthropicStream))
	stream := x.Stream(upstream)
	defer stream.Close()
	if err := stream.Begin(); err != nil { // an error that came instead of the response
		fmt.Println(t.Error(err).Status)
		return
	}
	text, err := io.ReadAll(stream)
	if err != nil {
		panic(err)
	}
	fmt.Print(string(text))
	fmt.Println(stream.Err(), stream.Losses())
	// Output:
	// data: {"id":"msg_1","object":"chat.completion.chunk","created":1790000000,"model":"claude-opus-5","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi."},"logprobs":null,"finish_reason":null}]}
	//
	// data: {"id":"msg_1","object":"chat.completion.chunk","created":1790000000,"model":"claude-opus-5","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}
	//
	// data: [DONE]
	//
	// <nil> []
}

const anthropicStream = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

`

// Collect a stream: the upstream streams, the client wants one body.
func ExampleExchange_Collect() {
	t := newTranslator(protocol.Gemini, protocol.Anthropic, "claude-opus-5", nil)
	x, err := t.RequestTo("/v1beta/models/gemini-3-pro:generateContent", nil, []byte(`{"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}`))
	if err != nil {
		panic(err)
	}
	answer, err := x.Collect(strings.NewReader(anthropicStream))
	if err != nil {
		panic(err)
	}
	fmt.Println(string(answer.Body))
	// Output:
	// {"candidates":[{"content":{"parts":[{"text":"Hi."}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"totalTokenCount":11},"modelVersion":"claude-opus-5","responseId":"msg_1","createTime":"2026-09-21T14:13:20Z"}
}

// Translate an error: the client's SDK raises its own exception for it.
func ExampleTranslator_Error() {
	t := newTranslator(protocol.OpenAIChat, protocol.Anthropic, "claude-opus-5", nil)
	x, err := t.Request([]byte(`{"model":"gpt","messages":[{"role":"user","content":"Hello"}]}`))
	if err != nil {
		panic(err)
	}
	answer, err := x.Response(529, http.Header{"Retry-After": {"7"}}, []byte(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`))
	var e *llm.Error
	if errors.As(err, &e) {
		fmt.Println(e.Kind, e.RetryAfter)
	}
	fmt.Println(answer.Status, answer.Header.Get("Retry-After"), string(answer.Body))
	// An error of your own, such as a connection that failed, becomes a response in the same way.
	fmt.Println(string(t.Error(&llm.Error{Kind: llm.Upstream, Message: "no connection"}).Body))
	// Output:
	// overloaded 7s
	// 503 7 {"error":{"message":"Overloaded","type":"server_error","param":null,"code":"overloaded"}}
	// {"error":{"message":"no connection","type":"server_error","param":null,"code":"upstream_error"}}
}

// Count losses: what the upstream's dialect cannot express is listed by the client's own names.
func ExampleExchange_losses() {
	t := newTranslator(protocol.OpenAIChat, protocol.Anthropic, "claude-opus-5", nil)
	x, err := t.Request([]byte(`{"model":"gpt","seed":7,"logit_bias":{"50256":-100},"messages":[{"role":"user","content":"Hello"}]}`))
	if err != nil {
		panic(err)
	}
	for _, l := range x.Losses {
		fmt.Println(l.Verdict, l.Path, l.Code)
	}
	// Output:
	// approximated max_completion_tokens max_tokens.defaulted
	// dropped seed seed.unsupported
	// dropped logit_bias logit_bias.unsupported
}

// A conversation of three turns with a tool and reasoning over two vendors. The client is a Chat Completions client that
// does not send reasoning back; the memory has it when the conversation returns to the vendor that signed it.
func ExampleMemory() {
	memory := translate.NewMemory(1 << 20)
	anthropic := newTranslator(protocol.OpenAIChat, protocol.Anthropic, "claude-opus-4-1", memory)
	gemini := newTranslator(protocol.OpenAIChat, protocol.Gemini, "gemini-3-pro", memory)
	const question = `{"role":"user","content":"Weather?"}`
	const call = `{"role":"assistant","tool_calls":[{"id":"toolu_00000000000000000000001","type":"function","function":{"name":"weather","arguments":"{}"}}]}`
	const result = `{"role":"tool","tool_call_id":"toolu_00000000000000000000001","content":"rain"}`
	const tools = `"reasoning_effort":"high","tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}]`

	first, err := anthropic.Request([]byte(`{"model":"m",` + tools + `,"messages":[` + question + `]}`))
	if err != nil {
		panic(err)
	}
	_, err = first.Response(200, ok, []byte(`{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-1","stop_reason":"tool_use","content":[
		{"type":"thinking","thinking":"I look.","signature":"SIGNED"},
		{"type":"tool_use","id":"toolu_00000000000000000000001","name":"weather","input":{}}],"usage":{"input_tokens":1,"output_tokens":1}}`))
	if err != nil {
		panic(err)
	}

	second, err := gemini.Request([]byte(`{"model":"m",` + tools + `,"messages":[` + question + `,` + call + `,` + result + `]}`))
	if err != nil {
		panic(err)
	}
	fmt.Println("another vendor reads the signature:", strings.Contains(string(second.Body), "SIGNED"))
	third, err := anthropic.Request([]byte(`{"model":"m",` + tools + `,"messages":[` + question + `,` + call + `,` + result + `]}`))
	if err != nil {
		panic(err)
	}
	fmt.Println("its own vendor reads the signature:", strings.Contains(string(third.Body), "SIGNED"))
	// Output:
	// another vendor reads the signature: false
	// its own vendor reads the signature: true
}

// Unknown members stay: those of the client's dialect are kept where both sides speak it.
func ExampleTranslator_Request_unknown() {
	t := newTranslator(protocol.OpenAIChat, protocol.OpenAIChat, "llama", nil)
	x, err := t.Request([]byte(`{"model":"a", "new_member":{"x":1.50}, "messages":[{"role":"user","content":"Hi","mark":true}]}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(string(x.Body))
	// Output:
	// {"model":"llama", "new_member":{"x":1.50}, "messages":[{"role":"user","content":"Hi","mark":true}]}
}

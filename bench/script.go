package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// A script is what the upstream does with a request. The model's name says it,
// because that is the one thing that every gateway passes on:
//
//	whole-1024    one answer with 1,024 bytes of text
//	burst-200     200 events, each sent at once
//	paced-20      an event every 20 ms until the client has gone
//
// What follows a second dash is not read: it tells models apart in a gateway's table.
type script struct {
	kind string
	n    int
}

func parseScript(model string) (script, error) {
	parts := strings.SplitN(model, "-", 3)
	if len(parts) < 2 {
		return script{}, fmt.Errorf("model %q is no script; write whole-BYTES, burst-EVENTS or paced-MILLISECONDS", model)
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil || n <= 0 {
		return script{}, fmt.Errorf("model %q: %q is not a number above 0", model, parts[1])
	}
	switch parts[0] {
	case "whole", "burst", "paced":
		return script{parts[0], n}, nil
	}
	return script{}, fmt.Errorf("model %q: there is no script %q", model, parts[0])
}

// modelOf finds the model in a request without reading the rest of it.
func modelOf(body []byte) string {
	_, rest, _ := bytes.Cut(body, []byte(`"model"`))
	_, rest, _ = bytes.Cut(rest, []byte(`"`))
	name, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(name)
}

// word is in every event that carries text, and in nothing else.
const word = "lorem"

// text is n bytes of it.
func text(n int) string {
	return strings.Repeat("lorem ipsum dolor sit amet ", n/27+1)[:n]
}

// wire is how an upstream dialect says an answer.
type wire struct {
	whole func(n int) []byte
	head  string // the events before the first with text
	event func(i int) string
	tail  string // and those after the last
}

func chatWire() wire {
	const chunk = `data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1763200000,"model":"bench","choices":[{"index":0,"delta":%s,"finish_reason":%s}]%s}` + "\n\n"
	return wire{
		whole: func(n int) []byte {
			return fmt.Appendf(nil, `{"id":"chatcmpl-0123456789","object":"chat.completion","created":1763200000,"model":"bench","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}}`, text(n))
		},
		head:  fmt.Sprintf(chunk, `{"role":"assistant","content":""}`, "null", ""),
		event: func(i int) string { return fmt.Sprintf(chunk, fmt.Sprintf(`{"content":"%s%d "}`, word, i), "null", "") },
		tail:  fmt.Sprintf(chunk, "{}", `"stop"`, `,"usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}`) + "data: [DONE]\n\n",
	}
}

func messagesWire() wire {
	event := func(name, data string) string {
		return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", name, name, data)
	}
	return wire{
		whole: func(n int) []byte {
			return fmt.Appendf(nil, `{"id":"msg_0123456789","type":"message","role":"assistant","model":"bench","content":[{"type":"text","text":%q}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":20}}`, text(n))
		},
		head: event("message_start", `,"message":{"id":"msg_0123456789","type":"message","role":"assistant","model":"bench","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}`) +
			event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`),
		event: func(i int) string {
			return event("content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":"text_delta","text":"%s%d "}`, word, i))
		},
		tail: event("content_block_stop", `,"index":0`) +
			event("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":20}`) +
			event("message_stop", ""),
	}
}

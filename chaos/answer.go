package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// answer is what a target has to say, as each vendor would send it. Its words
// begin with the target's role, so that a client's text shows who has spoken and
// a mixture of two answers is seen at once.
type answer struct {
	d     dialect
	words []string
}

// wordsOf are the words of a target's answer.
func wordsOf(who string) []string {
	words := strings.SplitAfter(who+" says that the river rises in the hills and reaches the sea after nine days.", " ")
	return append(words, " Grüße 🌊", " \"quoted\"\n", " finish_reason: stop [DONE]") // text that looks like the wire's own
}

// textOf is the whole answer as text.
func textOf(who string) string { return strings.Join(wordsOf(who), "") }

type object = map[string]any

// encode writes JSON. What is given to it here cannot fail.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// event frames data as the dialect does: with the type's name in those that have it.
func (d dialect) event(o object) string {
	name, _ := o["type"].(string)
	if d == messages || d == responses {
		return "event: " + name + "\ndata: " + encode(o) + "\n\n"
	}
	return "data: " + encode(o) + "\n\n"
}

// stream is a whole answer as events: what comes before the first word, one event
// for each word, and what proves the end.
type stream struct{ head, words, tail []string }

func (s stream) all() []string {
	return append(append(append([]string{}, s.head...), s.words...), s.tail...)
}

func (a answer) stream() stream {
	switch a.d {
	case chat:
		return a.chatStream()
	case responses:
		return a.responsesStream()
	case messages:
		return a.messagesStream()
	}
	return a.geminiStream()
}

func (a answer) chatStream() stream {
	chunk := func(delta object, finish any) string {
		return chat.event(object{"id": "chatcmpl-Ch4", "object": "chat.completion.chunk", "created": 1790000000, "model": "up",
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}})
	}
	s := stream{head: []string{chunk(object{"role": "assistant", "content": ""}, nil)}}
	for _, w := range a.words {
		s.words = append(s.words, chunk(object{"content": w}, nil))
	}
	s.tail = []string{chunk(object{}, "stop"), "data: [DONE]\n\n"}
	return s
}

func (a answer) responsesStream() stream {
	n := -1
	event := func(kind string, o object) string {
		n++
		o["type"], o["sequence_number"] = kind, n
		return responses.event(o)
	}
	text := strings.Join(a.words, "")
	at := func(o object) object {
		o["item_id"], o["output_index"], o["content_index"] = "msg_Ch4", 0, 0
		return o
	}
	s := stream{head: []string{
		event("response.created", object{"response": a.response("in_progress", []any{})}),
		event("response.in_progress", object{"response": a.response("in_progress", []any{})}),
		event("response.output_item.added", object{"output_index": 0, "item": a.item("in_progress", []any{})}),
		event("response.content_part.added", at(object{"part": a.part("")})),
	}}
	for _, w := range a.words {
		s.words = append(s.words, event("response.output_text.delta", at(object{"delta": w, "logprobs": []any{}})))
	}
	s.tail = []string{
		event("response.output_text.done", at(object{"text": text, "logprobs": []any{}})),
		event("response.content_part.done", at(object{"part": a.part(text)})),
		event("response.output_item.done", object{"output_index": 0, "item": a.item("completed", []any{a.part(text)})}),
		event("response.completed", object{"response": a.response("completed", []any{a.item("completed", []any{a.part(text)})})}),
	}
	return s
}

func (answer) part(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

func (answer) item(status string, content []any) object {
	return object{"type": "message", "id": "msg_Ch4", "status": status, "role": "assistant", "content": content}
}

func (answer) response(status string, output []any) object {
	o := object{"id": "resp_Ch4", "object": "response", "created_at": 1790000000, "model": "up", "status": status, "output": output, "error": nil,
		"incomplete_details": nil, "usage": nil, "parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}}
	if status == "completed" {
		o["usage"] = object{"input_tokens": 9, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": 20,
			"output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 29}
	}
	return o
}

func (a answer) messagesStream() stream {
	event := func(kind string, o object) string {
		o["type"] = kind
		return messages.event(o)
	}
	s := stream{head: []string{
		event("message_start", object{"message": a.message([]any{}, nil, 1)}),
		event("content_block_start", object{"index": 0, "content_block": object{"type": "text", "text": ""}}),
		event("ping", object{}),
	}}
	for _, w := range a.words {
		s.words = append(s.words, event("content_block_delta", object{"index": 0, "delta": object{"type": "text_delta", "text": w}}))
	}
	s.tail = []string{
		event("content_block_stop", object{"index": 0}),
		event("message_delta", object{"delta": object{"stop_reason": "end_turn", "stop_sequence": nil}, "usage": object{"output_tokens": 20}}),
		event("message_stop", object{}),
	}
	return s
}

func (answer) message(content []any, stop any, out int) object {
	return object{"id": "msg_01Ch4", "type": "message", "role": "assistant", "model": "up", "content": content, "stop_reason": stop,
		"stop_sequence": nil, "usage": object{"input_tokens": 9, "output_tokens": out}}
}

func (a answer) geminiStream() stream {
	var s stream
	for _, w := range a.words {
		s.words = append(s.words, gemini.event(a.candidate(w, false)))
	}
	s.tail = []string{gemini.event(a.candidate("", true))}
	return s
}

func (answer) candidate(text string, last bool) object {
	c := object{"index": 0, "content": object{"role": "model", "parts": []any{object{"text": text}}}}
	o := object{"candidates": []any{c}, "modelVersion": "up", "responseId": "Ch4"}
	if last {
		c["finishReason"] = "STOP"
		o["usageMetadata"] = object{"promptTokenCount": 9, "candidatesTokenCount": 20, "totalTokenCount": 29}
	}
	return o
}

// whole is the answer as one body.
func (a answer) whole() string {
	text := strings.Join(a.words, "")
	switch a.d {
	case chat:
		return encode(object{"id": "chatcmpl-Ch4", "object": "chat.completion", "created": 1790000000, "model": "up",
			"choices": []any{object{"index": 0, "message": object{"role": "assistant", "content": text}, "finish_reason": "stop"}},
			"usage":   object{"prompt_tokens": 9, "completion_tokens": 20, "total_tokens": 29}})
	case responses:
		return encode(a.response("completed", []any{a.item("completed", []any{a.part(text)})}))
	case messages:
		return encode(a.message([]any{object{"type": "text", "text": text}}, "end_turn", 20))
	}
	return encode(a.candidate(text, true))
}

// fault is an error as the dialect's vendor writes it.
func (d dialect) fault(status int, message string) string {
	k := faultWords(status)
	switch d {
	case messages:
		return encode(object{"type": "error", "error": object{"type": k.messages, "message": message}, "request_id": "req_01Ch4"})
	case gemini:
		return encode(object{"error": object{"code": status, "message": message, "status": k.gemini}})
	}
	return encode(object{"error": object{"message": message, "type": k.openAI, "param": nil, "code": k.code}})
}

// faultEvent is an error in the middle of a stream.
func (d dialect) faultEvent(status int, message string) string {
	k := faultWords(status)
	switch d {
	case responses:
		return "event: error\ndata: " + encode(object{"type": "error", "code": k.openAI, "message": message, "param": nil, "sequence_number": 3}) + "\n\n"
	case messages:
		return "event: error\ndata: " + d.fault(status, message) + "\n\n"
	}
	return "data: " + d.fault(status, message) + "\n\n"
}

type words struct {
	openAI, messages, gemini string
	code                     any
}

func faultWords(status int) words {
	switch status {
	case 400:
		return words{"invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT", nil}
	case 401:
		return words{"invalid_request_error", "authentication_error", "UNAUTHENTICATED", "invalid_api_key"}
	case 413:
		return words{"invalid_request_error", "request_too_large", "INVALID_ARGUMENT", nil}
	case 429:
		return words{"rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED", "rate_limit_exceeded"}
	case 503, 529:
		return words{"server_error", "overloaded_error", "UNAVAILABLE", "overloaded"}
	}
	return words{"server_error", "api_error", "INTERNAL", nil}
}

// idleEvent is what a dialect's server sends while it has nothing to say.
func (d dialect) idleEvent() string {
	if d == messages {
		return "event: ping\ndata: {\"type\":\"ping\"}\n\n"
	}
	return ": processing\n\n"
}

// chunked frames bytes for Transfer-Encoding: chunked.
func chunked(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

package main

import "fmt"

// dialect is how a client asks.
type dialect struct {
	name, path string
	header     string // a line that the dialect needs
	end        string // what its streams end with
	body       func(model string, size int, stream bool) []byte
}

func chatClient() dialect {
	return dialect{
		name: "chat", path: "/v1/chat/completions", end: "data: [DONE]",
		body: func(model string, size int, stream bool) []byte {
			return fmt.Appendf(nil, `{"model":%q,"stream":%v,"messages":[{"role":"system","content":"You are helpful."},{"role":"user","content":%q}]}`, model, stream, text(size))
		},
	}
}

func messagesClient() dialect {
	return dialect{
		name: "messages", path: "/v1/messages", header: "anthropic-version: 2023-06-01\r\n", end: "event: message_stop",
		body: func(model string, size int, stream bool) []byte {
			return fmt.Appendf(nil, `{"model":%q,"stream":%v,"max_tokens":4096,"system":"You are helpful.","messages":[{"role":"user","content":%q}]}`, model, stream, text(size))
		},
	}
}

func responsesClient() dialect {
	return dialect{
		name: "responses", path: "/v1/responses", end: "event: response.completed",
		body: func(model string, size int, stream bool) []byte {
			return fmt.Appendf(nil, `{"model":%q,"stream":%v,"store":false,"instructions":"You are helpful.","input":[{"role":"user","content":%q}]}`, model, stream, text(size))
		},
	}
}

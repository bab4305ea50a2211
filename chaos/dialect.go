package main

import (
	"bytes"
	"fmt"
	"strings"
)

// dialect is a wire protocol, by the name that configurations use.
type dialect string

const (
	chat      dialect = "openai-chat"
	responses dialect = "openai-responses"
	messages  dialect = "anthropic"
	gemini    dialect = "gemini"
)

func dialects() []dialect { return []dialect{chat, responses, messages, gemini} }

// pair is a client's dialect and an upstream's.
type pair struct{ client, upstream dialect }

func (p pair) String() string { return string(p.client) + "→" + string(p.upstream) }

// allPairs are the sixteen. The short form takes those where both agree and one
// translated one for each client.
func allPairs(short bool) []pair {
	var all []pair
	for i, c := range dialects() {
		for j, u := range dialects() {
			if !short || i == j || (i == 0 && u == messages) || (i != 0 && u == chat) {
				all = append(all, pair{c, u})
			}
		}
	}
	return all
}

// base is what a provider's base_url ends in.
func (d dialect) base() string {
	if d == chat || d == responses {
		return "/v1"
	}
	return ""
}

// path is where a client of the dialect sends its request.
func (d dialect) path(model string, stream bool) string {
	switch d {
	case chat:
		return "/v1/chat/completions"
	case responses:
		return "/v1/responses"
	case messages:
		return "/v1/messages"
	}
	if stream {
		return "/v1beta/models/" + model + ":streamGenerateContent?alt=sse"
	}
	return "/v1beta/models/" + model + ":generateContent"
}

// ask is a client's request.
func (d dialect) ask(model string, stream bool) string {
	switch d {
	case chat:
		return fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"Tell me about the river."}]}`, model, stream)
	case responses:
		return fmt.Sprintf(`{"model":%q,"stream":%t,"input":"Tell me about the river."}`, model, stream)
	case messages:
		return fmt.Sprintf(`{"model":%q,"stream":%t,"max_tokens":200,"messages":[{"role":"user","content":"Tell me about the river."}]}`, model, stream)
	}
	return `{"contents":[{"role":"user","parts":[{"text":"Tell me about the river."}]}]}`
}

// wantsStream tells what an upstream was asked for.
func wantsStream(path string, body []byte) bool {
	return strings.Contains(path, ":streamGenerateContent") || bytes.Contains(body, []byte(`"stream":true`)) || bytes.Contains(body, []byte(`"stream": true`))
}

// spoken is the dialect of an upstream's path.
func spoken(path string) dialect {
	path, _, _ = strings.Cut(path, "?")
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return chat
	case strings.HasSuffix(path, "/responses"):
		return responses
	case strings.HasSuffix(path, "/messages"):
		return messages
	}
	return gemini
}

// modelIn is the model that an upstream was asked for.
func modelIn(path string, body []byte) string {
	if _, rest, ok := strings.Cut(path, "/models/"); ok {
		name, _, _ := strings.Cut(rest, ":")
		return name
	}
	_, rest, ok := bytes.Cut(body, []byte(`"model":"`))
	if !ok {
		return ""
	}
	name, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(name)
}

package testrig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/isogloss-gateway/isogloss/conform"
)

// Dialect is a wire protocol, by the name that configurations use.
type Dialect string

// The dialects of the harnesses.
const (
	Chat      Dialect = "openai-chat"
	Responses Dialect = "openai-responses"
	Messages  Dialect = "anthropic"
	Gemini    Dialect = "gemini"
	Converse  Dialect = "converse"
)

// Media types of responses.
const (
	JSONMedia   = "application/json"
	StreamMedia = "text/event-stream"
)

// Dialects returns the dialects in the order of tables.
func Dialects() []Dialect { return []Dialect{Chat, Responses, Messages, Gemini, Converse} }

// wire returns the dialect as conform reads and writes it.
func (d Dialect) wire() conform.Dialect {
	if d == Chat || d == Responses {
		return conform.Dialect(strings.TrimPrefix(string(d), "openai-"))
	}
	return conform.Dialect(d)
}

// StreamMedia returns the media type of the dialect's streams.
func (d Dialect) StreamMedia() string { return d.wire().Media() }

// Base returns the path at the end of a provider's base_url.
func (d Dialect) Base() string {
	if d == Chat || d == Responses {
		return "/v1"
	}
	return ""
}

// Path returns the path and query of a request.
func (d Dialect) Path(model string, stream bool) string {
	switch d {
	case Chat:
		return "/v1/chat/completions"
	case Responses:
		return "/v1/responses"
	case Messages:
		return "/v1/messages"
	}
	switch {
	case d == Converse && stream:
		return "/model/" + model + "/converse-stream"
	case d == Converse:
		return "/model/" + model + "/converse"
	case stream:
		return "/v1beta/models/" + model + ":streamGenerateContent?alt=sse"
	}
	return "/v1beta/models/" + model + ":generateContent"
}

// Query is a client's request, independent of the dialect.
type Query struct {
	Model, System, Prompt string
	MaxTokens             int // 0 omits the limit, except in Messages, which requires one
	Stream                bool
}

// Body returns the request's body.
func (d Dialect) Body(q Query) string {
	members := []string{}
	add := func(format string, args ...any) { members = append(members, fmt.Sprintf(format, args...)) }
	if d != Gemini && d != Converse {
		add(`"model":%q,"stream":%t`, q.Model, q.Stream)
	}
	if d == Messages && q.MaxTokens == 0 {
		q.MaxTokens = 4096
	}
	if q.MaxTokens > 0 {
		add(map[Dialect]string{Chat: `"max_tokens":%d`, Responses: `"max_output_tokens":%d`, Messages: `"max_tokens":%d`, Gemini: `"generationConfig":{"maxOutputTokens":%d}`, Converse: `"inferenceConfig":{"maxTokens":%d}`}[d], q.MaxTokens)
	}
	if q.System != "" && d != Chat {
		add(map[Dialect]string{Responses: `"instructions":%s`, Messages: `"system":%s`, Gemini: `"systemInstruction":{"parts":[{"text":%s}]}`, Converse: `"system":[{"text":%s}]`}[d], Quote(q.System))
	}
	prompt := Quote(q.Prompt)
	switch {
	case d == Responses:
		add(`"store":false,"input":[{"role":"user","content":%s}]`, prompt)
	case d == Gemini:
		add(`"contents":[{"role":"user","parts":[{"text":%s}]}]`, prompt)
	case d == Converse:
		add(`"messages":[{"role":"user","content":[{"text":%s}]}]`, prompt)
	case d == Chat && q.System != "":
		add(`"messages":[{"role":"system","content":%s},{"role":"user","content":%s}]`, Quote(q.System), prompt)
	default:
		add(`"messages":[{"role":"user","content":%s}]`, prompt)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// LastEvent returns the beginning of the line that completes a stream. Gemini and Converse have none.
func (d Dialect) LastEvent() string {
	return map[Dialect]string{Chat: "data: [DONE]", Responses: "event: response.completed", Messages: "event: message_stop"}[d]
}

// RequestIDHeader returns the response header that has the request id.
func (d Dialect) RequestIDHeader() string {
	if d == Messages {
		return "Request-Id"
	}
	return "X-Request-Id"
}

// DialectAt returns the dialect of a request by its path.
func DialectAt(path string) Dialect {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return Chat
	case strings.HasSuffix(path, "/responses"):
		return Responses
	case strings.HasSuffix(path, "/messages"):
		return Messages
	case strings.HasSuffix(path, "/converse"), strings.HasSuffix(path, "/converse-stream"):
		return Converse
	}
	return Gemini
}

// request has the members of a request body that the upstream reads, for all dialects.
type request struct {
	Model    string            `json:"model"`
	Stream   bool              `json:"stream"`
	Messages []json.RawMessage `json:"messages"`
	Contents []json.RawMessage `json:"contents"`
	Input    json.RawMessage   `json:"input"`
	Max      int               `json:"max_tokens"`
	Options  *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// refusal returns why the vendor would reject the request, or "".
func (r *request) refusal(d Dialect, h http.Header, err error) string {
	switch {
	case err != nil:
		return "the body is not a JSON object: " + err.Error()
	case d != Gemini && d != Converse && r.Model == "":
		return "model: field required"
	case (d == Chat || d == Messages || d == Converse) && len(r.Messages) == 0:
		return "messages: field required"
	case d == Chat && r.Options != nil && !r.Stream:
		return "stream_options is only allowed when stream is enabled"
	case d == Responses && len(bytes.TrimSpace(r.Input)) == 0:
		return "input: field required"
	case d == Messages && r.Max == 0:
		return "max_tokens: field required"
	case d == Messages && h.Get("Anthropic-Version") == "":
		return "anthropic-version: header is required"
	case d == Gemini && len(r.Contents) == 0:
		return "contents is not specified"
	}
	return ""
}

// Quote returns a string as JSON.
func Quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings can be marshalled
	}
	return string(b)
}

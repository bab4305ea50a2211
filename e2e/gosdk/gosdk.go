// Package gosdk sends requests with the vendors' SDKs for Go. A Request has no dialect:
// each SDK sends it with its own types and helpers and reads the response into an Answer.
package gosdk

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// Options configures an SDK. It never retries and reads nothing from the environment.
type Options struct {
	BaseURL string // as the SDK wants it
	Key     string
	HTTP    *http.Client
}

// New creates one SDK.
type New func(ctx context.Context, o Options) (*SDK, error)

// SDK is one API of a vendor's SDK.
type SDK struct {
	Dialect string
	// Ask sends a request. An error may come with the part of the answer that was read.
	Ask func(ctx context.Context, r Request) (Answer, error)
	// Models lists the models and reports whether every typed field has a value.
	Models func(ctx context.Context) (ids []string, typed bool, err error)
	// Failure reads the SDK's error type; nil means another kind of error.
	Failure func(err error) *Failure

	// Parse sends a request whose schema the SDK makes from a value, and reads the answer
	// into it. It is nil where the SDK has no such helper, as the next two are.
	Parse func(ctx context.Context, r Request, into any) error
	// RunTools runs the SDK's own tool runner with the tool Weather.
	RunTools func(ctx context.Context, r Request) (text string, cities []string, err error)
	// CountTokens returns the number of tokens of a request.
	CountTokens func(ctx context.Context, r Request) (int, error)
}

// Request is a request that each SDK sends in its own dialect.
type Request struct {
	Model, System, Prompt string
	Image                 string // a PNG after the prompt, in base64
	MaxTokens             int
	Fixed                 bool     // temperature 0, and a seed where the dialect has one
	Stop                  []string // texts that end the answer
	Schema                any      // of the answer: a JSON schema, or the SDK's own type for one
	Logprobs              bool     // with two alternatives for each token
	Tool                  string   // declares a tool with this name and the schema CitySchema
	ForceTool             bool     // the tool has to be called
	Thinking              bool     // the model is to think and to show it
	Sealed                bool     // sealed reasoning is requested where the API has an option for it
	Usage                 bool     // a Chat stream is to report usage

	Stream bool
	// Piece receives each piece of text of a stream. If it returns true, the client
	// disconnects.
	Piece func(string) (leave bool)

	// After and Results continue a conversation: the answer to the prompt and the results
	// of its tool calls, in order.
	After   *Answer
	Results []string
}

// piece passes a piece of text on and reports whether to disconnect.
func (r Request) piece(text string) (leave bool) {
	return r.Piece != nil && text != "" && r.Piece(text)
}

// Seed is the seed of requests that are Fixed.
const Seed = 7

// ToolDescription describes the tool of every request.
const ToolDescription = "The weather of a city."

// CitySchema returns the schema of the tool's arguments.
func CitySchema() map[string]any {
	return map[string]any{
		"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}, "additionalProperties": false,
	}
}

// City is the arguments of the tool.
type City struct {
	City string `json:"city"`
}

// Weather returns the result of the tool, a JSON object.
func Weather(city string) string {
	if city == "Paris" {
		return `{"degrees":21}`
	}
	return `{"degrees":22}`
}

// Answer is a response as the SDK reports it.
type Answer struct {
	Text, Thought string
	Finish        string // in the API's own words
	Calls         []Call
	Usage         Usage
	Logprobs      []Logprob

	echo any // the answer in the SDK's own types, as the next request repeats it
}

// Call is a tool call.
type Call struct{ ID, Name, Args string }

// Usage counts tokens. Input includes Cached, and Output includes Reasoning.
type Usage struct{ Input, Cached, Output, Reasoning, Total int }

// Logprob is the log probability of a token.
type Logprob struct {
	Token string
	Value float32
	Top   int // number of alternatives that are listed
}

// Failure is an error response.
type Failure struct {
	Class      string // the SDK's type
	Status     int
	Message    string
	RetryAfter string
}

// Class returns the name of an error's type without its package.
func Class(err error) string {
	if err == nil {
		return ""
	}
	name := fmt.Sprintf("%T", err)
	return name[strings.LastIndex(name, ".")+1:]
}

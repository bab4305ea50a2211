package sdks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// goAsk is an order to a Go SDK and the HTTP client to do it with.
type goAsk struct {
	rig.Order
	http *http.Client
}

// goFeatures does features with an SDK for Go, in the test's own process.
type goFeatures map[string]func(context.Context, goAsk) (any, error)

func (g goFeatures) Do(t *testing.T, o rig.Order, _ <-chan struct{}) []byte {
	t.Helper()
	do, ok := g[o.Scenario]
	if !ok {
		t.Fatalf("the Go client has no feature %s; it has %s", o.Scenario, slices.Sorted(maps.Keys(g)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), rig.Patience)
	defer cancel()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	said, err := do(ctx, goAsk{o, &http.Client{Transport: transport}})
	if err != nil {
		said = report{"unexpected": fmt.Sprintf("%T: %v", err, err)}
	}
	line, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func goSurfaces() []*surface {
	row := func(sdk, version, dialect string, features goFeatures, runner bool, cut, class string) *surface {
		return &surface{
			language: "go", sdk: sdk, version: version, dialect: dialect, runner: runner, cut: cut, classes: map[int]string{404: class, 429: class},
			start: func(*testing.T) rig.Client { return features },
		}
	}
	const openai, anthropic = "github.com/openai/openai-go/v3", "github.com/anthropics/anthropic-sdk-go"
	messages := row(anthropic+"/v2", "2.9.0", "anthropic", goAnthropic2(), true, "Error", "Error")
	messages.threads = true
	return []*surface{
		row(openai, "3.90.0", "openai-chat", goOpenAI(), false, "StreamError", "Error"),
		row(openai, "3.90.0", "openai-responses", goOpenAI(), false, "StreamError", "Error"),
		messages,
		row(anthropic, "1.84.0", "anthropic", goAnthropic1(), true, "Error", "Error"),
		row("google.golang.org/genai", "1.77.0", "gemini", goGenAI(), false, "APIError", "APIError"),
	}
}

// What every SDK's user asks, and what is reported in the same words for all.
const (
	askSystem, askHi           = "Be brief.", "Say hello."
	askParis, askBoth          = "How warm is it in Paris?", "How warm is it in Paris and in Köln?"
	askPicture, askDescription = "What is this?", "The weather of a city."
	askMost, askMostThinking   = 64, 4096
)

func citySchema() map[string]any {
	return map[string]any{
		"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}, "additionalProperties": false,
	}
}

func personSchema() map[string]any {
	kind := func(s string) map[string]any { return map[string]any{"type": s} }
	return map[string]any{
		"type": "object", "required": []string{"name", "age", "tags"}, "additionalProperties": false,
		"properties": map[string]any{"name": kind("string"), "age": kind("integer"), "tags": map[string]any{"type": "array", "items": kind("string")}},
	}
}

// askedPerson is what structured answers are read into.
type askedPerson struct {
	Name string   `json:"name"`
	Age  int      `json:"age"`
	Tags []string `json:"tags"`
}

func personReport(text string) (any, error) {
	var p askedPerson
	err := json.Unmarshal([]byte(text), &p)
	return report{"parsed": p}, err
}

type cityArgs struct {
	City string `json:"city"`
}

func cityOf(args string) string {
	var c cityArgs
	_ = json.Unmarshal([]byte(args), &c) // what cannot be read is not the city that is wanted
	return c.City
}

func degreesIn(city string) map[string]any {
	if city == "Paris" {
		return map[string]any{"degrees": 21}
	}
	return map[string]any{"degrees": 22}
}

func callReport(name, args string) any { return report{"name": name, "city": cityOf(args)} }

func tokensReport(in, cached, out, thought int64) any {
	return report{"input": in, "cached": cached, "output": out, "reasoning": thought}
}

func errorReport(class string, status int, message, retryAfter string) any {
	return report{"error": report{"class": class, "status": status, "message": message, "retry_after": retryAfter}}
}

// wholeAndStream reports both forms of an answer, asked for one after the other.
func wholeAndStream(whole, stream func() (any, error)) (any, error) {
	w, err := whole()
	if err != nil {
		return nil, err
	}
	s, err := stream()
	return report{"whole": w, "stream": s}, err
}

// className is the last part of an error's type.
func className(err error) string {
	if err == nil {
		return ""
	}
	name := fmt.Sprintf("%T", err)
	return name[strings.LastIndex(name, ".")+1:]
}

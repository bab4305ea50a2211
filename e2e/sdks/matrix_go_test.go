package sdks

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/gosdk"
	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"google.golang.org/genai"
)

func goSurfaces() []*surface {
	row := func(sdk, version, dialect string, client gosdk.New, runner bool, cut, class string) *surface {
		return &surface{
			language: "go", sdk: sdk, version: version, dialect: dialect, runner: runner, cut: cut, classes: map[int]string{404: class, 429: class},
			start: func(*testing.T) rig.Client { return goClient{client, nil} },
		}
	}
	const openai, anthropic = "github.com/openai/openai-go/v3", "github.com/anthropics/anthropic-sdk-go"
	messages := row(anthropic+"/v2", "2.9.0", "anthropic", gosdk.Anthropic2, true, "Error", "Error")
	messages.threads = true
	chat := row(openai, "3.90.0", "openai-chat", gosdk.Chat, false, "StreamError", "Error")
	responses := row(openai, "3.90.0", "openai-responses", gosdk.Responses, false, "StreamError", "Error")
	chat.process, responses.process = "go-chat", "go-responses" // one SDK with two clients
	return []*surface{
		chat, responses, messages,
		row(anthropic, "1.84.0", "anthropic", gosdk.Anthropic1, true, "Error", "Error"),
		row("google.golang.org/genai", "1.77.0", "gemini", gosdk.Gemini, false, "APIError", "APIError"),
	}
}

// goClient runs features with an SDK for Go, in the process of the test.
type goClient struct {
	connect gosdk.New
	tls     *tls.Config
}

// Do runs a feature and returns its report.
func (c goClient) Do(t *testing.T, o rig.Order) []byte {
	t.Helper()
	_, feature, _ := strings.Cut(o.Scenario, "/")
	run, ok := goFeatures()[feature]
	if !ok {
		t.Fatalf("the Go client has no feature %s; it has %s", feature, slices.Sorted(maps.Keys(goFeatures())))
	}
	ctx, cancel := context.WithTimeout(t.Context(), rig.Patience)
	defer cancel()
	transport := &http.Transport{TLSClientConfig: c.tls}
	defer transport.CloseIdleConnections()
	sdk, err := c.connect(ctx, gosdk.Options{BaseURL: o.BaseURL, Key: o.Key, HTTP: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	result, err := run(ctx, goRun{sdk, gosdk.Request{Model: o.Model, System: "Be brief.", Prompt: "Say hello.", MaxTokens: 64}})
	if err != nil {
		result = report{"unexpected": fmt.Sprintf("%T: %v", err, err)}
	}
	line, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// goRun is an SDK and the request that most features send.
type goRun struct {
	*gosdk.SDK
	hello gosdk.Request
}

func goFeatures() map[string]func(context.Context, goRun) (any, error) {
	return map[string]func(context.Context, goRun) (any, error){
		"text": func(ctx context.Context, g goRun) (any, error) {
			a, err := g.Ask(ctx, g.hello)
			return report{"text": a.Text, "finish": a.Finish}, err
		},
		"stream": func(ctx context.Context, g goRun) (any, error) {
			var deltas []string
			a, err := g.stream(ctx, func(s string) bool { deltas = append(deltas, s); return false })
			return report{"deltas": deltas, "text": a.Text, "finish": a.Finish}, err
		},
		"tools":    func(ctx context.Context, g goRun) (any, error) { return g.twoRounds(ctx, askOne.User[0], false) },
		"parallel": func(ctx context.Context, g goRun) (any, error) { return g.twoRounds(ctx, askTwo.User[0], true) },
		"sealed": func(ctx context.Context, g goRun) (any, error) {
			g.hello.Thinking, g.hello.Sealed, g.hello.MaxTokens = true, true, 4096
			return wholeAndStream(func(stream bool) (any, error) { return g.twoRounds(ctx, askOne.User[0], stream) })
		},
		"runner": func(ctx context.Context, g goRun) (any, error) {
			g.hello.Prompt, g.hello.Tool = askOne.User[0], "get_weather"
			text, cities, err := g.RunTools(ctx, g.hello)
			return report{"asked": cities, "text": text}, err
		},
		"structured": structured,
		"image": func(ctx context.Context, g goRun) (any, error) {
			g.hello.Prompt, g.hello.Image = "What is this?", pixel
			a, err := g.Ask(ctx, g.hello)
			return report{"text": a.Text}, err
		},
		"reasoning": func(ctx context.Context, g goRun) (any, error) {
			g.hello.Thinking, g.hello.MaxTokens = true, 4096
			return g.both(ctx, func(a gosdk.Answer) any { return report{"reasoning": a.Thought, "text": a.Text} })
		},
		"usage": func(ctx context.Context, g goRun) (any, error) {
			g.hello.Usage = true
			return g.both(ctx, func(a gosdk.Answer) any {
				return report{"input": a.Usage.Input, "cached": a.Usage.Cached, "output": a.Usage.Output, "reasoning": a.Usage.Reasoning}
			})
		},
		"error_404": failure, "error_unknown": failure, "error_429": failure,
		"cut": func(ctx context.Context, g goRun) (any, error) {
			text := ""
			_, err := g.stream(ctx, func(s string) bool { text += s; return false })
			return report{"text": text, "error": gosdk.Class(err)}, nil
		},
		"cancel": func(ctx context.Context, g goRun) (any, error) {
			text := ""
			_, err := g.stream(ctx, func(s string) bool { text = s; return true })
			return report{"text": text}, err
		},
		"models": func(ctx context.Context, g goRun) (any, error) {
			ids, typed, err := g.Models(ctx)
			return report{"ids": ids, "typed": typed}, err
		},
		"count_tokens": func(ctx context.Context, g goRun) (any, error) {
			n, err := g.CountTokens(ctx, g.hello)
			if f := g.Failure(err); f != nil && f.Status == http.StatusNotImplemented {
				return report{"refused": true}, nil
			}
			return report{"tokens": n}, err
		},
	}
}

// stream sends the request as a stream.
func (g goRun) stream(ctx context.Context, piece func(string) bool) (gosdk.Answer, error) {
	g.hello.Stream, g.hello.Piece = true, piece
	return g.Ask(ctx, g.hello)
}

// twoRounds has the model call tools and returns their results to it.
func (g goRun) twoRounds(ctx context.Context, question string, stream bool) (any, error) {
	r := g.hello
	r.System, r.Prompt, r.Tool, r.Stream = "", question, "get_weather", stream
	first, err := g.Ask(ctx, r)
	if err != nil {
		return nil, err
	}
	var calls []any
	for _, c := range first.Calls {
		var args gosdk.City
		if err := json.Unmarshal([]byte(c.Args), &args); err != nil {
			return nil, err
		}
		calls = append(calls, report{"name": c.Name, "city": args.City})
		r.Results = append(r.Results, gosdk.Weather(args.City))
	}
	r.After = &first
	second, err := g.Ask(ctx, r)
	return report{"calls": calls, "finish": []string{first.Finish, second.Finish}, "text": second.Text}, err
}

// structured reads an answer with a schema into a value, by the SDK's own means where it
// has them. Google's SDK gets its older form of a schema.
func structured(ctx context.Context, g goRun) (any, error) {
	var p struct {
		Name string   `json:"name"`
		Age  int      `json:"age"`
		Tags []string `json:"tags"`
	}
	if g.Parse != nil {
		err := g.Parse(ctx, g.hello, &p)
		return report{"parsed": p}, err
	}
	kind := func(s string) map[string]any { return map[string]any{"type": s} }
	g.hello.Schema = map[string]any{
		"type": "object", "required": []string{"name", "age", "tags"}, "additionalProperties": false,
		"properties": map[string]any{"name": kind("string"), "age": kind("integer"), "tags": map[string]any{"type": "array", "items": kind("string")}},
	}
	if g.Dialect == "gemini" {
		g.hello.Schema = &genai.Schema{
			Type: genai.TypeObject, Required: []string{"name", "age", "tags"}, Properties: map[string]*genai.Schema{
				"name": {Type: genai.TypeString}, "age": {Type: genai.TypeInteger},
				"tags": {Type: genai.TypeArray, Items: &genai.Schema{Type: genai.TypeString}},
			},
		}
	}
	a, err := g.Ask(ctx, g.hello)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal([]byte(a.Text), &p)
	return report{"parsed": p}, err
}

func failure(ctx context.Context, g goRun) (any, error) {
	_, err := g.Ask(ctx, g.hello)
	f := g.Failure(err)
	if f == nil {
		return report{"error": nil}, err
	}
	return report{"error": report{"class": f.Class, "status": f.Status, "message": f.Message, "retry_after": f.RetryAfter}}, nil
}

// both reports on a non-streaming and on a streaming answer.
func (g goRun) both(ctx context.Context, of func(gosdk.Answer) any) (any, error) {
	return wholeAndStream(func(stream bool) (any, error) {
		g.hello.Stream = stream
		a, err := g.Ask(ctx, g.hello)
		return of(a), err
	})
}

func wholeAndStream(run func(stream bool) (any, error)) (any, error) {
	whole, err := run(false)
	if err != nil {
		return nil, err
	}
	stream, err := run(true)
	return report{"whole": whole, "stream": stream}, err
}

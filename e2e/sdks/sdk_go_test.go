package sdks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

func goSDK() sdk {
	return sdk{
		name:     "go-openai-3.90.0",
		language: "go",
		start:    func(*testing.T) rig.Client { return goClient{} },
		class: func(name string) string {
			if name == "APIError" {
				return "StreamError"
			}
			return "Error" // one type for every status
		},
	}
}

// goClient plays scenarios in the test's own process.
type goClient struct{}

func (goClient) Do(t *testing.T, o rig.Order, cue <-chan struct{}) []byte {
	t.Helper()
	play, ok := goScenarios()[o.Scenario]
	if !ok {
		t.Fatalf("the Go client has no scenario %s", o.Scenario)
	}
	ctx, cancel := context.WithTimeout(t.Context(), rig.Patience)
	defer cancel()
	if cue != nil {
		go func() {
			<-cue
			cancel()
		}()
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := openai.NewClient(option.WithBaseURL(o.BaseURL), option.WithAPIKey(o.Key), option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: transport}))
	report, err := play(ctx, c)
	if err != nil {
		report = map[string]any{"unexpected": err.Error()}
	}
	line, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

type (
	report = map[string]any
	goPlay func(context.Context, openai.Client) (any, error)
)

// statusReport is the report of a call that must fail with a status.
func statusReport(err error) (any, error) {
	var e *openai.Error
	if !errors.As(err, &e) {
		return report{"error": nil}, err
	}
	return report{"error": report{
		"class": "Error", "status": e.StatusCode, "type": e.Type, "param": e.Param, "code": e.Code,
		"message": e.Message, "retry_after": e.Response.Header.Get("Retry-After"),
		"request_id": e.Response.Header.Get("X-Request-Id"),
	}}, nil
}

// failure is the report of an error of any kind, nil for none.
func failure(err error) any {
	if err == nil {
		return nil
	}
	var event *ssestream.StreamError
	if !errors.As(err, &event) {
		return report{"class": "other", "message": err.Error()}
	}
	var body struct {
		Error struct{ Message string }
	}
	if err := json.Unmarshal(event.Event.Data, &body); err != nil {
		return report{"class": "StreamError", "message": nil}
	}
	return report{"class": "StreamError", "message": body.Error.Message}
}

func usageOf(u openai.CompletionUsage) any {
	return report{
		"prompt": u.PromptTokens, "completion": u.CompletionTokens, "total": u.TotalTokens,
		"cached": u.PromptTokensDetails.CachedTokens, "reasoning": u.CompletionTokensDetails.ReasoningTokens,
	}
}

func choicesOf(c openai.ChatCompletion) any {
	var out []any
	for _, x := range c.Choices {
		out = append(out, report{"index": x.Index, "content": x.Message.Content, "finish": x.FinishReason})
	}
	return report{"choices": out}
}

// ask is what most scenarios send.
func ask() openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    "gpt-real",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("Be brief."), openai.UserMessage("Say hello.")},
	}
}

// chat sends params and reports the answer's usual parts.
func chat(ctx context.Context, c openai.Client, params openai.ChatCompletionNewParams, opts ...option.RequestOption) (any, error) {
	var res *http.Response
	a, err := c.Chat.Completions.New(ctx, params, append(opts, option.WithResponseInto(&res))...)
	if err != nil {
		return nil, err
	}
	return report{
		"id": a.ID, "model": a.Model, "content": a.Choices[0].Message.Content, "finish": a.Choices[0].FinishReason,
		"usage": usageOf(a.Usage), "request_id": res.Header.Get("X-Request-Id"),
	}, nil
}

// accumulate streams params through the SDK's accumulator.
func accumulate(ctx context.Context, c openai.Client, params openai.ChatCompletionNewParams, each func(openai.ChatCompletionChunk)) (openai.ChatCompletion, error) {
	s := c.Chat.Completions.NewStreaming(ctx, params)
	defer s.Close()
	var acc openai.ChatCompletionAccumulator
	for s.Next() {
		if !acc.AddChunk(s.Current()) {
			return openai.ChatCompletion{}, errors.New("the accumulator refused a chunk")
		}
		if each != nil {
			each(s.Current())
		}
	}
	return acc.ChatCompletion, s.Err()
}

// rawStream reports each chunk of the first choice and how the stream ended.
func rawStream(ctx context.Context, c openai.Client) (any, error) {
	params := ask()
	params.Model = "alias"
	s := c.Chat.Completions.NewStreaming(ctx, params)
	defer s.Close()
	chunks, end := []string{}, ""
	for s.Next() {
		x := s.Current().Choices[0]
		chunks = append(chunks, x.Delta.Content)
		if x.FinishReason != "" {
			end = x.FinishReason
		}
	}
	return report{"chunks": chunks, "finish": end, "error": failure(s.Err())}, nil
}

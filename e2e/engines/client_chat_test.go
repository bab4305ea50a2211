package engines

import (
	"context"
	"net/http"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

func newOpenAI(origin string, h *http.Client) openai.Client {
	return openai.NewClient(option.WithBaseURL(origin+"/v1"), option.WithAPIKey(rig.ClientKey), option.WithMaxRetries(0), option.WithHTTPClient(h))
}

func newChat(_ context.Context, origin string, h *http.Client) (*client, error) {
	sdk := newOpenAI(origin, h)
	return &client{dialect: "openai-chat", ask: func(ctx context.Context, q question) (answer, error) {
		if !q.stream {
			r, err := sdk.Chat.Completions.New(ctx, chatParams(q))
			if err != nil {
				return answer{}, err
			}
			return chatAnswer(*r), nil
		}
		return chatStream(ctx, sdk, q)
	}}, nil
}

func chatParams(q question) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{
		Model: q.model, MaxCompletionTokens: openai.Int(int64(q.tokens)), Temperature: openai.Float(0), Seed: openai.Int(seed),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(q.text)},
		Stop:     openai.ChatCompletionNewParamsStopUnion{OfStringArray: q.stop},
	}
	if q.stream {
		p.StreamOptions.IncludeUsage = openai.Bool(true)
	}
	if q.schema != nil {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Strict: openai.Bool(true), Schema: q.schema},
		}
	}
	if q.logprobs {
		p.Logprobs, p.TopLogprobs = openai.Bool(true), openai.Int(2)
	}
	if q.tool != "" {
		p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: q.tool, Parameters: citySchema()})}
	}
	if q.force {
		p.ToolChoice.OfAuto = openai.String("required")
	}
	return p
}

func chatStream(ctx context.Context, sdk openai.Client, q question) (answer, error) {
	s := sdk.Chat.Completions.NewStreaming(ctx, chatParams(q))
	defer s.Close()
	var all openai.ChatCompletionAccumulator
	for s.Next() {
		chunk := s.Current()
		all.AddChunk(chunk)
		for _, x := range chunk.Choices {
			q.tell(x.Delta.Content)
		}
	}
	if s.Err() != nil {
		return answer{}, s.Err()
	}
	return chatAnswer(all.ChatCompletion), nil
}

func chatAnswer(r openai.ChatCompletion) answer {
	choice, u := r.Choices[0], r.Usage
	a := answer{
		text:   choice.Message.Content,
		finish: as(map[string]string{"stop": ended, "length": cut, "tool_calls": called}, choice.FinishReason),
		usage:  usage{int(u.PromptTokens), int(u.PromptTokensDetails.CachedTokens), int(u.CompletionTokens), int(u.TotalTokens)},
	}
	for _, c := range choice.Message.ToolCalls {
		a.calls = append(a.calls, call(c.Function.Name, c.Function.Arguments))
	}
	for _, l := range choice.Logprobs.Content {
		a.logprobs = append(a.logprobs, logprob{l.Token, float32(l.Logprob), len(l.TopLogprobs)})
	}
	return a
}

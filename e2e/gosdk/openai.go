package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

// OpenAI returns a client of OpenAI's SDK.
func OpenAI(o Options) openai.Client {
	return openai.NewClient(option.WithBaseURL(o.BaseURL), option.WithAPIKey(o.Key), option.WithMaxRetries(0), option.WithHTTPClient(o.HTTP))
}

// Chat is OpenAI's SDK with Chat Completions.
func Chat(_ context.Context, o Options) (*SDK, error) {
	c := OpenAI(o)
	return &SDK{
		Dialect: "openai-chat", Failure: openAIFailure,
		Models: func(ctx context.Context) ([]string, bool, error) { return openAIModels(ctx, c) },
		Ask: func(ctx context.Context, r Request) (Answer, error) {
			if r.Stream {
				return streamChat(ctx, c, r)
			}
			completion, err := c.Chat.Completions.New(ctx, chatParams(r))
			if err != nil {
				return Answer{}, err
			}
			a, err := chatAnswer(*completion)
			if err == nil {
				a.Thought = reasoningContent(completion.Choices[0].Message.RawJSON())
			}
			return a, err
		},
	}, nil
}

func chatParams(r Request) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{
		Model: r.Model, MaxCompletionTokens: openai.Int(int64(r.MaxTokens)),
		Stop: openai.ChatCompletionNewParamsStopUnion{OfStringArray: r.Stop},
	}
	if r.System != "" {
		p.Messages = append(p.Messages, openai.SystemMessage(r.System))
	}
	if r.Image == "" {
		p.Messages = append(p.Messages, openai.UserMessage(r.Prompt))
	} else {
		p.Messages = append(p.Messages, openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
			openai.TextContentPart(r.Prompt),
			openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64," + r.Image}),
		}))
	}
	if r.After != nil {
		p.Messages = append(p.Messages, r.After.echo.(openai.ChatCompletionMessageParamUnion))
		for i, result := range r.Results {
			p.Messages = append(p.Messages, openai.ToolMessage(result, r.After.Calls[i].ID))
		}
	}
	if r.Fixed {
		p.Temperature, p.Seed = openai.Float(0), openai.Int(Seed)
	}
	if r.Stream && r.Usage {
		p.StreamOptions.IncludeUsage = openai.Bool(true)
	}
	if r.Schema != nil {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Strict: openai.Bool(true), Schema: r.Schema},
		}
	}
	if r.Logprobs {
		p.Logprobs, p.TopLogprobs = openai.Bool(true), openai.Int(2)
	}
	if r.Thinking {
		p.ReasoningEffort = shared.ReasoningEffortLow
	}
	if r.Tool != "" {
		p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: r.Tool, Description: openai.String(ToolDescription), Strict: openai.Bool(true), Parameters: CitySchema(),
		})}
	}
	if r.ForceTool {
		p.ToolChoice.OfAuto = openai.String("required")
	}
	return p
}

// streamChat reads a stream with the SDK's accumulator.
func streamChat(ctx context.Context, c openai.Client, r Request) (Answer, error) {
	thought := ""
	left, all, err := Accumulate(ctx, c, chatParams(r), func(chunk openai.ChatCompletionChunk) bool {
		for _, x := range chunk.Choices {
			thought += reasoningContent(x.Delta.RawJSON())
			if r.piece(x.Delta.Content) {
				return true
			}
		}
		return false
	})
	if left || err != nil {
		return Answer{}, err
	}
	a, err := chatAnswer(all)
	a.Thought = thought
	return a, err
}

// Accumulate reads a Chat stream with the SDK's accumulator until each returns true.
func Accumulate(ctx context.Context, c openai.Client, p openai.ChatCompletionNewParams, each func(openai.ChatCompletionChunk) (leave bool)) (left bool, all openai.ChatCompletion, err error) {
	s := c.Chat.Completions.NewStreaming(ctx, p)
	defer s.Close()
	var acc openai.ChatCompletionAccumulator
	for s.Next() {
		if !acc.AddChunk(s.Current()) {
			return false, openai.ChatCompletion{}, errors.New("the accumulator refused a chunk")
		}
		if each(s.Current()) {
			return true, openai.ChatCompletion{}, s.Close()
		}
	}
	return false, acc.ChatCompletion, s.Err()
}

func chatAnswer(r openai.ChatCompletion) (Answer, error) {
	if len(r.Choices) != 1 {
		return Answer{}, errors.New("the completion does not have one choice: " + r.RawJSON())
	}
	choice, u := r.Choices[0], r.Usage
	a := Answer{
		Text: choice.Message.Content, Finish: choice.FinishReason, echo: choice.Message.ToParam(),
		Usage: Usage{int(u.PromptTokens), int(u.PromptTokensDetails.CachedTokens), int(u.CompletionTokens), int(u.CompletionTokensDetails.ReasoningTokens), int(u.TotalTokens)},
	}
	for _, c := range choice.Message.ToolCalls {
		a.Calls = append(a.Calls, Call{c.ID, c.Function.Name, c.Function.Arguments})
	}
	for _, l := range choice.Logprobs.Content {
		a.Logprobs = append(a.Logprobs, Logprob{l.Token, float32(l.Logprob), len(l.TopLogprobs)})
	}
	return a, nil
}

// reasoningContent reads a member that the API itself does not have from the text that
// the SDK keeps.
func reasoningContent(raw string) string {
	var m struct {
		Reasoning string `json:"reasoning_content"`
	}
	_ = json.Unmarshal([]byte(raw), &m) // an accumulated message has no text
	return m.Reasoning
}

func openAIFailure(err error) *Failure {
	var e *openai.Error
	if !errors.As(err, &e) {
		return nil
	}
	return &Failure{Class(e), e.StatusCode, e.Message, e.Response.Header.Get("Retry-After")}
}

func openAIModels(ctx context.Context, c openai.Client) (ids []string, typed bool, err error) {
	typed = true
	pages := c.Models.ListAutoPaging(ctx)
	for pages.Next() {
		m := pages.Current()
		ids = append(ids, m.ID)
		typed = typed && m.Object == "model" && m.Created > 0 && m.OwnedBy != ""
	}
	slices.Sort(ids)
	return ids, typed, pages.Err()
}

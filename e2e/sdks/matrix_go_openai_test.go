package sdks

import (
	"context"
	"errors"
	"slices"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

// goOpenAI are the features of OpenAI's SDK for Go on both of its APIs.
func goOpenAI() goFeatures {
	return goFeatures{
		"openai-chat/text": chatText, "openai-chat/stream": chatStreamed, "openai-chat/tools": chatTools, "openai-chat/parallel": chatParallel,
		"openai-chat/structured": chatStructured, "openai-chat/image": chatImage, "openai-chat/reasoning": chatReasoning, "openai-chat/usage": chatTokens,
		"openai-chat/error_404": chatError, "openai-chat/error_unknown": chatError, "openai-chat/error_429": chatError,
		"openai-chat/cut": chatCut, "openai-chat/cancel": chatCancel, "openai-chat/models": openaiModelList,

		"openai-responses/text": responsesText, "openai-responses/stream": responsesStreamed, "openai-responses/tools": responsesTools,
		"openai-responses/parallel": responsesParallel, "openai-responses/sealed": responsesSealed, "openai-responses/structured": responsesStructured, "openai-responses/image": responsesImage,
		"openai-responses/reasoning": responsesReasoning, "openai-responses/usage": responsesTokens, "openai-responses/error_404": responsesError,
		"openai-responses/error_unknown": responsesError, "openai-responses/error_429": responsesError, "openai-responses/cut": responsesCut,
		"openai-responses/cancel": responsesCancel, "openai-responses/models": openaiModelList,
	}
}

func (a goAsk) openai() openai.Client {
	return openai.NewClient(option.WithBaseURL(a.BaseURL), option.WithAPIKey(a.Key), option.WithMaxRetries(0), option.WithHTTPClient(a.http))
}

func (a goAsk) chat() openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: a.Model, MaxCompletionTokens: openai.Int(askMost),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(askSystem), openai.UserMessage(askHi)},
	}
}

// chatComplete is one turn, whole or streamed.
type chatComplete func(context.Context, openai.Client, openai.ChatCompletionNewParams) (openai.ChatCompletion, error)

func chatNew(ctx context.Context, c openai.Client, p openai.ChatCompletionNewParams) (openai.ChatCompletion, error) {
	r, err := c.Chat.Completions.New(ctx, p)
	if err != nil {
		return openai.ChatCompletion{}, err
	}
	return *r, nil
}

func chatAccumulated(ctx context.Context, c openai.Client, p openai.ChatCompletionNewParams) (openai.ChatCompletion, error) {
	return accumulate(ctx, c, p, nil)
}

func chatText(ctx context.Context, a goAsk) (any, error) {
	r, err := chatNew(ctx, a.openai(), a.chat())
	if err != nil {
		return nil, err
	}
	return report{"text": r.Choices[0].Message.Content, "finish": r.Choices[0].FinishReason}, nil
}

func chatStreamed(ctx context.Context, a goAsk) (any, error) {
	var deltas []string
	r, err := accumulate(ctx, a.openai(), a.chat(), func(chunk openai.ChatCompletionChunk) {
		for _, x := range chunk.Choices {
			if x.Delta.Content != "" {
				deltas = append(deltas, x.Delta.Content)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return report{"deltas": deltas, "text": r.Choices[0].Message.Content, "finish": r.Choices[0].FinishReason}, nil
}

func chatTools(ctx context.Context, a goAsk) (any, error) {
	return chatTwoRounds(ctx, a, askParis, chatNew)
}

func chatParallel(ctx context.Context, a goAsk) (any, error) {
	return chatTwoRounds(ctx, a, askBoth, chatAccumulated)
}

func chatTwoRounds(ctx context.Context, a goAsk, question string, complete chatComplete) (any, error) {
	p, c := a.chat(), a.openai()
	p.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)}
	p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "get_weather", Description: openai.String(askDescription), Strict: openai.Bool(true), Parameters: citySchema(),
	})}
	first, err := complete(ctx, c, p)
	if err != nil {
		return nil, err
	}
	p.Messages = append(p.Messages, first.Choices[0].Message.ToParam())
	var calls []any
	for _, call := range first.Choices[0].Message.ToolCalls {
		calls = append(calls, callReport(call.Function.Name, call.Function.Arguments))
		p.Messages = append(p.Messages, openai.ToolMessage(rig.Compact(degreesIn(cityOf(call.Function.Arguments))), call.ID))
	}
	second, err := complete(ctx, c, p)
	if err != nil {
		return nil, err
	}
	finish := []string{first.Choices[0].FinishReason, second.Choices[0].FinishReason}
	return report{"calls": calls, "finish": finish, "text": second.Choices[0].Message.Content}, nil
}

func chatStructured(ctx context.Context, a goAsk) (any, error) {
	p := a.chat()
	p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "person", Strict: openai.Bool(true), Schema: personSchema()},
	}
	r, err := chatNew(ctx, a.openai(), p)
	if err != nil {
		return nil, err
	}
	return personReport(r.Choices[0].Message.Content)
}

func chatImage(ctx context.Context, a goAsk) (any, error) {
	p := a.chat()
	p.Messages[1] = openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
		openai.TextContentPart(askPicture),
		openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64," + pixel}),
	})
	r, err := chatNew(ctx, a.openai(), p)
	if err != nil {
		return nil, err
	}
	return report{"text": r.Choices[0].Message.Content}, nil
}

// chatReasoning reads reasoning_content, which the API itself does not have, from
// what the SDK keeps of members that it does not know.
func chatReasoning(ctx context.Context, a goAsk) (any, error) {
	p, c := a.chat(), a.openai()
	p.ReasoningEffort, p.MaxCompletionTokens = shared.ReasoningEffortLow, openai.Int(askMostThinking)
	r, err := chatNew(ctx, c, p)
	if err != nil {
		return nil, err
	}
	m := r.Choices[0].Message
	whole := report{"reasoning": rig.Parse([]byte(m.RawJSON())).Str("reasoning_content"), "text": m.Content}
	text, thought := "", ""
	s := c.Chat.Completions.NewStreaming(ctx, p)
	defer s.Close()
	for s.Next() {
		for _, x := range s.Current().Choices {
			text += x.Delta.Content
			thought += rig.Parse([]byte(x.Delta.RawJSON())).Str("reasoning_content")
		}
	}
	return report{"whole": whole, "stream": report{"reasoning": thought, "text": text}}, s.Err()
}

func chatTokens(ctx context.Context, a goAsk) (any, error) {
	tokens := func(u openai.CompletionUsage) any {
		return tokensReport(u.PromptTokens, u.PromptTokensDetails.CachedTokens, u.CompletionTokens, u.CompletionTokensDetails.ReasoningTokens)
	}
	p, c := a.chat(), a.openai()
	r, err := chatNew(ctx, c, p)
	if err != nil {
		return nil, err
	}
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	s, err := chatAccumulated(ctx, c, p)
	return report{"whole": tokens(r.Usage), "stream": tokens(s.Usage)}, err
}

func chatError(ctx context.Context, a goAsk) (any, error) {
	_, err := chatNew(ctx, a.openai(), a.chat())
	return openaiErrorReport(err)
}

func openaiErrorReport(err error) (any, error) {
	var e *openai.Error
	if !errors.As(err, &e) {
		return report{"error": nil}, err
	}
	return errorReport(className(e), e.StatusCode, e.Message, e.Response.Header.Get("Retry-After")), nil
}

func chatCut(ctx context.Context, a goAsk) (any, error) {
	c := a.openai()
	s := c.Chat.Completions.NewStreaming(ctx, a.chat())
	defer s.Close()
	text := ""
	for s.Next() {
		for _, x := range s.Current().Choices {
			text += x.Delta.Content
		}
	}
	return report{"text": text, "error": className(s.Err())}, nil
}

func chatCancel(ctx context.Context, a goAsk) (any, error) {
	c := a.openai()
	s := c.Chat.Completions.NewStreaming(ctx, a.chat())
	text := ""
	for text == "" && s.Next() {
		text = s.Current().Choices[0].Delta.Content
	}
	return report{"text": text}, errors.Join(s.Err(), s.Close())
}

func openaiModelList(ctx context.Context, a goAsk) (any, error) {
	c := a.openai()
	pages := c.Models.ListAutoPaging(ctx)
	var ids []string
	typed := true
	for pages.Next() {
		m := pages.Current()
		ids = append(ids, m.ID)
		typed = typed && m.Object == "model" && m.Created > 0 && m.OwnedBy != ""
	}
	slices.Sort(ids)
	return report{"ids": ids, "typed": typed}, pages.Err()
}

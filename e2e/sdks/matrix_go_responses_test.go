package sdks

import (
	"context"
	"errors"
	"slices"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

func (a goAsk) responses() responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model: a.Model, MaxOutputTokens: openai.Int(askMost), Instructions: openai.String(askSystem),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(askHi)},
	}
}

// responsesComplete is one turn, whole or streamed.
type responsesComplete func(context.Context, openai.Client, responses.ResponseNewParams) (responses.Response, error)

func responsesNew(ctx context.Context, c openai.Client, p responses.ResponseNewParams) (responses.Response, error) {
	r, err := c.Responses.New(ctx, p)
	if err != nil {
		return responses.Response{}, err
	}
	return *r, nil
}

func responsesFinal(ctx context.Context, c openai.Client, p responses.ResponseNewParams) (responses.Response, error) {
	return responsesEach(ctx, c, p, func(string) {})
}

// responsesEach gives out each piece of text and returns the response that the
// stream ends with.
func responsesEach(ctx context.Context, c openai.Client, p responses.ResponseNewParams, text func(string)) (responses.Response, error) {
	s := c.Responses.NewStreaming(ctx, p)
	defer s.Close()
	var last responses.Response
	for s.Next() {
		switch e := s.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			text(e.Delta)
		case responses.ResponseCompletedEvent:
			last = e.Response
		}
	}
	return last, s.Err()
}

func responsesText(ctx context.Context, a goAsk) (any, error) {
	r, err := responsesNew(ctx, a.openai(), a.responses())
	return report{"text": r.OutputText(), "finish": r.Status}, err
}

func responsesStreamed(ctx context.Context, a goAsk) (any, error) {
	var deltas []string
	r, err := responsesEach(ctx, a.openai(), a.responses(), func(s string) { deltas = append(deltas, s) })
	return report{"deltas": deltas, "text": r.OutputText(), "finish": r.Status}, err
}

func responsesTools(ctx context.Context, a goAsk) (any, error) {
	return responsesTwoRounds(ctx, a, a.responses(), askParis, responsesNew)
}

func responsesSealed(ctx context.Context, a goAsk) (any, error) {
	p := responsesThinking(a)
	p.Store, p.Include = openai.Bool(false), []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	return wholeAndStream(
		func() (any, error) { return responsesTwoRounds(ctx, a, p, askParis, responsesNew) },
		func() (any, error) { return responsesTwoRounds(ctx, a, p, askParis, responsesFinal) })
}

func responsesParallel(ctx context.Context, a goAsk) (any, error) {
	return responsesTwoRounds(ctx, a, a.responses(), askBoth, responsesFinal)
}

func responsesTwoRounds(ctx context.Context, a goAsk, p responses.ResponseNewParams, question string, complete responsesComplete) (any, error) {
	c := a.openai()
	p.Instructions = param.Opt[string]{}
	weather := responses.ToolParamOfFunction("get_weather", citySchema(), true)
	weather.OfFunction.Description = openai.String(askDescription)
	p.Tools = []responses.ToolUnionParam{weather}
	history := responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage(question, responses.EasyInputMessageRoleUser)}
	p.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: history}
	first, err := complete(ctx, c, p)
	if err != nil {
		return nil, err
	}
	var calls []any
	var results responses.ResponseInputParam
	for _, item := range first.Output {
		if item.Type == "reasoning" {
			back := item.AsReasoning().ToParam()
			history = append(history, responses.ResponseInputItemUnionParam{OfReasoning: &back})
		}
		if item.Type != "function_call" {
			continue
		}
		call := item.AsFunctionCall()
		calls = append(calls, callReport(call.Name, call.Arguments))
		back := call.ToParam()
		history = append(history, responses.ResponseInputItemUnionParam{OfFunctionCall: &back})
		result := responses.ResponseInputItemParamOfFunctionCallOutput(rig.Compact(degreesIn(cityOf(call.Arguments))))
		result.OfFunctionCallOutput.CallID = openai.String(call.CallID)
		results = append(results, result)
	}
	p.Input.OfInputItemList = slices.Concat(history, results)
	second, err := complete(ctx, c, p)
	return report{"calls": calls, "finish": []any{first.Status, second.Status}, "text": second.OutputText()}, err
}

func responsesStructured(ctx context.Context, a goAsk) (any, error) {
	p := a.responses()
	p.Text.Format = responses.ResponseFormatTextConfigParamOfJSONSchema("person", personSchema())
	r, err := responsesNew(ctx, a.openai(), p)
	if err != nil {
		return nil, err
	}
	return personReport(r.OutputText())
}

func responsesImage(ctx context.Context, a goAsk) (any, error) {
	image := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
	image.OfInputImage.ImageURL = openai.String("data:image/png;base64," + pixel)
	content := responses.ResponseInputMessageContentListParam{responses.ResponseInputContentParamOfInputText(askPicture), image}
	p := a.responses()
	p.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
		responses.ResponseInputItemParamOfMessage(content, responses.EasyInputMessageRoleUser),
	}}
	r, err := responsesNew(ctx, a.openai(), p)
	return report{"text": r.OutputText()}, err
}

func responsesReasoning(ctx context.Context, a goAsk) (any, error) {
	thoughts := func(r responses.Response) any {
		thought := ""
		for _, item := range r.Output {
			for _, s := range item.Summary {
				thought += s.Text
			}
		}
		return report{"reasoning": thought, "text": r.OutputText()}
	}
	return responsesBoth(ctx, a.openai(), responsesThinking(a), thoughts)
}

func responsesThinking(a goAsk) responses.ResponseNewParams {
	p := a.responses()
	p.MaxOutputTokens = openai.Int(askMostThinking)
	p.Reasoning = shared.ReasoningParam{Effort: shared.ReasoningEffortLow, Summary: shared.ReasoningSummaryAuto}
	return p
}

func responsesTokens(ctx context.Context, a goAsk) (any, error) {
	return responsesBoth(ctx, a.openai(), a.responses(), func(r responses.Response) any {
		u := r.Usage
		return tokensReport(u.InputTokens, u.InputTokensDetails.CachedTokens, u.OutputTokens, u.OutputTokensDetails.ReasoningTokens)
	})
}

// responsesBoth reports what is made of the whole answer and of the streamed one.
func responsesBoth(ctx context.Context, c openai.Client, p responses.ResponseNewParams, of func(responses.Response) any) (any, error) {
	whole, err := responsesNew(ctx, c, p)
	if err != nil {
		return nil, err
	}
	streamed, err := responsesFinal(ctx, c, p)
	return report{"whole": of(whole), "stream": of(streamed)}, err
}

func responsesError(ctx context.Context, a goAsk) (any, error) {
	_, err := responsesNew(ctx, a.openai(), a.responses())
	return openaiErrorReport(err)
}

func responsesCut(ctx context.Context, a goAsk) (any, error) {
	text := ""
	_, err := responsesEach(ctx, a.openai(), a.responses(), func(s string) { text += s })
	return report{"text": text, "error": className(err)}, nil
}

func responsesCancel(ctx context.Context, a goAsk) (any, error) {
	c := a.openai()
	s := c.Responses.NewStreaming(ctx, a.responses())
	text := ""
	for text == "" && s.Next() {
		if e, ok := s.Current().AsAny().(responses.ResponseTextDeltaEvent); ok {
			text = e.Delta
		}
	}
	return report{"text": text}, errors.Join(s.Err(), s.Close())
}

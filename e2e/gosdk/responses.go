package gosdk

import (
	"context"
	"errors"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// Responses is OpenAI's SDK with the Responses API.
func Responses(_ context.Context, o Options) (*SDK, error) {
	c := OpenAI(o)
	return &SDK{
		Dialect: "openai-responses", Failure: openAIFailure,
		Models: func(ctx context.Context) ([]string, bool, error) { return openAIModels(ctx, c) },
		Ask: func(ctx context.Context, r Request) (Answer, error) {
			if r.Stream {
				return streamResponses(ctx, c, r)
			}
			response, err := c.Responses.New(ctx, responsesParams(r))
			if err != nil {
				return Answer{}, err
			}
			return responsesAnswer(*response), nil
		},
	}, nil
}

func responsesParams(r Request) responses.ResponseNewParams {
	p := responses.ResponseNewParams{Model: r.Model, MaxOutputTokens: openai.Int(int64(r.MaxTokens)), Input: responsesInput(r)}
	if r.System != "" {
		p.Instructions = openai.String(r.System)
	}
	if r.Fixed {
		p.Temperature = openai.Float(0)
	}
	if schema, ok := r.Schema.(map[string]any); ok {
		p.Text.Format = responses.ResponseFormatTextConfigParamOfJSONSchema("answer", schema)
	}
	if r.Logprobs {
		p.TopLogprobs = openai.Int(2)
		p.Include = append(p.Include, responses.ResponseIncludableMessageOutputTextLogprobs)
	}
	if r.Thinking {
		p.Reasoning = shared.ReasoningParam{Effort: shared.ReasoningEffortLow, Summary: shared.ReasoningSummaryAuto}
	}
	if r.Sealed {
		p.Store = openai.Bool(false)
		p.Include = append(p.Include, responses.ResponseIncludableReasoningEncryptedContent)
	}
	if r.Tool != "" {
		tool := responses.ToolParamOfFunction(r.Tool, CitySchema(), true)
		tool.OfFunction.Description = openai.String(ToolDescription)
		p.Tools = []responses.ToolUnionParam{tool}
	}
	if r.ForceTool {
		p.ToolChoice.OfToolChoiceMode = openai.Opt(responses.ToolChoiceOptionsRequired)
	}
	return p
}

// responsesInput is the prompt as a string, unless an image or a conversation needs items.
func responsesInput(r Request) responses.ResponseNewParamsInputUnion {
	if r.Image != "" {
		image := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
		image.OfInputImage.ImageURL = openai.String("data:image/png;base64," + r.Image)
		content := responses.ResponseInputMessageContentListParam{responses.ResponseInputContentParamOfInputText(r.Prompt), image}
		return responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
			responses.ResponseInputItemParamOfMessage(content, responses.EasyInputMessageRoleUser),
		}}
	}
	if r.After == nil {
		return responses.ResponseNewParamsInputUnion{OfString: openai.String(r.Prompt)}
	}
	items := responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage(r.Prompt, responses.EasyInputMessageRoleUser)}
	items = append(items, r.After.echo.(responses.ResponseInputParam)...)
	for i, text := range r.Results {
		result := responses.ResponseInputItemParamOfFunctionCallOutput(text)
		result.OfFunctionCallOutput.CallID = openai.String(r.After.Calls[i].ID)
		items = append(items, result)
	}
	return responses.ResponseNewParamsInputUnion{OfInputItemList: items}
}

// streamResponses returns the response of the last event and checks that the pieces make
// up its text.
func streamResponses(ctx context.Context, c openai.Client, r Request) (Answer, error) {
	s := c.Responses.NewStreaming(ctx, responsesParams(r))
	defer s.Close()
	var last *responses.Response
	var failed error
	text := ""
	for s.Next() {
		switch e := s.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			text += e.Delta
			if r.piece(e.Delta) {
				return Answer{}, s.Close()
			}
		case responses.ResponseCompletedEvent:
			last = &e.Response
		case responses.ResponseIncompleteEvent:
			last = &e.Response
		case responses.ResponseFailedEvent:
			failed = errors.New("the response failed: " + e.RawJSON())
		}
	}
	switch {
	case s.Err() != nil:
		return Answer{}, s.Err()
	case failed != nil:
		return Answer{}, failed
	case last == nil:
		return Answer{}, errors.New("the stream has no last event")
	case text != last.OutputText():
		return Answer{}, fmt.Errorf("the pieces make up %q and the last event has %q", text, last.OutputText())
	}
	return responsesAnswer(*last), nil
}

func responsesAnswer(r responses.Response) Answer {
	u := r.Usage
	a := Answer{
		Text: r.OutputText(), Finish: string(r.Status),
		Usage: Usage{int(u.InputTokens), int(u.InputTokensDetails.CachedTokens), int(u.OutputTokens), int(u.OutputTokensDetails.ReasoningTokens), int(u.TotalTokens)},
	}
	if r.IncompleteDetails.Reason != "" {
		a.Finish = r.IncompleteDetails.Reason
	}
	var echo responses.ResponseInputParam
	for _, item := range r.Output {
		switch item.Type {
		case "reasoning":
			for _, s := range item.Summary {
				a.Thought += s.Text
			}
			back := item.AsReasoning().ToParam()
			echo = append(echo, responses.ResponseInputItemUnionParam{OfReasoning: &back})
		case "function_call":
			call := item.AsFunctionCall()
			a.Calls = append(a.Calls, Call{call.CallID, call.Name, call.Arguments})
			back := call.ToParam()
			echo = append(echo, responses.ResponseInputItemUnionParam{OfFunctionCall: &back})
		}
		for _, part := range item.Content {
			for _, l := range part.Logprobs {
				a.Logprobs = append(a.Logprobs, Logprob{l.Token, float32(l.Logprob), len(l.TopLogprobs)})
			}
		}
	}
	a.echo = echo
	return a
}

package engines

import (
	"context"
	"fmt"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

func newResponses(_ context.Context, origin string, h *http.Client) (*client, error) {
	sdk := newOpenAI(origin, h)
	return &client{dialect: "openai-responses", ask: func(ctx context.Context, q question) (answer, error) {
		if !q.stream {
			r, err := sdk.Responses.New(ctx, responsesParams(q))
			if err != nil {
				return answer{}, err
			}
			return responsesAnswer(*r), nil
		}
		return responsesStream(ctx, sdk, q)
	}}, nil
}

func responsesParams(q question) responses.ResponseNewParams {
	p := responses.ResponseNewParams{
		Model: q.model, MaxOutputTokens: openai.Int(int64(q.tokens)), Temperature: openai.Float(0),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(q.text)},
	}
	if q.schema != nil {
		p.Text.Format = responses.ResponseFormatTextConfigParamOfJSONSchema("answer", q.schema)
	}
	if q.logprobs {
		p.TopLogprobs, p.Include = openai.Int(2), []responses.ResponseIncludable{responses.ResponseIncludableMessageOutputTextLogprobs}
	}
	if q.tool != "" {
		p.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction(q.tool, citySchema(), true)}
	}
	if q.force {
		p.ToolChoice.OfToolChoiceMode = openai.Opt(responses.ToolChoiceOptionsRequired)
	}
	return p
}

// responsesStream returns what the last event has, and holds that the pieces make it up.
func responsesStream(ctx context.Context, sdk openai.Client, q question) (answer, error) {
	s := sdk.Responses.NewStreaming(ctx, responsesParams(q))
	defer s.Close()
	var last *responses.Response
	text := ""
	for s.Next() {
		switch e := s.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			text += e.Delta
			q.tell(e.Delta)
		case responses.ResponseCompletedEvent:
			last = &e.Response
		case responses.ResponseIncompleteEvent:
			last = &e.Response
		case responses.ResponseFailedEvent:
			return answer{}, fmt.Errorf("the response failed: %s", e.RawJSON())
		}
	}
	switch {
	case s.Err() != nil:
		return answer{}, s.Err()
	case last == nil:
		return answer{}, fmt.Errorf("the stream has no last event")
	case text != last.OutputText():
		return answer{}, fmt.Errorf("the pieces make up %q and the last event has %q", text, last.OutputText())
	}
	return responsesAnswer(*last), nil
}

func responsesAnswer(r responses.Response) answer {
	a := answer{
		text:   r.OutputText(),
		finish: as(map[string]string{"completed": ended}, string(r.Status)),
		usage:  usage{int(r.Usage.InputTokens), int(r.Usage.InputTokensDetails.CachedTokens), int(r.Usage.OutputTokens), int(r.Usage.TotalTokens)},
	}
	if r.IncompleteDetails.Reason == "max_output_tokens" {
		a.finish = cut
	}
	for _, item := range r.Output {
		if item.Type == "function_call" {
			a.calls = append(a.calls, call(item.Name, item.AsFunctionCall().Arguments))
			a.finish = called // the dialect has no word of its own for it
		}
		for _, part := range item.Content {
			for _, l := range part.Logprobs {
				a.logprobs = append(a.logprobs, logprob{l.Token, float32(l.Logprob), len(l.TopLogprobs)})
			}
		}
	}
	return a
}

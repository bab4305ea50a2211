package engines

import (
	"context"
	"net/http"

	// The newest major has no temperature any more.
	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

func newMessages(_ context.Context, origin string, h *http.Client) (*client, error) {
	sdk := anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithBaseURL(origin), option.WithAPIKey(rig.ClientKey), option.WithMaxRetries(0), option.WithHTTPClient(h))
	return &client{dialect: "anthropic", ask: func(ctx context.Context, q question) (answer, error) {
		if !q.stream {
			r, err := sdk.Messages.New(ctx, messagesParams(q))
			if err != nil {
				return answer{}, err
			}
			return messagesAnswer(*r), nil
		}
		return messagesStream(ctx, sdk, q)
	}}, nil
}

func messagesParams(q question) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{
		Model: q.model, MaxTokens: int64(q.tokens), Temperature: anthropic.Float(0), StopSequences: q.stop,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(q.text))},
	}
	if q.schema != nil {
		p.OutputConfig.Format = anthropic.JSONOutputFormatParam{Schema: q.schema}
	}
	if q.tool != "" {
		schema := anthropic.ToolInputSchemaParam{Properties: citySchema()["properties"], Required: []string{"city"}}
		p.Tools = []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(schema, q.tool)}
	}
	if q.force {
		p.ToolChoice.OfAny = &anthropic.ToolChoiceAnyParam{}
	}
	return p
}

func messagesStream(ctx context.Context, sdk anthropic.Client, q question) (answer, error) {
	s := sdk.Messages.NewStreaming(ctx, messagesParams(q))
	defer s.Close()
	var all anthropic.Message
	for s.Next() {
		e := s.Current()
		if err := all.Accumulate(e); err != nil {
			return answer{}, err
		}
		q.tell(e.Delta.Text)
	}
	if s.Err() != nil {
		return answer{}, s.Err()
	}
	return messagesAnswer(all), nil
}

func messagesAnswer(r anthropic.Message) answer {
	in := r.Usage.InputTokens + r.Usage.CacheReadInputTokens + r.Usage.CacheCreationInputTokens
	a := answer{
		finish: as(map[string]string{"end_turn": ended, "stop_sequence": ended, "max_tokens": cut, "tool_use": called}, string(r.StopReason)),
		usage:  usage{int(in), int(r.Usage.CacheReadInputTokens), int(r.Usage.OutputTokens), int(in + r.Usage.OutputTokens)},
	}
	for _, b := range r.Content {
		a.text += b.Text
		if b.Type == "tool_use" {
			a.calls = append(a.calls, call(b.Name, string(b.Input)))
		}
	}
	return a
}

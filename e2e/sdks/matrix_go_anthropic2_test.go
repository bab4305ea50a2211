package sdks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/anthropics/anthropic-sdk-go/v2/toolrunner"
	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// goAnthropic2 are the features of Anthropic's SDK for Go.
func goAnthropic2() goFeatures {
	var m messages2
	return goFeatures{
		"anthropic/text": m.text, "anthropic/stream": m.stream, "anthropic/tools": m.tools, "anthropic/parallel": m.parallel, "anthropic/sealed": m.sealed,
		"anthropic/runner":     m.runner,
		"anthropic/structured": m.structured, "anthropic/image": m.image, "anthropic/reasoning": m.reasoning, "anthropic/usage": m.usage,
		"anthropic/error_404": m.problem, "anthropic/error_unknown": m.problem, "anthropic/error_429": m.problem, "anthropic/cut": m.cut,
		"anthropic/cancel": m.cancel, "anthropic/models": m.models, "anthropic/count_tokens": m.countTokens,
	}
}

// messages2 does them; its methods keep the names of this SDK's two majors apart.
type messages2 struct{}

func (messages2) client(a goAsk) anthropic.Client {
	return anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithBaseURL(a.BaseURL), option.WithAPIKey(a.Key),
		option.WithMaxRetries(0), option.WithHTTPClient(a.http))
}

func (messages2) params(a goAsk) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: a.Model, MaxTokens: askMost, System: []anthropic.TextBlockParam{{Text: askSystem}},
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(askHi))},
	}
}

func (m messages2) thinking(a goAsk) anthropic.MessageNewParams {
	p := m.params(a)
	p.MaxTokens, p.Thinking = askMostThinking, anthropic.ThinkingConfigParamOfEnabled(1024)
	return p
}

// create and final are one turn, whole and streamed.
func (m messages2) create(ctx context.Context, a goAsk, p anthropic.MessageNewParams) (anthropic.Message, error) {
	c := m.client(a)
	r, err := c.Messages.New(ctx, p)
	if err != nil {
		return anthropic.Message{}, err
	}
	return *r, nil
}

func (m messages2) final(ctx context.Context, a goAsk, p anthropic.MessageNewParams) (anthropic.Message, error) {
	return m.each(ctx, a, p, func(string) {})
}

// each gives out each piece of text and returns what the SDK has accumulated.
func (m messages2) each(ctx context.Context, a goAsk, p anthropic.MessageNewParams, text func(string)) (anthropic.Message, error) {
	c := m.client(a)
	s := c.Messages.NewStreaming(ctx, p)
	defer s.Close()
	var all anthropic.Message
	for s.Next() {
		e := s.Current()
		if err := all.Accumulate(e); err != nil {
			return all, err
		}
		if e.Delta.Text != "" {
			text(e.Delta.Text)
		}
	}
	return all, s.Err()
}

func (messages2) textOf(r anthropic.Message) string {
	text := ""
	for _, b := range r.Content {
		text += b.Text
	}
	return text
}

func (m messages2) text(ctx context.Context, a goAsk) (any, error) {
	r, err := m.create(ctx, a, m.params(a))
	return report{"text": m.textOf(r), "finish": r.StopReason}, err
}

func (m messages2) stream(ctx context.Context, a goAsk) (any, error) {
	var deltas []string
	r, err := m.each(ctx, a, m.params(a), func(s string) { deltas = append(deltas, s) })
	return report{"deltas": deltas, "text": m.textOf(r), "finish": r.StopReason}, err
}

func (m messages2) tools(ctx context.Context, a goAsk) (any, error) {
	return m.twoRounds(ctx, a, m.params(a), askParis, m.create)
}

func (m messages2) sealed(ctx context.Context, a goAsk) (any, error) {
	return wholeAndStream(
		func() (any, error) { return m.twoRounds(ctx, a, m.thinking(a), askParis, m.create) },
		func() (any, error) { return m.twoRounds(ctx, a, m.thinking(a), askParis, m.final) })
}

func (m messages2) parallel(ctx context.Context, a goAsk) (any, error) {
	return m.twoRounds(ctx, a, m.params(a), askBoth, m.final)
}

func (messages2) weather() []anthropic.ToolUnionParam {
	schema := anthropic.ToolInputSchemaParam{Properties: citySchema()["properties"], Required: []string{"city"}}
	tool := anthropic.ToolUnionParamOfTool(schema, "get_weather")
	tool.OfTool.Description = anthropic.String(askDescription)
	return []anthropic.ToolUnionParam{tool}
}

func (m messages2) twoRounds(ctx context.Context, a goAsk, p anthropic.MessageNewParams, question string,
	complete func(context.Context, goAsk, anthropic.MessageNewParams) (anthropic.Message, error),
) (any, error) {
	p.System, p.Tools = nil, m.weather()
	p.Messages = []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(question))}
	first, err := complete(ctx, a, p)
	if err != nil {
		return nil, err
	}
	var calls []any
	var results []anthropic.ContentBlockParamUnion
	for _, b := range first.Content {
		if b.Type == "tool_use" {
			args := string(b.Input)
			calls = append(calls, callReport(b.Name, args))
			results = append(results, anthropic.NewToolResultBlock(b.ID, rig.Compact(degreesIn(cityOf(args))), false))
		}
	}
	p.Messages = append(p.Messages, first.ToParam(), anthropic.NewUserMessage(results...))
	second, err := complete(ctx, a, p)
	return report{"calls": calls, "finish": []any{first.StopReason, second.StopReason}, "text": m.textOf(second)}, err
}

func (m messages2) runner(ctx context.Context, a goAsk) (any, error) {
	var asked []string
	schema, err := json.Marshal(citySchema())
	if err != nil {
		return nil, err
	}
	tool, err := toolrunner.NewBetaToolFromBytes("get_weather", askDescription, schema,
		func(_ context.Context, in cityArgs) (anthropic.BetaToolResultBlockParamContentUnion, error) {
			asked = append(asked, in.City)
			return anthropic.BetaToolResultBlockParamContentUnion{OfText: &anthropic.BetaTextBlockParam{Text: rig.Compact(degreesIn(in.City))}}, nil
		})
	if err != nil {
		return nil, err
	}
	c := m.client(a)
	run := c.Beta.Messages.NewToolRunner([]anthropic.BetaTool{tool}, anthropic.BetaToolRunnerParams{BetaMessageNewParams: anthropic.BetaMessageNewParams{
		Model: a.Model, MaxTokens: askMost,
		Messages: []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock(askParis))},
	}})
	r, err := run.RunToCompletion(ctx)
	if err != nil {
		return nil, err
	}
	text := ""
	for _, b := range r.Content {
		text += b.Text
	}
	return report{"asked": asked, "text": text}, nil
}

// structured is parsed by the SDK into the value that it made the schema from.
func (m messages2) structured(ctx context.Context, a goAsk) (any, error) {
	var p askedPerson
	c := m.client(a)
	_, err := c.Beta.Messages.New(ctx, anthropic.BetaMessageNewParams{
		Model: a.Model, MaxTokens: askMost, System: []anthropic.BetaTextBlockParam{{Text: askSystem}},
		Messages:     []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock(askHi))},
		OutputConfig: anthropic.BetaOutputConfigParam{Format: anthropic.BetaJSONOutputFormatParam{Schema: &p}},
	})
	return report{"parsed": p}, err
}

func (m messages2) image(ctx context.Context, a goAsk) (any, error) {
	p := m.params(a)
	p.Messages = []anthropic.MessageParam{
		anthropic.NewUserMessage(anthropic.NewTextBlock(askPicture), anthropic.NewImageBlockBase64("image/png", pixel)),
	}
	r, err := m.create(ctx, a, p)
	return report{"text": m.textOf(r)}, err
}

func (m messages2) reasoning(ctx context.Context, a goAsk) (any, error) {
	return m.both(ctx, a, m.thinking(a), func(r anthropic.Message) any {
		thought := ""
		for _, b := range r.Content {
			thought += b.Thinking
		}
		return report{"reasoning": thought, "text": m.textOf(r)}
	})
}

func (m messages2) usage(ctx context.Context, a goAsk) (any, error) {
	return m.both(ctx, a, m.params(a), func(r anthropic.Message) any {
		u := r.Usage
		in := u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens
		return tokensReport(in, u.CacheReadInputTokens, u.OutputTokens, u.OutputTokensDetails.ThinkingTokens)
	})
}

// both reports what is made of the whole answer and of the streamed one.
func (m messages2) both(ctx context.Context, a goAsk, p anthropic.MessageNewParams, of func(anthropic.Message) any) (any, error) {
	whole, err := m.create(ctx, a, p)
	if err != nil {
		return nil, err
	}
	streamed, err := m.final(ctx, a, p)
	return report{"whole": of(whole), "stream": of(streamed)}, err
}

func (m messages2) problem(ctx context.Context, a goAsk) (any, error) {
	_, err := m.create(ctx, a, m.params(a))
	var e *anthropic.Error
	if !errors.As(err, &e) {
		return report{"error": nil}, err
	}
	message := rig.Parse([]byte(e.RawJSON())).Obj("error").Str("message")
	return errorReport(className(e), e.StatusCode, message, e.Response.Header.Get("Retry-After")), nil
}

func (m messages2) cut(ctx context.Context, a goAsk) (any, error) {
	text := ""
	_, err := m.each(ctx, a, m.params(a), func(s string) { text += s })
	return report{"text": text, "error": className(err)}, nil
}

func (m messages2) cancel(ctx context.Context, a goAsk) (any, error) {
	c := m.client(a)
	s := c.Messages.NewStreaming(ctx, m.params(a))
	text := ""
	for text == "" && s.Next() {
		text = s.Current().Delta.Text
	}
	return report{"text": text}, errors.Join(s.Err(), s.Close())
}

func (m messages2) models(ctx context.Context, a goAsk) (any, error) {
	c := m.client(a)
	pages := c.Models.ListAutoPaging(ctx, anthropic.ModelListParams{})
	var ids []string
	typed := true
	for pages.Next() {
		x := pages.Current()
		ids = append(ids, x.ID)
		typed = typed && x.Type == "model" && x.DisplayName != "" && x.CreatedAt.Year() > 2000
	}
	slices.Sort(ids)
	return report{"ids": ids, "typed": typed}, pages.Err()
}

func (m messages2) countTokens(ctx context.Context, a goAsk) (any, error) {
	p, c := m.params(a), m.client(a)
	r, err := c.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{
		Model: p.Model, Messages: p.Messages, System: anthropic.MessageCountTokensParamsSystemUnion{OfTextBlockArray: p.System},
	})
	var e *anthropic.Error
	if errors.As(err, &e) && e.StatusCode == http.StatusNotFound {
		return report{"refused": true}, nil
	}
	if err != nil {
		return nil, err
	}
	return report{"tokens": r.InputTokens}, nil
}

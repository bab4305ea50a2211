package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/toolrunner"
)

// messages1 wraps the client of this major version of the SDK.
type messages1 struct{ anthropic.Client }

// Anthropic1 is Anthropic's SDK with the Messages API.
func Anthropic1(_ context.Context, o Options) (*SDK, error) {
	m := messages1{anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithBaseURL(o.BaseURL), option.WithAPIKey(o.Key),
		option.WithMaxRetries(0), option.WithHTTPClient(o.HTTP))}
	return &SDK{
		Dialect: "anthropic", Ask: m.ask, Models: m.models, Failure: m.failure, Parse: m.parse, RunTools: m.runTools, CountTokens: m.countTokens,
	}, nil
}

func (m messages1) ask(ctx context.Context, r Request) (Answer, error) {
	if r.Stream {
		return m.stream(ctx, r)
	}
	message, err := m.Messages.New(ctx, m.params(r), m.options(r)...)
	if err != nil {
		return Answer{}, err
	}
	return m.answer(*message), nil
}

func (messages1) params(r Request) anthropic.MessageNewParams {
	content := []anthropic.ContentBlockParamUnion{anthropic.NewTextBlock(r.Prompt)}
	if r.Image != "" {
		content = append(content, anthropic.NewImageBlockBase64("image/png", r.Image))
	}
	p := anthropic.MessageNewParams{
		Model: r.Model, MaxTokens: int64(r.MaxTokens), StopSequences: r.Stop, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(content...)},
	}
	if r.After != nil {
		var results []anthropic.ContentBlockParamUnion
		for i, text := range r.Results {
			results = append(results, anthropic.NewToolResultBlock(r.After.Calls[i].ID, text, false))
		}
		p.Messages = append(p.Messages, r.After.echo.(anthropic.MessageParam), anthropic.NewUserMessage(results...))
	}
	if r.System != "" {
		p.System = []anthropic.TextBlockParam{{Text: r.System}}
	}
	if schema, ok := r.Schema.(map[string]any); ok {
		p.OutputConfig.Format = anthropic.JSONOutputFormatParam{Schema: schema}
	}
	if r.Thinking {
		p.Thinking = anthropic.ThinkingConfigParamOfEnabled(1024)
	}
	if r.Tool != "" {
		tool := anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{Properties: CitySchema()["properties"], Required: []string{"city"}}, r.Tool)
		tool.OfTool.Description = anthropic.String(ToolDescription)
		p.Tools = []anthropic.ToolUnionParam{tool}
	}
	if r.ForceTool {
		p.ToolChoice.OfAny = &anthropic.ToolChoiceAnyParam{}
	}
	return p
}

// options returns what the newest major has no parameter for.
func (messages1) options(r Request) []option.RequestOption {
	if r.Fixed {
		return []option.RequestOption{option.WithJSONSet("temperature", 0)}
	}
	return nil
}

// stream reads a stream with the SDK's accumulator.
func (m messages1) stream(ctx context.Context, r Request) (Answer, error) {
	s := m.Messages.NewStreaming(ctx, m.params(r), m.options(r)...)
	defer s.Close()
	var all anthropic.Message
	for s.Next() {
		e := s.Current()
		if err := all.Accumulate(e); err != nil {
			return Answer{}, err
		}
		if r.piece(e.Delta.Text) {
			return Answer{}, s.Close()
		}
	}
	return m.answer(all), s.Err()
}

func (messages1) answer(r anthropic.Message) Answer {
	u := r.Usage
	in := int(u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens)
	a := Answer{
		Finish: string(r.StopReason), echo: r.ToParam(),
		Usage: Usage{in, int(u.CacheReadInputTokens), int(u.OutputTokens), int(u.OutputTokensDetails.ThinkingTokens), in + int(u.OutputTokens)},
	}
	for _, b := range r.Content {
		a.Text += b.Text
		a.Thought += b.Thinking
		if b.Type == "tool_use" {
			a.Calls = append(a.Calls, Call{b.ID, b.Name, string(b.Input)})
		}
	}
	return a
}

func (m messages1) runTools(ctx context.Context, r Request) (text string, cities []string, err error) {
	schema, err := json.Marshal(CitySchema())
	if err != nil {
		return "", nil, err
	}
	tool, err := toolrunner.NewBetaToolFromBytes(r.Tool, ToolDescription, schema,
		func(_ context.Context, in City) (anthropic.BetaToolResultBlockParamContentUnion, error) {
			cities = append(cities, in.City)
			return anthropic.BetaToolResultBlockParamContentUnion{OfText: &anthropic.BetaTextBlockParam{Text: Weather(in.City)}}, nil
		})
	if err != nil {
		return "", nil, err
	}
	run := m.Beta.Messages.NewToolRunner([]anthropic.BetaTool{tool}, anthropic.BetaToolRunnerParams{BetaMessageNewParams: anthropic.BetaMessageNewParams{
		Model: r.Model, MaxTokens: int64(r.MaxTokens),
		Messages: []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock(r.Prompt))},
	}})
	message, err := run.RunToCompletion(ctx)
	if err != nil {
		return "", nil, err
	}
	for _, b := range message.Content {
		text += b.Text
	}
	return text, cities, nil
}

func (m messages1) parse(ctx context.Context, r Request, into any) error {
	_, err := m.Beta.Messages.New(ctx, anthropic.BetaMessageNewParams{
		Model: r.Model, MaxTokens: int64(r.MaxTokens), System: []anthropic.BetaTextBlockParam{{Text: r.System}},
		Messages:     []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock(r.Prompt))},
		OutputConfig: anthropic.BetaOutputConfigParam{Format: anthropic.BetaJSONOutputFormatParam{Schema: into}},
	})
	return err
}

func (messages1) failure(err error) *Failure {
	var e *anthropic.Error
	if !errors.As(err, &e) {
		return nil
	}
	var body struct{ Error struct{ Message string } }
	_ = json.Unmarshal([]byte(e.RawJSON()), &body) // an error without a message shows in the report
	return &Failure{Class(e), e.StatusCode, body.Error.Message, e.Response.Header.Get("Retry-After")}
}

func (m messages1) models(ctx context.Context) (ids []string, typed bool, err error) {
	typed = true
	pages := m.Models.ListAutoPaging(ctx, anthropic.ModelListParams{})
	for pages.Next() {
		x := pages.Current()
		ids = append(ids, x.ID)
		typed = typed && x.Type == "model" && x.DisplayName != "" && x.CreatedAt.Year() > 2000
	}
	slices.Sort(ids)
	return ids, typed, pages.Err()
}

func (m messages1) countTokens(ctx context.Context, r Request) (int, error) {
	p := m.params(r)
	count, err := m.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{
		Model: p.Model, Messages: p.Messages, System: anthropic.MessageCountTokensParamsSystemUnion{OfTextBlockArray: p.System},
	})
	if err != nil {
		return 0, err
	}
	return int(count.InputTokens), nil
}

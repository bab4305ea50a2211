package crowd

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"google.golang.org/genai"
)

const (
	most   = 64
	hurry  = 16  // tokens of an answer in plain text
	leaves = 0.2 // of the streams
)

// said is what a client reports of one request.
type said struct {
	Nonce, Model, Text, Error string
	Stream, Formed, Left      bool
	tokens
}

// order is what is asked, and whether the client leaves before it has all of the
// answer.
type order struct {
	nonce, model, prompt   string
	stream, formed, leaves bool
	most                   int64
}

func roll(dice *rand.Rand, nonce string) order {
	o := order{nonce: nonce, model: models[dice.IntN(len(models))], prompt: fmt.Sprintf("Write a long story about %s.", nonce), most: most}
	o.stream, o.formed = dice.Float64() < 0.6, o.model == forms && dice.Float64() < 0.7
	o.leaves = o.stream && dice.Float64() < leaves
	if !o.formed && !o.leaves {
		o.most = hurry
	}
	return o
}

func (o order) schema() map[string]any {
	return map[string]any{
		"type": "object", "required": []string{"id"}, "additionalProperties": false,
		"properties": map[string]any{"id": map[string]any{"type": "string", "enum": []string{o.nonce}}},
	}
}

// A talk asks one thing. It gives out each piece of text; where it is told that this
// was enough, it leaves.
type talk func(ctx context.Context, o order, text func(string) (enough bool)) (tokens, error)

// goTalks are the vendors' SDKs for Go.
func goTalks(origin, key string) (map[string]talk, error) {
	one := &http.Client{Timeout: 5 * time.Minute}
	oa := openai.NewClient(option.WithBaseURL(origin+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0), option.WithHTTPClient(one))
	an := anthropic.NewClient(anthropicoption.WithoutEnvironmentDefaults(), anthropicoption.WithBaseURL(origin), anthropicoption.WithAPIKey(key),
		anthropicoption.WithMaxRetries(0), anthropicoption.WithHTTPClient(one))
	ge, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey: key, Backend: genai.BackendGeminiAPI, HTTPClient: one, HTTPOptions: genai.HTTPOptions{BaseURL: origin},
	})
	return map[string]talk{"chat": chatTalk(oa), "responses": responsesTalk(oa), "anthropic": anthropicTalk(an), "gemini": geminiTalk(ge)}, err
}

func chatTalk(c openai.Client) talk {
	used := func(u openai.CompletionUsage) tokens {
		return tokens{int(u.PromptTokens), int(u.PromptTokensDetails.CachedTokens), int(u.CompletionTokens)}
	}
	return func(ctx context.Context, o order, text func(string) bool) (tokens, error) {
		p := openai.ChatCompletionNewParams{
			Model: o.model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(o.prompt)},
			MaxCompletionTokens: openai.Int(o.most), Temperature: openai.Float(0),
		}
		if o.formed {
			p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
				JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "ticket", Strict: openai.Bool(true), Schema: o.schema()},
			}
		}
		if !o.stream {
			r, err := c.Chat.Completions.New(ctx, p)
			if err != nil {
				return tokens{}, err
			}
			text(r.Choices[0].Message.Content)
			return used(r.Usage), nil
		}
		p.StreamOptions.IncludeUsage = openai.Bool(true)
		s := c.Chat.Completions.NewStreaming(ctx, p)
		defer func() { _ = s.Close() }()
		var all openai.ChatCompletionAccumulator
		for s.Next() {
			chunk := s.Current()
			all.AddChunk(chunk)
			for _, c := range chunk.Choices {
				if c.Delta.Content != "" && text(c.Delta.Content) {
					return tokens{}, nil
				}
			}
		}
		return used(all.Usage), s.Err()
	}
}

func responsesTalk(c openai.Client) talk {
	used := func(u responses.ResponseUsage) tokens {
		return tokens{int(u.InputTokens), int(u.InputTokensDetails.CachedTokens), int(u.OutputTokens)}
	}
	return func(ctx context.Context, o order, text func(string) bool) (tokens, error) {
		p := responses.ResponseNewParams{
			Model: o.model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(o.prompt)},
			MaxOutputTokens: openai.Int(o.most), Temperature: openai.Float(0),
		}
		if o.formed {
			p.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{Name: "ticket", Strict: openai.Bool(true), Schema: o.schema()}
		}
		if !o.stream {
			r, err := c.Responses.New(ctx, p)
			if err != nil {
				return tokens{}, err
			}
			text(r.OutputText())
			return used(r.Usage), nil
		}
		s := c.Responses.NewStreaming(ctx, p)
		defer func() { _ = s.Close() }()
		var last tokens
		for s.Next() {
			switch e := s.Current().AsAny().(type) {
			case responses.ResponseTextDeltaEvent:
				if text(e.Delta) {
					return tokens{}, nil
				}
			case responses.ResponseCompletedEvent:
				last = used(e.Response.Usage)
			case responses.ResponseIncompleteEvent:
				last = used(e.Response.Usage)
			}
		}
		return last, s.Err()
	}
}

func anthropicTalk(c anthropic.Client) talk {
	used := func(u anthropic.Usage) tokens {
		return tokens{int(u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens), int(u.CacheReadInputTokens), int(u.OutputTokens)}
	}
	return func(ctx context.Context, o order, text func(string) bool) (tokens, error) {
		p := anthropic.MessageNewParams{
			Model: o.model, MaxTokens: o.most, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(o.prompt))},
		}
		if o.formed {
			p.OutputConfig.Format = anthropic.JSONOutputFormatParam{Schema: o.schema()}
		}
		if !o.stream {
			r, err := c.Messages.New(ctx, p)
			if err != nil {
				return tokens{}, err
			}
			for _, b := range r.Content {
				text(b.Text)
			}
			return used(r.Usage), nil
		}
		s := c.Messages.NewStreaming(ctx, p)
		defer func() { _ = s.Close() }()
		var all anthropic.Message
		for s.Next() {
			e := s.Current()
			if err := all.Accumulate(e); err != nil {
				return tokens{}, err
			}
			if e.Delta.Text != "" && text(e.Delta.Text) {
				return tokens{}, nil
			}
		}
		return used(all.Usage), s.Err()
	}
}

func geminiTalk(c *genai.Client) talk {
	used := func(u *genai.GenerateContentResponseUsageMetadata) tokens {
		if u == nil {
			return tokens{}
		}
		return tokens{int(u.PromptTokenCount), int(u.CachedContentTokenCount), int(u.CandidatesTokenCount + u.ThoughtsTokenCount)}
	}
	return func(ctx context.Context, o order, text func(string) bool) (tokens, error) {
		config := &genai.GenerateContentConfig{MaxOutputTokens: int32(o.most), Temperature: genai.Ptr[float32](0)}
		if o.formed {
			config.ResponseMIMEType, config.ResponseJsonSchema = "application/json", o.schema()
		}
		if !o.stream {
			r, err := c.Models.GenerateContent(ctx, o.model, genai.Text(o.prompt), config)
			if err != nil {
				return tokens{}, err
			}
			text(r.Text())
			return used(r.UsageMetadata), nil
		}
		var last tokens
		for r, err := range c.Models.GenerateContentStream(ctx, o.model, genai.Text(o.prompt), config) {
			if err != nil {
				return tokens{}, err
			}
			if piece := r.Text(); piece != "" && text(piece) {
				return tokens{}, nil
			}
			if r.UsageMetadata != nil {
				last = used(r.UsageMetadata)
			}
		}
		return last, nil
	}
}

// talkOn is one client of an SDK for Go, until the time is up.
func talkOn(until time.Time, name string, number int, ask talk, tell func(said)) {
	dice := rand.New(rand.NewPCG(uint64(len(name)), uint64(number)))
	for n := 1; time.Now().Before(until); n++ {
		o := roll(dice, fmt.Sprintf("go-%s-%d-%d", name, number, n))
		tell(answer(o, ask))
	}
}

// answer is what came of an order. A client that leaves does so after its first piece
// of text.
func answer(o order, ask talk) said {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	s := said{Nonce: o.nonce, Model: o.model, Stream: o.stream, Formed: o.formed}
	used, err := ask(ctx, o, func(piece string) bool {
		s.Text += piece
		s.Left = o.leaves
		return o.leaves
	})
	if s.tokens = used; err != nil {
		s.Error = fmt.Sprintf("%T: %v", err, err)
	}
	return s
}

// parseSaid reads a line of a client in another language.
func parseSaid(line []byte) (said, error) {
	var s said
	return s, json.Unmarshal(line, &s)
}

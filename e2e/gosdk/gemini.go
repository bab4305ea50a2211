package gosdk

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genai"
)

// Gemini is Google's SDK with the Gemini API.
func Gemini(ctx context.Context, o Options) (*SDK, error) {
	c, err := genai.NewClient(ctx, &genai.ClientConfig{
		APIKey: o.Key, Backend: genai.BackendGeminiAPI, HTTPClient: o.HTTP, HTTPOptions: genai.HTTPOptions{BaseURL: o.BaseURL},
	})
	if err != nil {
		return nil, err
	}
	return &SDK{
		Dialect: "gemini", Failure: geminiFailure,
		Models: func(ctx context.Context) ([]string, bool, error) { return geminiModels(ctx, c) },
		Ask: func(ctx context.Context, r Request) (Answer, error) {
			history, parts, err := geminiContents(r)
			if err != nil {
				return Answer{}, err
			}
			if r.Stream {
				return streamGemini(ctx, c, r, history, parts)
			}
			response, err := c.Models.GenerateContent(ctx, r.Model, append(history, genai.NewContentFromParts(parts, genai.RoleUser)), geminiConfig(r))
			if err != nil {
				return Answer{}, err
			}
			var t geminiTurn
			t.add(response)
			return t.answer(), nil
		},
	}, nil
}

func geminiConfig(r Request) *genai.GenerateContentConfig {
	c := &genai.GenerateContentConfig{MaxOutputTokens: int32(r.MaxTokens), StopSequences: r.Stop}
	if r.System != "" {
		c.SystemInstruction = genai.NewContentFromText(r.System, genai.RoleUser)
	}
	if r.Fixed {
		c.Temperature, c.Seed = genai.Ptr[float32](0), genai.Ptr[int32](Seed)
	}
	switch schema := r.Schema.(type) {
	case nil:
	case *genai.Schema: // the older form, whose types are in upper case
		c.ResponseMIMEType, c.ResponseSchema = "application/json", schema
	default:
		c.ResponseMIMEType, c.ResponseJsonSchema = "application/json", schema
	}
	if r.Logprobs {
		c.ResponseLogprobs, c.Logprobs = true, genai.Ptr[int32](2)
	}
	if r.Thinking {
		c.ThinkingConfig = &genai.ThinkingConfig{IncludeThoughts: true, ThinkingLevel: genai.ThinkingLevelLow}
	}
	if r.Tool != "" {
		c.Tools = []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{
			{Name: r.Tool, Description: ToolDescription, ParametersJsonSchema: CitySchema()},
		}}}
	}
	if r.ForceTool {
		c.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeAny}}
	}
	return c
}

// geminiContents returns the earlier turns and the parts of the last.
func geminiContents(r Request) (history []*genai.Content, parts []*genai.Part, err error) {
	parts = []*genai.Part{genai.NewPartFromText(r.Prompt)}
	if r.Image != "" {
		data, err := base64.StdEncoding.DecodeString(r.Image)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, genai.NewPartFromBytes(data, "image/png"))
	}
	if r.After == nil {
		return nil, parts, nil
	}
	history = []*genai.Content{genai.NewContentFromParts(parts, genai.RoleUser), genai.NewContentFromParts(r.After.echo.([]*genai.Part), genai.RoleModel)}
	parts = nil
	for i, text := range r.Results {
		var result map[string]any
		if err := json.Unmarshal([]byte(text), &result); err != nil {
			return nil, nil, err
		}
		call := r.After.Calls[i]
		parts = append(parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: call.ID, Name: call.Name, Response: result}})
	}
	return history, parts, nil
}

// streamGemini reads a stream. The first turn of a conversation uses a chat, which is the
// SDK's accumulator: it has to keep the text.
func streamGemini(ctx context.Context, c *genai.Client, r Request, history []*genai.Content, parts []*genai.Part) (Answer, error) {
	chat, err := c.Chats.Create(ctx, r.Model, geminiConfig(r), nil)
	if err != nil {
		return Answer{}, err
	}
	events := chat.SendStream(ctx, parts...)
	if history != nil { // a chat changes the turns that it is given
		events = c.Models.GenerateContentStream(ctx, r.Model, append(history, genai.NewContentFromParts(parts, genai.RoleUser)), geminiConfig(r))
	}
	var t geminiTurn
	for response, err := range events {
		if err != nil {
			return Answer{}, err
		}
		for _, piece := range t.add(response) {
			if r.piece(piece) {
				return Answer{}, nil
			}
		}
	}
	if history != nil {
		return t.answer(), nil
	}
	kept := ""
	for _, content := range chat.History(false) {
		for _, p := range content.Parts {
			if content.Role == genai.RoleModel && !p.Thought {
				kept += p.Text
			}
		}
	}
	if kept != t.Text {
		return Answer{}, fmt.Errorf("the chat has kept %q of %q", kept, t.Text)
	}
	return t.answer(), nil
}

// geminiTurn collects the events of a stream, or all of a response.
type geminiTurn struct {
	Answer
	parts []*genai.Part
}

// add adds an event and returns its pieces of text.
func (t *geminiTurn) add(r *genai.GenerateContentResponse) (pieces []string) {
	for _, c := range r.Candidates {
		if c.FinishReason != "" {
			t.Finish = string(c.FinishReason)
		}
		if c.LogprobsResult != nil {
			for i, l := range c.LogprobsResult.ChosenCandidates {
				t.Logprobs = append(t.Logprobs, Logprob{l.Token, l.LogProbability, len(c.LogprobsResult.TopCandidates[i].Candidates)})
			}
		}
		if c.Content == nil {
			continue
		}
		for _, p := range c.Content.Parts {
			if p.Text == "" && p.FunctionCall == nil && p.ThoughtSignature == nil {
				continue // the SDK writes an empty text as a part without members, which the vendor refuses
			}
			t.parts = append(t.parts, p)
			switch {
			case p.FunctionCall != nil:
				args, err := json.Marshal(p.FunctionCall.Args)
				if err != nil {
					panic(err) // it was JSON before
				}
				t.Calls = append(t.Calls, Call{p.FunctionCall.ID, p.FunctionCall.Name, string(args)})
			case p.Thought:
				t.Thought += p.Text
			case p.Text != "":
				t.Text += p.Text
				pieces = append(pieces, p.Text)
			}
		}
	}
	if u := r.UsageMetadata; u != nil {
		t.Usage = Usage{int(u.PromptTokenCount), int(u.CachedContentTokenCount), int(u.CandidatesTokenCount + u.ThoughtsTokenCount), int(u.ThoughtsTokenCount), int(u.TotalTokenCount)}
	}
	return pieces
}

func (t *geminiTurn) answer() Answer {
	t.echo = t.parts
	return t.Answer
}

func geminiFailure(err error) *Failure {
	var e genai.APIError
	if !errors.As(err, &e) {
		return nil
	}
	delay := ""
	for _, d := range e.Details {
		text, _ := d["retryDelay"].(string)
		delay += strings.TrimSuffix(text, "s")
	}
	return &Failure{Class(e), e.Code, e.Message, delay}
}

func geminiModels(ctx context.Context, c *genai.Client) (ids []string, typed bool, err error) {
	typed = true
	for m, err := range c.Models.All(ctx) {
		if err != nil {
			return nil, false, err
		}
		ids = append(ids, strings.TrimPrefix(m.Name, "models/"))
		typed = typed && m.DisplayName != "" && slices.Contains(m.SupportedActions, "generateContent")
	}
	slices.Sort(ids)
	return ids, typed, nil
}

package sdks

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"google.golang.org/genai"
)

// goGenAI are the features of Google's SDK for Go.
func goGenAI() goFeatures {
	return goFeatures{
		"gemini/text": genText, "gemini/stream": genStream, "gemini/tools": genTools, "gemini/parallel": genParallel, "gemini/sealed": genSealed, "gemini/structured": genStructured,
		"gemini/image": genImage, "gemini/reasoning": genReasoning, "gemini/usage": genUsage, "gemini/error_404": genProblem,
		"gemini/error_unknown": genProblem, "gemini/error_429": genProblem, "gemini/cut": genCut, "gemini/cancel": genCancel, "gemini/models": genModels,
	}
}

func (a goAsk) genai(ctx context.Context) (*genai.Client, error) {
	return genai.NewClient(ctx, &genai.ClientConfig{
		APIKey: a.Key, Backend: genai.BackendGeminiAPI, HTTPClient: a.http, HTTPOptions: genai.HTTPOptions{BaseURL: a.BaseURL},
	})
}

func genConfig() *genai.GenerateContentConfig {
	return &genai.GenerateContentConfig{MaxOutputTokens: askMost, SystemInstruction: genai.NewContentFromText(askSystem, genai.RoleUser)}
}

func genThinking() *genai.GenerateContentConfig {
	config := genConfig()
	config.MaxOutputTokens = askMostThinking
	config.ThinkingConfig = &genai.ThinkingConfig{IncludeThoughts: true, ThinkingLevel: genai.ThinkingLevelLow}
	return config
}

// genTurn is one answer's parts, whole or streamed.
type genTurn struct {
	parts  []*genai.Part
	texts  []string
	finish genai.FinishReason
	usage  *genai.GenerateContentResponseUsageMetadata
}

func (t *genTurn) add(r *genai.GenerateContentResponse) {
	for _, c := range r.Candidates {
		if c.FinishReason != "" {
			t.finish = c.FinishReason
		}
		if c.Content == nil {
			continue
		}
		for _, p := range c.Content.Parts {
			t.parts = append(t.parts, p)
			if p.Text != "" && !p.Thought {
				t.texts = append(t.texts, p.Text)
			}
		}
	}
	if r.UsageMetadata != nil {
		t.usage = r.UsageMetadata
	}
}

func (t *genTurn) text() string { return strings.Join(t.texts, "") }

type genComplete func(ctx context.Context, a goAsk, contents []*genai.Content, config *genai.GenerateContentConfig) (*genTurn, error)

func genWhole(ctx context.Context, a goAsk, contents []*genai.Content, config *genai.GenerateContentConfig) (*genTurn, error) {
	t := &genTurn{}
	c, err := a.genai(ctx)
	if err != nil {
		return t, err
	}
	r, err := c.Models.GenerateContent(ctx, a.Model, contents, config)
	if err != nil {
		return t, err
	}
	t.add(r)
	return t, nil
}

func genStreamed(ctx context.Context, a goAsk, contents []*genai.Content, config *genai.GenerateContentConfig) (*genTurn, error) {
	t := &genTurn{}
	c, err := a.genai(ctx)
	if err != nil {
		return t, err
	}
	for r, err := range c.Models.GenerateContentStream(ctx, a.Model, contents, config) {
		if err != nil {
			return t, err
		}
		t.add(r)
	}
	return t, nil
}

func genText(ctx context.Context, a goAsk) (any, error) {
	t, err := genWhole(ctx, a, genai.Text(askHi), genConfig())
	return report{"text": t.text(), "finish": t.finish}, err
}

// genStream uses a chat, which keeps what was streamed: what this SDK has of an
// accumulator.
func genStream(ctx context.Context, a goAsk) (any, error) {
	c, err := a.genai(ctx)
	if err != nil {
		return nil, err
	}
	chat, err := c.Chats.Create(ctx, a.Model, genConfig(), nil)
	if err != nil {
		return nil, err
	}
	var t genTurn
	for r, err := range chat.SendMessageStream(ctx, genai.Part{Text: askHi}) {
		if err != nil {
			return nil, err
		}
		t.add(r)
	}
	kept := ""
	for _, content := range chat.History(false) {
		for _, p := range content.Parts {
			if content.Role == genai.RoleModel {
				kept += p.Text
			}
		}
	}
	return report{"deltas": t.texts, "text": kept, "finish": t.finish}, nil
}

func genTools(ctx context.Context, a goAsk) (any, error) {
	return genTwoRounds(ctx, a, genConfig(), askParis, genWhole)
}

func genSealed(ctx context.Context, a goAsk) (any, error) {
	return wholeAndStream(
		func() (any, error) { return genTwoRounds(ctx, a, genThinking(), askParis, genWhole) },
		func() (any, error) { return genTwoRounds(ctx, a, genThinking(), askParis, genStreamed) })
}

func genParallel(ctx context.Context, a goAsk) (any, error) {
	return genTwoRounds(ctx, a, genConfig(), askBoth, genStreamed)
}

func genTwoRounds(ctx context.Context, a goAsk, config *genai.GenerateContentConfig, question string, complete genComplete) (any, error) {
	config.SystemInstruction = nil
	config.Tools = []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{
		{Name: "get_weather", Description: askDescription, ParametersJsonSchema: citySchema()},
	}}}
	contents := genai.Text(question)
	first, err := complete(ctx, a, contents, config)
	if err != nil {
		return nil, err
	}
	var calls []any
	var results []*genai.Part
	for _, p := range first.parts {
		if call := p.FunctionCall; call != nil {
			args := rig.Compact(call.Args)
			calls = append(calls, callReport(call.Name, args))
			results = append(results, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: call.ID, Name: call.Name, Response: degreesIn(cityOf(args))}})
		}
	}
	contents = append(contents, genai.NewContentFromParts(first.parts, genai.RoleModel), genai.NewContentFromParts(results, genai.RoleUser))
	second, err := complete(ctx, a, contents, config)
	return report{"calls": calls, "finish": []any{first.finish, second.finish}, "text": second.text()}, err
}

// genStructured uses the older form of a schema, whose types are in upper case.
func genStructured(ctx context.Context, a goAsk) (any, error) {
	config := genConfig()
	config.ResponseMIMEType = "application/json"
	config.ResponseSchema = &genai.Schema{
		Type: genai.TypeObject, Required: []string{"name", "age", "tags"}, Properties: map[string]*genai.Schema{
			"name": {Type: genai.TypeString}, "age": {Type: genai.TypeInteger},
			"tags": {Type: genai.TypeArray, Items: &genai.Schema{Type: genai.TypeString}},
		},
	}
	t, err := genWhole(ctx, a, genai.Text(askHi), config)
	if err != nil {
		return nil, err
	}
	return personReport(t.text())
}

func genImage(ctx context.Context, a goAsk) (any, error) {
	data, err := base64.StdEncoding.DecodeString(pixel)
	if err != nil {
		return nil, err
	}
	parts := []*genai.Part{genai.NewPartFromText(askPicture), genai.NewPartFromBytes(data, "image/png")}
	t, err := genWhole(ctx, a, []*genai.Content{genai.NewContentFromParts(parts, genai.RoleUser)}, genConfig())
	return report{"text": t.text()}, err
}

func genReasoning(ctx context.Context, a goAsk) (any, error) {
	return genBoth(ctx, a, genThinking(), func(t *genTurn) any {
		thought := ""
		for _, p := range t.parts {
			if p.Thought {
				thought += p.Text
			}
		}
		return report{"reasoning": thought, "text": t.text()}
	})
}

func genUsage(ctx context.Context, a goAsk) (any, error) {
	return genBoth(ctx, a, genConfig(), func(t *genTurn) any {
		u := t.usage
		if u == nil {
			return nil
		}
		return tokensReport(int64(u.PromptTokenCount), int64(u.CachedContentTokenCount),
			int64(u.CandidatesTokenCount+u.ThoughtsTokenCount), int64(u.ThoughtsTokenCount))
	})
}

// genBoth reports what is made of the whole answer and of the streamed one.
func genBoth(ctx context.Context, a goAsk, config *genai.GenerateContentConfig, of func(*genTurn) any) (any, error) {
	whole, err := genWhole(ctx, a, genai.Text(askHi), config)
	if err != nil {
		return nil, err
	}
	streamed, err := genStreamed(ctx, a, genai.Text(askHi), config)
	return report{"whole": of(whole), "stream": of(streamed)}, err
}

func genProblem(ctx context.Context, a goAsk) (any, error) {
	_, err := genWhole(ctx, a, genai.Text(askHi), genConfig())
	var e genai.APIError
	if !errors.As(err, &e) {
		return report{"error": nil}, err
	}
	delay := ""
	for _, d := range e.Details {
		delay += strings.TrimSuffix(rig.Object(d).Str("retryDelay"), "s")
	}
	return errorReport(className(e), e.Code, e.Message, delay), nil
}

func genCut(ctx context.Context, a goAsk) (any, error) {
	t, err := genStreamed(ctx, a, genai.Text(askHi), genConfig())
	return report{"text": t.text(), "error": className(err)}, nil
}

func genCancel(ctx context.Context, a goAsk) (any, error) {
	c, err := a.genai(ctx)
	if err != nil {
		return nil, err
	}
	for r, err := range c.Models.GenerateContentStream(ctx, a.Model, genai.Text(askHi), genConfig()) {
		if err != nil {
			return nil, err
		}
		return report{"text": r.Text()}, nil
	}
	return report{"text": ""}, nil
}

func genModels(ctx context.Context, a goAsk) (any, error) {
	c, err := a.genai(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	typed := true
	for m, err := range c.Models.All(ctx) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, strings.TrimPrefix(m.Name, "models/"))
		typed = typed && m.DisplayName != "" && slices.Contains(m.SupportedActions, "generateContent")
	}
	slices.Sort(ids)
	return report{"ids": ids, "typed": typed}, nil
}

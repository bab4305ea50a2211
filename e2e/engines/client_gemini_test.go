package engines

import (
	"context"
	"net/http"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"google.golang.org/genai"
)

func newGemini(ctx context.Context, origin string, h *http.Client) (*client, error) {
	sdk, err := genai.NewClient(ctx, &genai.ClientConfig{APIKey: rig.ClientKey, Backend: genai.BackendGeminiAPI, HTTPClient: h, HTTPOptions: genai.HTTPOptions{BaseURL: origin}})
	if err != nil {
		return nil, err
	}
	return &client{dialect: "gemini", ask: func(ctx context.Context, q question) (answer, error) {
		var a answer
		if !q.stream {
			r, err := sdk.Models.GenerateContent(ctx, q.model, genai.Text(q.text), geminiConfig(q))
			if err == nil {
				a.addGemini(q, r)
			}
			return a, err
		}
		for r, err := range sdk.Models.GenerateContentStream(ctx, q.model, genai.Text(q.text), geminiConfig(q)) {
			if err != nil {
				return answer{}, err
			}
			a.addGemini(q, r)
		}
		return a, nil
	}}, nil
}

func geminiConfig(q question) *genai.GenerateContentConfig {
	c := &genai.GenerateContentConfig{
		MaxOutputTokens: int32(q.tokens), Temperature: genai.Ptr[float32](0), Seed: genai.Ptr[int32](seed), StopSequences: q.stop,
	}
	if q.schema != nil {
		c.ResponseMIMEType, c.ResponseJsonSchema = "application/json", q.schema
	}
	if q.logprobs {
		c.ResponseLogprobs, c.Logprobs = true, genai.Ptr[int32](2)
	}
	if q.tool != "" {
		c.Tools = []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: q.tool, ParametersJsonSchema: citySchema()}}}}
	}
	if q.force {
		c.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeAny}}
	}
	return c
}

// addGemini takes one event of a stream, or all of an answer.
func (a *answer) addGemini(q question, r *genai.GenerateContentResponse) {
	for _, c := range r.Candidates {
		if c.FinishReason != "" {
			a.finish = as(map[string]string{"STOP": ended, "MAX_TOKENS": cut}, string(c.FinishReason))
		}
		if c.LogprobsResult != nil {
			for i, l := range c.LogprobsResult.ChosenCandidates {
				a.logprobs = append(a.logprobs, logprob{l.Token, l.LogProbability, len(c.LogprobsResult.TopCandidates[i].Candidates)})
			}
		}
		if c.Content == nil {
			continue
		}
		for _, p := range c.Content.Parts {
			a.text += p.Text
			q.tell(p.Text)
			if p.FunctionCall != nil {
				a.calls = append(a.calls, call(p.FunctionCall.Name, rig.Compact(p.FunctionCall.Args)))
			}
		}
	}
	if len(a.calls) > 0 && a.finish == ended {
		a.finish = called // the dialect has no word of its own for it
	}
	if u := r.UsageMetadata; u != nil {
		a.usage = usage{int(u.PromptTokenCount), int(u.CachedContentTokenCount), int(u.CandidatesTokenCount), int(u.TotalTokenCount)}
	}
}

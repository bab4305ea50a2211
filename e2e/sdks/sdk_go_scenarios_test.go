package sdks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

func goScenarios() map[string]goPlay {
	return map[string]goPlay{
		"chat_text":                goChatText,
		"chat_unicode":             goChatUnicode,
		"chat_escapes":             goChatText,
		"chat_alias":               goChatAlias,
		"chat_slashed":             goChatSlashed,
		"chat_gzip":                goChatText,
		"chat_large":               goChatLarge,
		"chat_n2":                  goChatN2,
		"chat_extra_fields":        goChatExtraFields,
		"chat_headers":             goChatHeaders,
		"stream_helper":            goStreamHelper,
		"stream_raw":               rawStream,
		"stream_unicode":           rawStream,
		"stream_framing":           rawStream,
		"stream_no_done":           rawStream,
		"stream_usage":             goStreamUsage,
		"stream_n2":                goStreamN2,
		"tools_whole":              goToolsWhole,
		"tools_stream":             goToolsStream,
		"structured_whole":         goStructuredWhole,
		"structured_stream":        goStructuredStream,
		"structured_refusal":       goStructuredWhole,
		"embeddings":               goEmbeddings(openai.EmbeddingNewParams{}),
		"embeddings_float":         goEmbeddings(openai.EmbeddingNewParams{EncodingFormat: "float", Dimensions: openai.Int(3)}),
		"models_list":              goModelsList,
		"models_retrieve":          goRetrieve("gpt-real"),
		"models_retrieve_slashed":  goRetrieve("vendor/slashed"),
		"error_model_not_found":    goRefusedModel,
		"error_model_retrieve":     goRefusedRetrieve,
		"error_auth":               goRefused,
		"error_media_type":         goRefusedMediaType,
		"error_body_limit":         goRefusedLength,
		"error_bad_request":        goRefusedStop,
		"error_too_large":          goRefused,
		"error_rate_limit":         goRefused,
		"error_rate_limit_stream":  goRefusedStream,
		"retry_after_rate_limit":   goRetry,
		"error_server":             goRefused,
		"error_provider_key":       goRefused,
		"error_not_json":           goRefused,
		"cut_stream":               rawStream,
		"cut_stream_clean":         rawStream,
		"cut_stream_helper":        goCutHelper,
		"cut_tool_call":            goCutHelper,
		"cut_whole":                goCutWhole,
		"stream_error_event":       rawStream,
		"stream_error_event_late":  rawStream,
		"stream_error_event_first": rawStream,
		"cancel_stream":            goCancelStream,
		"cancel_waiting":           goCancelWaiting,
		"cancel_whole":             goCancelWhole,
	}
}

func goChatText(ctx context.Context, c openai.Client) (any, error) {
	p := ask()
	p.Temperature, p.MaxCompletionTokens, p.Seed = openai.Float(0.2), openai.Int(64), openai.Int(7)
	return chat(ctx, c, p)
}

func goChatUnicode(ctx context.Context, c openai.Client) (any, error) {
	p := ask()
	p.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage(unicodeText)}
	return chat(ctx, c, p)
}

func goChatAlias(ctx context.Context, c openai.Client) (any, error) {
	p := ask()
	p.Model, p.User = "alias", openai.String("alias")
	return chat(ctx, c, p)
}

func goChatSlashed(ctx context.Context, c openai.Client) (any, error) {
	p := ask()
	p.Model = "vendor/slashed"
	return chat(ctx, c, p)
}

func askAtLength(mebibytes int) openai.ChatCompletionNewParams {
	p := ask()
	p.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage(strings.Repeat("0123456789abcdef", mebibytes<<16))}
	return p
}

func goChatLarge(ctx context.Context, c openai.Client) (any, error) {
	a, err := c.Chat.Completions.New(ctx, askAtLength(4))
	if err != nil {
		return nil, err
	}
	return report{"length": len(a.Choices[0].Message.Content)}, nil
}

func goChatN2(ctx context.Context, c openai.Client) (any, error) {
	p := ask()
	p.N = openai.Int(2)
	a, err := c.Chat.Completions.New(ctx, p)
	if err != nil {
		return nil, err
	}
	return choicesOf(*a), nil
}

func goChatExtraFields(ctx context.Context, c openai.Client) (any, error) {
	p := ask()
	p.SetExtraFields(map[string]any{"top_k": 7, "vendor_hint": map[string]any{"depth": 1.5, "none": nil, "tags": []any{}}})
	a, err := c.Chat.Completions.New(ctx, p)
	if err != nil {
		return nil, err
	}
	m := a.Choices[0].Message
	return report{
		"content":           m.Content,
		"reasoning_content": json.RawMessage(m.JSON.ExtraFields["reasoning_content"].Raw()),
		"timings":           json.RawMessage(a.JSON.ExtraFields["timings"].Raw()),
	}, nil
}

func goChatHeaders(ctx context.Context, c openai.Client) (any, error) {
	var res *http.Response
	a, err := c.Chat.Completions.New(ctx, ask(), option.WithResponseInto(&res))
	if err != nil {
		return nil, err
	}
	return report{
		"content":   a.Choices[0].Message.Content,
		"remaining": res.Header.Get("X-Ratelimit-Remaining-Requests"),
		"reset":     res.Header.Get("X-Ratelimit-Reset-Tokens"),
	}, nil
}

func goStreamHelper(ctx context.Context, c openai.Client) (any, error) {
	var deltas []string
	a, err := accumulate(ctx, c, ask(), func(chunk openai.ChatCompletionChunk) {
		if s := chunk.Choices[0].Delta.Content; s != "" {
			deltas = append(deltas, s)
		}
	})
	if err != nil {
		return nil, err
	}
	x := a.Choices[0]
	return report{"id": a.ID, "model": a.Model, "deltas": deltas, "content": x.Message.Content, "finish": x.FinishReason}, nil
}

func goStreamUsage(ctx context.Context, c openai.Client) (any, error) {
	p := ask()
	p.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	bare := 0
	a, err := accumulate(ctx, c, p, func(chunk openai.ChatCompletionChunk) {
		if len(chunk.Choices) == 0 {
			bare++
		}
	})
	if err != nil {
		return nil, err
	}
	return report{"content": a.Choices[0].Message.Content, "usage": usageOf(a.Usage), "chunks_without_choices": bare}, nil
}

func goStreamN2(ctx context.Context, c openai.Client) (any, error) {
	p := ask()
	p.N = openai.Int(2)
	a, err := accumulate(ctx, c, p, nil)
	if err != nil {
		return nil, err
	}
	return choicesOf(a), nil
}

func goCutHelper(ctx context.Context, c openai.Client) (any, error) {
	p := ask()
	p.Tools = weatherTools()
	a, err := accumulate(ctx, c, p, nil)
	if err != nil {
		return report{"content": nil, "error": failure(err)}, nil
	}
	return report{"content": a.Choices[0].Message.Content, "error": nil}, nil
}

func goCutWhole(ctx context.Context, c openai.Client) (any, error) {
	a, err := c.Chat.Completions.New(ctx, ask())
	if err != nil {
		return report{"content": nil, "error": failure(err)}, nil
	}
	return report{"content": a.Choices[0].Message.Content, "error": nil}, nil
}

func weatherTools() []openai.ChatCompletionToolUnionParam {
	return []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "get_weather", Description: openai.String("The weather of a city."), Strict: openai.Bool(true),
		Parameters: shared.FunctionParameters{
			"type":       "object",
			"properties": map[string]any{"city": map[string]any{"type": "string"}},
			"required":   []string{"city"}, "additionalProperties": false,
		},
	})}
}

func goToolsWhole(ctx context.Context, c openai.Client) (any, error) {
	return goTools(func(p openai.ChatCompletionNewParams) (*openai.ChatCompletion, error) {
		return c.Chat.Completions.New(ctx, p)
	})
}

func goToolsStream(ctx context.Context, c openai.Client) (any, error) {
	return goTools(func(p openai.ChatCompletionNewParams) (*openai.ChatCompletion, error) {
		a, err := accumulate(ctx, c, p, nil)
		return &a, err
	})
}

// goTools is the model's calls, their results, and the answer.
func goTools(complete func(openai.ChatCompletionNewParams) (*openai.ChatCompletion, error)) (any, error) {
	p := ask()
	p.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage("How warm is it in Paris and in Köln?")}
	p.Tools = weatherTools()
	first, err := complete(p)
	if err != nil {
		return nil, err
	}
	p.Messages = append(p.Messages, first.Choices[0].Message.ToParam())
	var calls []any
	for _, call := range first.Choices[0].Message.ToolCalls {
		calls = append(calls, report{"id": call.ID, "name": call.Function.Name, "arguments": call.Function.Arguments})
		var args struct{ City string }
		if err := json.Unmarshal([]byte(call.Function.Arguments), &args); err != nil {
			return nil, err
		}
		degrees := map[bool]string{true: `{"degrees": 21}`, false: `{"degrees": 22}`}[args.City == "Paris"]
		p.Messages = append(p.Messages, openai.ToolMessage(degrees, call.ID))
	}
	second, err := complete(p)
	if err != nil {
		return nil, err
	}
	return report{
		"calls":   calls,
		"finish":  []string{first.Choices[0].FinishReason, second.Choices[0].FinishReason},
		"content": second.Choices[0].Message.Content,
	}, nil
}

func askPerson() openai.ChatCompletionNewParams {
	p := ask()
	p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
		Name: "person", Strict: openai.Bool(true),
		Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},` +
			`"tags":{"type":"array","items":{"type":"string"}}},"required":["name","age","tags"],"additionalProperties":false}`),
	}}
	return p
}

func parsedPerson(m openai.ChatCompletionMessage) (any, error) {
	if m.Refusal != "" {
		return report{"parsed": nil, "refusal": m.Refusal}, nil
	}
	var person struct {
		Name string   `json:"name"`
		Age  int      `json:"age"`
		Tags []string `json:"tags"`
	}
	err := json.Unmarshal([]byte(m.Content), &person)
	return report{"parsed": person, "refusal": m.Refusal}, err
}

func goStructuredWhole(ctx context.Context, c openai.Client) (any, error) {
	a, err := c.Chat.Completions.New(ctx, askPerson())
	if err != nil {
		return nil, err
	}
	return parsedPerson(a.Choices[0].Message)
}

func goStructuredStream(ctx context.Context, c openai.Client) (any, error) {
	a, err := accumulate(ctx, c, askPerson(), nil)
	if err != nil {
		return nil, err
	}
	return parsedPerson(a.Choices[0].Message)
}

func goEmbeddings(p openai.EmbeddingNewParams) goPlay {
	p.Model, p.Input.OfArrayOfStrings = "embed", []string{"eins", "zwei ✓"}
	return func(ctx context.Context, c openai.Client) (any, error) {
		r, err := c.Embeddings.New(ctx, p)
		if err != nil {
			return nil, err
		}
		var vectors [][]float64
		for _, d := range r.Data {
			vectors = append(vectors, d.Embedding)
		}
		return report{"vectors": vectors, "usage": report{"prompt": r.Usage.PromptTokens, "total": r.Usage.TotalTokens}, "model": r.Model}, nil
	}
}

func goModelsList(ctx context.Context, c openai.Client) (any, error) {
	var ids []string
	all := c.Models.ListAutoPaging(ctx)
	for all.Next() {
		ids = append(ids, all.Current().ID)
	}
	slices.Sort(ids)
	return report{"ids": ids}, all.Err()
}

func goRetrieve(model string) goPlay {
	return func(ctx context.Context, c openai.Client) (any, error) {
		m, err := c.Models.Get(ctx, model)
		if err != nil {
			return nil, err
		}
		return report{"id": m.ID, "object": m.Object, "owned_by": m.OwnedBy}, nil
	}
}

func goRefused(ctx context.Context, c openai.Client) (any, error) {
	_, err := c.Chat.Completions.New(ctx, ask())
	return statusReport(err)
}

func goRefusedModel(ctx context.Context, c openai.Client) (any, error) {
	p := ask()
	p.Model = "no-such-model"
	_, err := c.Chat.Completions.New(ctx, p)
	return statusReport(err)
}

func goRefusedRetrieve(ctx context.Context, c openai.Client) (any, error) {
	_, err := c.Models.Get(ctx, "no-such/model")
	return statusReport(err)
}

func goRefusedMediaType(ctx context.Context, c openai.Client) (any, error) {
	_, err := c.Chat.Completions.New(ctx, ask(), option.WithHeader("Content-Type", "text/plain"))
	return statusReport(err)
}

func goRefusedLength(ctx context.Context, c openai.Client) (any, error) {
	_, err := c.Chat.Completions.New(ctx, askAtLength(12))
	return statusReport(err)
}

func goRefusedStop(ctx context.Context, c openai.Client) (any, error) {
	p := ask()
	p.Stop.OfStringArray = strings.Split("abcdefghi", "")
	_, err := c.Chat.Completions.New(ctx, p)
	return statusReport(err)
}

func goRefusedStream(ctx context.Context, c openai.Client) (any, error) {
	_, err := accumulate(ctx, c, ask(), nil)
	return statusReport(err)
}

func goRetry(ctx context.Context, c openai.Client) (any, error) {
	return chat(ctx, c, ask(), option.WithMaxRetries(1))
}

func goCancelStream(ctx context.Context, c openai.Client) (any, error) {
	s := c.Chat.Completions.NewStreaming(ctx, ask())
	var chunks []string
	for len(chunks) < 2 && s.Next() {
		chunks = append(chunks, s.Current().Choices[0].Delta.Content)
	}
	return report{"chunks": chunks}, errors.Join(s.Err(), s.Close())
}

func goCancelWaiting(ctx context.Context, c openai.Client) (any, error) {
	_, err := accumulate(ctx, c, ask(), nil)
	return report{"cancelled": errors.Is(err, context.Canceled)}, nil
}

func goCancelWhole(ctx context.Context, c openai.Client) (any, error) {
	_, err := c.Chat.Completions.New(ctx, ask())
	return report{"cancelled": errors.Is(err, context.Canceled)}, nil
}

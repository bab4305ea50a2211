package openai

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Models reads a model list in OpenAI's form, with the additional members of other servers.
func Models() *codec.ModelSource {
	return &codec.ModelSource{Path: "/v1/models", Read: readModels}
}

func readModels(body []byte) ([]codec.Model, error) {
	entries, err := codec.ReadModelList(body, "data")
	if err != nil {
		return nil, err
	}
	list := make([]codec.Model, 0, len(entries))
	for _, e := range entries {
		m := codec.Model{ID: e.Text("id"), Name: e.Text("name"), OwnedBy: e.Text("owned_by"),
			Context:   e.Int("context_window", "context_length", "max_context_length", "max_model_len"), // Groq; OpenRouter and Together; Mistral; vLLM and SGLang
			MaxOutput: e.Int("max_output_tokens", "max_completion_tokens"),
			Shutdown:  e.Time("shutdown_date")}
		if n := e.Int("created"); n > 0 {
			m.Created = time.Unix(n, 0)
		}
		if m.MaxOutput == 0 {
			m.MaxOutput = e.Object("top_provider").Int("max_completion_tokens")
		}
		if m.Context == 0 {
			m.Context = e.Object("meta").Int("n_ctx", "n_ctx_train") // llama.cpp
		}
		price := e.Object("pricing") // OpenRouter: dollars per token, as text
		m.Price = codec.Price{Input: perToken(price, "prompt"), Output: perToken(price, "completion"), CacheRead: perToken(price, "input_cache_read"), CacheWrite: perToken(price, "input_cache_write")}
		m.Capabilities = capabilities(e)
		list = append(list, m)
	}
	return list, nil
}

// perToken returns a price, or "" if it is not a number.
func perToken(e codec.ModelEntry, name string) string {
	text := e.Text(name)
	if r, ok := new(big.Rat).SetString(text); !ok || len(text) > 32 || strings.ContainsAny(text, "eE/_x") || r.Sign() < 0 {
		return ""
	}
	return text
}

// capabilities reads what OpenRouter and Mistral say of a model.
func capabilities(e codec.ModelEntry) (list []codec.Capability) {
	in := e.Object("architecture").Strings("input_modalities")
	parameters := e.Strings("supported_parameters")
	own := e.Object("capabilities")
	for _, c := range []struct {
		name codec.Capability
		has  bool
	}{
		{codec.ImageInput, slices.Contains(in, "image") || own.True("vision")},
		{codec.PDFInput, slices.Contains(in, "file")},
		{codec.AudioInput, slices.Contains(in, "audio")},
		{codec.Tools, slices.Contains(parameters, "tools") || own.True("function_calling")},
		{codec.StructuredOutputs, slices.Contains(parameters, "structured_outputs")},
		{codec.Thinking, slices.Contains(parameters, "reasoning")},
	} {
		if c.has {
			list = append(list, c.name)
		}
	}
	return list
}

// ListModels writes a list of models.
func ListModels(models []codec.Model) []byte {
	b := []byte(`{"object":"list","data":[`)
	for i, m := range models {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, ListedModel(m)...)
	}
	return append(b, "]}"...)
}

// ListedModel writes an entry of the list.
func ListedModel(m codec.Model) []byte {
	b := wire.AppendQuote([]byte(`{"id":`), m.ID)
	b = strconv.AppendInt(append(b, `,"object":"model","created":`...), m.Created.Unix(), 10)
	b = wire.AppendQuote(append(b, `,"owned_by":`...), m.OwnedBy)
	if !m.Shutdown.IsZero() {
		b = wire.AppendQuote(append(b, `,"shutdown_date":`...), m.Shutdown.UTC().Format(time.DateOnly))
	}
	return append(appendDetails(b, m), '}')
}

// appendDetails writes details for which OpenAI's list has no members. It uses those of Groq
// and OpenRouter, which clients know.
func appendDetails(b []byte, m codec.Model) []byte {
	if m.Context > 0 {
		b = strconv.AppendInt(append(b, `,"context_window":`...), m.Context, 10)
		b = strconv.AppendInt(append(b, `,"context_length":`...), m.Context, 10)
	}
	if m.MaxOutput > 0 {
		b = strconv.AppendInt(append(b, `,"max_output_tokens":`...), m.MaxOutput, 10)
	}
	for i, c := range m.Capabilities {
		b = append(b, ',')
		if i == 0 {
			b = append(b, `"capabilities":[`...)
		}
		b = wire.AppendQuote(b, string(c))
		if i == len(m.Capabilities)-1 {
			b = append(b, ']')
		}
	}
	if m.Price.Input == "" || m.Price.Output == "" {
		return b
	}
	b = wire.AppendQuote(append(b, `,"pricing":{"prompt":`...), m.Price.Input)
	b = wire.AppendQuote(append(b, `,"completion":`...), m.Price.Output)
	if m.Price.CacheRead != "" {
		b = wire.AppendQuote(append(b, `,"input_cache_read":`...), m.Price.CacheRead)
	}
	if m.Price.CacheWrite != "" {
		b = wire.AppendQuote(append(b, `,"input_cache_write":`...), m.Price.CacheWrite)
	}
	return append(b, '}')
}

// modelPaths are the places of OpenRouter, LiteLLM, Vercel's gateway and OpenAI's own tools.
var modelPaths = []string{"models", "fallbacks", "contextWindowFallbacks", "contentPolicyFallbacks", "fallbackModels", "extraBody.model", "extraBody.models", "extraBody.fallbacks",
	"plugins[].model", "plugins[].models", "plugins[].allowedModels", "tools[].model", "tools[].parameters.model",
	"providerOptions.gateway.model", "providerOptions.gateway.models"}

// FindModels returns the models that a request names beside its own. It looks at the places
// that Chat and Responses share, and at further ones.
func FindModels(body *wire.Index, more ...string) []codec.InnerModel {
	return append(codec.FindModels(body, modelPaths...), codec.FindModels(body, more...)...)
}

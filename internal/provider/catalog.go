package provider

import (
	"net/url"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// Preset is one row of the catalogue: the built-in settings of a vendor or an engine.
type Preset struct {
	Name           string // name in the configuration
	Title          string // name in texts
	Protocol       protocol.Name
	BaseURL        string // empty if every account has its own
	EnvKey         string // environment variable from which the vendor's SDK reads the key
	Auth           Auth
	UpstreamStream StreamMode
	Extensions     Extensions
	CacheSalt      CacheSalt // empty: none
	Quirks         []Quirk
	Local          bool   // an engine that operators run themselves: a key is optional
	HealthPath     string // path of the engine's health endpoint
	Metrics        bool   // the engine reports its queue or its KV cache at /metrics
	Continuation   Continuation
	Docs           string // URL of the API reference
}

// Catalog lists the presets: vendors first, then engines.
func Catalog() []Preset {
	return []Preset{
		{Name: "openai", Title: "OpenAI", Protocol: protocol.OpenAIChat, BaseURL: "https://api.openai.com/v1",
			EnvKey: "OPENAI_API_KEY", Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Docs: "https://platform.openai.com/docs/api-reference"},
		{Name: "anthropic", Title: "Anthropic", Protocol: protocol.Anthropic, BaseURL: "https://api.anthropic.com",
			EnvKey: "ANTHROPIC_API_KEY", Auth: XAPIKey, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Continuation: ContinueTrailing,
			Docs:         "https://docs.anthropic.com/en/api"},
		{Name: "gemini", Title: "Google Gemini", Protocol: protocol.Gemini, BaseURL: "https://generativelanguage.googleapis.com",
			EnvKey: "GEMINI_API_KEY", Auth: XGoogKey, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Docs: "https://ai.google.dev/api"},
		// The address contains the resource name, so base_url is required:
		// https://R.openai.azure.com/openai/v1 or
		// https://R.openai.azure.com/openai/deployments/D?api-version=V.
		{Name: "azure", Title: "Azure OpenAI", Protocol: protocol.OpenAIChat,
			EnvKey: "AZURE_OPENAI_API_KEY", Auth: APIKey, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Docs: "https://learn.microsoft.com/azure/ai-services/openai/reference"},
		{Name: "deepseek", Title: "DeepSeek", Protocol: protocol.OpenAIChat, BaseURL: "https://api.deepseek.com/v1",
			EnvKey: "DEEPSEEK_API_KEY", Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Quirks: []Quirk{RenameField("max_completion_tokens", "max_tokens")},
			Docs:   "https://api-docs.deepseek.com"},
		{Name: "mistral", Title: "Mistral", Protocol: protocol.OpenAIChat, BaseURL: "https://api.mistral.ai/v1",
			EnvKey: "MISTRAL_API_KEY", Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Quirks:       []Quirk{RenameField("max_completion_tokens", "max_tokens")},
			Continuation: ContinuePrefix,
			Docs:         "https://docs.mistral.ai/api"},
		{Name: "groq", Title: "Groq", Protocol: protocol.OpenAIChat, BaseURL: "https://api.groq.com/openai/v1",
			EnvKey: "GROQ_API_KEY", Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Docs: "https://console.groq.com/docs/api-reference"},
		{Name: "together", Title: "Together AI", Protocol: protocol.OpenAIChat, BaseURL: "https://api.together.xyz/v1",
			EnvKey: "TOGETHER_API_KEY", Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Docs: "https://docs.together.ai/reference"},
		{Name: "openrouter", Title: "OpenRouter", Protocol: protocol.OpenAIChat, BaseURL: "https://openrouter.ai/api/v1",
			EnvKey: "OPENROUTER_API_KEY", Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Continuation: ContinueTrailing,
			Docs:         "https://openrouter.ai/docs"},
		{Name: "xai", Title: "xAI", Protocol: protocol.OpenAIChat, BaseURL: "https://api.x.ai/v1",
			EnvKey: "XAI_API_KEY", Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Docs: "https://docs.x.ai"},
		{Name: "fireworks", Title: "Fireworks AI", Protocol: protocol.OpenAIChat, BaseURL: "https://api.fireworks.ai/inference/v1",
			EnvKey: "FIREWORKS_API_KEY", Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Docs: "https://docs.fireworks.ai/api-reference"},
		{Name: "cerebras", Title: "Cerebras", Protocol: protocol.OpenAIChat, BaseURL: "https://api.cerebras.ai/v1",
			EnvKey: "CEREBRAS_API_KEY", Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Docs: "https://inference-docs.cerebras.ai"},
		// Perplexity serves Chat Completions on the bare origin, not below /v1. This row
		// uses the Responses API, which it serves below /v1.
		{Name: "perplexity", Title: "Perplexity", Protocol: protocol.OpenAIResponses, BaseURL: "https://api.perplexity.ai/v1",
			EnvKey: "PERPLEXITY_API_KEY", Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Docs: "https://docs.perplexity.ai"},
		{Name: "moonshot", Title: "Moonshot AI", Protocol: protocol.OpenAIChat, BaseURL: "https://api.moonshot.ai/v1",
			EnvKey: "MOONSHOT_API_KEY", Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Docs: "https://platform.moonshot.ai/docs"},

		{Name: "vllm", Title: "vLLM", Protocol: protocol.OpenAIChat, BaseURL: "http://127.0.0.1:8000/v1",
			Auth: Bearer, UpstreamStream: Always, Extensions: RefuseExtensions, CacheSalt: SharedSalt, Local: true,
			HealthPath: "/health", Continuation: ContinueVLLM,
			Metrics: true, Docs: "https://docs.vllm.ai"},
		{Name: "sglang", Title: "SGLang", Protocol: protocol.OpenAIChat, BaseURL: "http://127.0.0.1:30000/v1",
			Auth: Bearer, UpstreamStream: Always, Extensions: RefuseExtensions, Local: true,
			HealthPath: "/health", Continuation: ContinueVLLM,
			Metrics: true, Docs: "https://docs.sglang.ai"},
		// Dynamo reads greed_sampling; its early documentation had greedy_sampling.
		{Name: "dynamo", Title: "NVIDIA Dynamo", Protocol: protocol.OpenAIChat, BaseURL: "http://127.0.0.1:8000/v1",
			Auth: Bearer, UpstreamStream: Always, Extensions: ForwardExtensions, Local: true,
			Quirks:     []Quirk{RenameField("nvext.greedy_sampling", "nvext.greed_sampling")},
			HealthPath: "/health",
			Docs:       "https://docs.nvidia.com/dynamo"},
		{Name: "llamacpp", Title: "llama.cpp", Protocol: protocol.OpenAIChat, BaseURL: "http://127.0.0.1:8080/v1",
			Auth: Bearer, UpstreamStream: Always, Extensions: RefuseExtensions, Local: true,
			HealthPath: "/health", Continuation: ContinueTrailing,
			Metrics: true, Docs: "https://github.com/ggml-org/llama.cpp/tree/master/tools/server"},
		{Name: "ollama", Title: "Ollama", Protocol: protocol.OpenAIChat, BaseURL: "http://127.0.0.1:11434/v1",
			Auth: Bearer, UpstreamStream: Always, Extensions: RefuseExtensions, Local: true,
			Quirks:     []Quirk{RenameField("max_completion_tokens", "max_tokens")}, // otherwise llama.cpp generates without a limit
			HealthPath: "/api/version", Continuation: ContinueTrailing,
			Docs: "https://docs.ollama.com"},
		{Name: "lmstudio", Title: "LM Studio", Protocol: protocol.OpenAIChat, BaseURL: "http://127.0.0.1:1234/v1",
			Auth: Bearer, UpstreamStream: Always, Extensions: RefuseExtensions, Local: true,
			Docs: "https://lmstudio.ai/docs"},
	}
}

// Lookup returns the preset with a name.
func Lookup(name string) (Preset, bool) {
	for _, p := range Catalog() {
		if p.Name == name {
			return p, true
		}
	}
	return Preset{}, false
}

// Custom returns the preset of a provider without a row in the catalogue: a protocol with
// its usual credential scheme and mirrored streams.
func Custom(name protocol.Name) Preset {
	auth := Bearer
	switch name {
	case protocol.Anthropic:
		auth = XAPIKey
	case protocol.Gemini:
		auth = XGoogKey
	default:
	}
	return Preset{Protocol: name, Auth: auth, UpstreamStream: Mirror, Extensions: RefuseExtensions}
}

// Provider builds a provider from the preset, without a key. BaseURL is nil if the preset
// has none.
func (p Preset) Provider(name string) (*Provider, error) {
	var base *url.URL
	if p.BaseURL != "" {
		var err error
		if base, err = ParseBaseURL(p.Protocol, p.BaseURL); err != nil {
			return nil, err
		}
	}
	return &Provider{
		Name:           name,
		Preset:         p.Name,
		Protocol:       p.Protocol,
		BaseURL:        base,
		Auth:           p.Auth,
		UpstreamStream: p.UpstreamStream,
		Extensions:     p.Extensions,
		CacheSalt:      p.CacheSalt,
		Quirks:         p.Quirks,
	}, nil
}

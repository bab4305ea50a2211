package provider

import (
	"cmp"
	"strings"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// Preset is one row of the catalogue: the built-in settings of a vendor or an engine.
type Preset struct {
	Name     string // name in the configuration
	Title    string // name in texts
	Protocol protocol.Name
	BaseURL  string // empty if every account has its own
	// Template is the base URL of a cloud, with {host}, {region} and {project}. Host is the
	// host, and Hosts has those of regions that are exceptions.
	Template       string
	Host           string
	Hosts          map[string]string
	Cloud          CloudName // empty: none
	Envelope       string    // in which the cloud offers the protocol; empty: none
	InProject      bool      // paths of the envelope have the project and the region
	APIVersion     string    // to request; empty: the protocol's own
	EnvKey         string    // environment variable from which the vendor's SDK reads the key
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
		{Name: "azure", Cloud: AzureCloud, Title: "Azure OpenAI", Protocol: protocol.OpenAIChat,
			EnvKey: "AZURE_OPENAI_API_KEY", Auth: APIKey, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Docs: "https://learn.microsoft.com/azure/ai-services/openai/reference"},
		// base_url is required: https://R.services.ai.azure.com/anthropic.
		{Name: "azure-anthropic", Cloud: AzureCloud, Title: "Claude in Microsoft Foundry", Protocol: protocol.Anthropic,
			EnvKey: "ANTHROPIC_FOUNDRY_API_KEY", Auth: XAPIKey, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Continuation: ContinueTrailing,
			Docs:         "https://learn.microsoft.com/azure/ai-foundry/foundry-models/how-to/use-foundry-models-claude"},
		{Name: "vertex", Cloud: GoogleCloud, Title: "Gemini on Vertex AI", Protocol: protocol.Gemini,
			Template: "https://{host}", Host: vertexHost, Hosts: vertexHosts(), Envelope: "vertex", InProject: true,
			Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Docs: "https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference"},
		{Name: "vertex-anthropic", Cloud: GoogleCloud, Title: "Claude on Vertex AI", Protocol: protocol.Anthropic,
			Template: "https://{host}", Host: vertexHost, Hosts: vertexHosts(), Envelope: "vertex", InProject: true,
			Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions, Continuation: ContinueTrailing,
			Docs: "https://docs.anthropic.com/en/api/claude-on-vertex-ai"},
		{Name: "vertex-openai", Cloud: GoogleCloud, Title: "OpenAI-compatible API of Vertex AI", Protocol: protocol.OpenAIChat,
			Template: "https://{host}/v1/projects/{project}/locations/{region}/endpoints/openapi", Host: vertexHost, Hosts: vertexHosts(),
			Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Docs: "https://cloud.google.com/vertex-ai/generative-ai/docs/start/openai"},
		// Bedrock serves the newer version of the protocol for new models only. Requests of it are
		// translated, unless accepted_versions lists it.
		{Name: "bedrock", Cloud: AWSCloud, Title: "Claude on Amazon Bedrock, by InvokeModel", Protocol: protocol.Anthropic,
			Template: "https://{host}", Host: "bedrock-runtime.{region}.amazonaws.com", Envelope: "bedrock", APIVersion: "2023-06-01",
			EnvKey: bedrockKey, Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions, Continuation: ContinueTrailing,
			Docs: "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModel.html"},
		{Name: "bedrock-converse", Cloud: AWSCloud, Title: "Amazon Bedrock, by Converse", Protocol: protocol.Converse,
			Template: "https://{host}", Host: "bedrock-runtime.{region}.amazonaws.com",
			EnvKey: bedrockKey, Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Docs: "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html"},
		{Name: "bedrock-messages", Cloud: AWSCloud, Title: "Claude on Amazon Bedrock, by Messages", Protocol: protocol.Anthropic,
			Template: "https://{host}/anthropic", Host: "bedrock-mantle.{region}.api.aws",
			EnvKey: bedrockKey, Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions, Continuation: ContinueTrailing,
			Docs: "https://docs.anthropic.com/en/api/claude-on-amazon-bedrock"},
		{Name: "bedrock-openai", Cloud: AWSCloud, Title: "OpenAI's API of Amazon Bedrock", Protocol: protocol.OpenAIChat,
			Template: "https://{host}/openai/v1", Host: "bedrock-runtime.{region}.amazonaws.com",
			EnvKey: bedrockKey, Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Docs: "https://docs.aws.amazon.com/bedrock/latest/userguide/inference-chat-completions.html"},
		{Name: "bedrock-mantle", Cloud: AWSCloud, Title: "OpenAI's API of Amazon Bedrock's engine", Protocol: protocol.OpenAIChat,
			Template: "https://{host}/openai/v1", Host: "bedrock-mantle.{region}.api.aws",
			EnvKey: bedrockKey, Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Docs: "https://docs.aws.amazon.com/bedrock/latest/userguide/bedrock-mantle.html"},
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

// bedrockKey is the variable from which AWS's SDKs read a Bedrock API key.
const bedrockKey = "AWS_BEARER_TOKEN_BEDROCK"

// vertexHost is the host of a region of Google Cloud.
const vertexHost = "{region}-aiplatform.googleapis.com"

// vertexHosts returns the hosts of regions that are exceptions.
func vertexHosts() map[string]string {
	return map[string]string{"global": "aiplatform.googleapis.com", "us": "aiplatform.us.rep.googleapis.com", "eu": "aiplatform.eu.rep.googleapis.com"}
}

// URL returns the base URL in a project and a region of a cloud. It is BaseURL if the preset is
// not of a cloud.
func (p Preset) URL(project, region string) string {
	if p.Template == "" {
		return p.BaseURL
	}
	raw := strings.ReplaceAll(p.Template, "{host}", cmp.Or(p.Hosts[region], p.Host))
	return strings.NewReplacer("{region}", region, "{project}", project).Replace(raw)
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

package conform

// SelfConfig has the providers and models of a gateway whose configuration is written for the corpus: one of each for
// each dialect. Its only verb of fmt is the URL of the upstream.
const SelfConfig = `providers:
  chat: { protocol: openai-chat, base_url: "%[1]s/v1", api_key: sk-conform-upstream }
  responses: { protocol: openai-responses, base_url: "%[1]s/v1", api_key: sk-conform-upstream }
  anthropic: { protocol: anthropic, base_url: "%[1]s", api_key: sk-conform-upstream }
  gemini: { protocol: gemini, base_url: "%[1]s", api_key: sk-conform-upstream }
  converse: { protocol: converse, base_url: "%[1]s", api_key: sk-conform-upstream }
models:
  on-chat: { targets: [chat/up] }
  on-responses: { targets: [responses/up] }
  on-anthropic: { targets: [anthropic/up] }
  on-gemini: { targets: [gemini/up] }
  on-converse: { targets: [converse/up] }
  "on-chat/*": { targets: ["chat/*"] }
  "on-responses/*": { targets: ["responses/*"] }
  "on-anthropic/*": { targets: ["anthropic/*"] }
  "on-gemini/*": { targets: ["gemini/*"] }
  "on-converse/*": { targets: ["converse/*"] }
`

// SelfKey is a client's key. A gateway with SelfConfig alone takes any.
const SelfKey = "sk-conform-client-key"

// SelfModels returns the names of the models of SelfConfig.
func SelfModels() map[Dialect]string {
	models := map[Dialect]string{}
	for _, d := range Dialects() {
		models[d] = "on-" + string(d)
	}
	return models
}

// SelfTarget returns a gateway with SelfConfig.
func SelfTarget(baseURL string) Target {
	return Target{BaseURL: baseURL, Key: SelfKey, AnyModel: true, Models: SelfModels()}
}

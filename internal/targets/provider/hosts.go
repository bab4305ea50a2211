package provider

import "strings"

// KnowsCustomTools reports whether a provider accepts custom tools with free text. Only
// OpenAI does; other servers of its dialect reject them.
func (p *Provider) KnowsCustomTools() bool {
	host := p.BaseURL.Hostname()
	return strings.HasSuffix(host, ".openai.com") || strings.HasSuffix(host, ".openai.azure.com")
}

// LimitsCallIDs reports whether a provider of Chat Completions rejects long ids of calls: OpenAI and Azure do. Other
// servers make longer ones themselves, such as vLLM.
func (p *Provider) LimitsCallIDs() bool {
	return p.KnowsCustomTools() || strings.HasSuffix(p.BaseURL.Hostname(), ".azure.com")
}

package main

import (
	"fmt"
	"os"
	"strings"
)

// The canaries that stand in the configuration or in the environment and may stand
// nowhere else.
const (
	providerSecret = "sk-canary-provider-7f3a9c51d2"
	pepperText     = "canary-pepper-0123456789abcdef0123456789abcdef"
	promptCanary   = "canary-prompt-5b1e77"
)

// Prices in dollars for a million tokens, and what that is for one token in
// billionths of a dollar. The cheap ones charge for what is said only, so that a
// budget is a number of words.
const (
	outputPrice   = 10
	inputPrice    = 2
	outputCost    = outputPrice * 1000
	inputCost     = inputPrice * 1000
	worker        = "worker" // a model of discovery
	cheap         = "cheap"  // one upstream, input is free
	dear          = "dear"   // one upstream, input is paid for
	both          = "both"   // two upstreams, the second helps
	impatientTime = "1500ms" // timeouts of the upstreams that fail
)

// settings are what differs between the nodes' configurations.
type settings struct {
	store, redis, etcd string
	more               []string // lines of their own
}

// yaml is the configuration: one for all nodes but for names, ports and folders.
func (g *gateway) yaml(s settings, u *upstream) string {
	provider := func(name, more string) string {
		return fmt.Sprintf("  %s: { protocol: openai-chat, base_url: %q, api_key: %s, include_usage: true%s }", name, u.url(name), providerSecret, more)
	}
	price := func(target string) string {
		return fmt.Sprintf("    %q: { input: %d, output: %d }", target, inputPrice, outputPrice)
	}
	impatient := fmt.Sprintf(", timeouts: { connect: 1s, first_byte: %[1]s, first_token: %[1]s, idle: %[1]s, total: 20s }", impatientTime)
	lines := []string{
		"listen: " + strings.TrimPrefix(g.url, "http://"),
		"admin: { listen: " + strings.TrimPrefix(g.admin, "http://") + " }",
		"node: " + g.name,
		"data: " + g.data,
		fmt.Sprintf("store: { url: %q, peppers: [\"${PEPPER}\"] }", s.store),
		fmt.Sprintf("redis: { url: %q }", s.redis),
		fmt.Sprintf("discover: { etcd: { endpoints: [%q], prefix: /isogloss/ }, networks: [127.0.0.0/8] }", s.etcd),
		"prices:",
		"  unknown: refuse",
		"  models:",
		fmt.Sprintf("    \"cheap/*\": { input: 0, output: %d }", outputPrice),
		price("dear/*"), price("first/*"), price("second/*"), price("discovered/*"),
		"providers:",
		provider("cheap", ""),
		provider("dear", ""),
		provider("first", impatient),
		provider("second", impatient),
		"models:",
		"  cheap: { targets: [cheap/m] }",
		"  dear: { targets: [dear/m] }",
		"  alone: { targets: [first/m] }",
		"  both: { targets: [first/m, second/m] }",
		"timeouts: { connect: 2s, first_byte: 60s, idle: 60s, total: 10m }",
		"overload: { requests: 6000, queue: 3000, wait: 20s }",
		"log: { level: info }",
	}
	return strings.Join(append(lines, s.more...), "\n") + "\n"
}

// configure writes the configuration.
func (g *gateway) configure(s settings, u *upstream) error {
	return os.WriteFile(g.config, []byte(g.yaml(s, u)), 0o600)
}

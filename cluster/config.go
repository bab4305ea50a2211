package main

import (
	"fmt"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// The secrets of the configuration and the environment, which must appear nowhere else.
const (
	providerSecret = "sk-canary-provider-7f3a9c51d2"
	pepperText     = "canary-pepper-0123456789abcdef0123456789abcdef"
	promptCanary   = "canary-prompt-5b1e77"
	errorCanary    = "canary-error-c40a92" // of an upstream
)

// Prices in dollars for a million tokens, and for one token in billionths of a dollar.
// The cheap model charges output only, so that a budget is a number of words.
const (
	outputPrice  = 10
	inputPrice   = 2
	outputCost   = outputPrice * 1000
	inputCost    = inputPrice * 1000
	worker       = "worker" // a discovered model
	cheap        = "cheap"  // one upstream, input is free
	dear         = "dear"   // one upstream, input has a price
	shortTimeout = "4s"     // of the upstreams that fail
)

// settings are what differs between scenarios: the stores of a node, and lines of its configuration.
type settings struct{ store, redis, etcd, more string }

// yaml returns the configuration of a node.
func (s settings) yaml(g *testrig.Gateway, u *upstream) string {
	provider := func(name, more string) string {
		return fmt.Sprintf("  %s: { protocol: openai-chat, base_url: %q, api_key: %s, include_usage: true%s }", name, u.URL(name, testrig.Chat), providerSecret, more)
	}
	price := func(target string) string {
		return fmt.Sprintf("    %q: { input: %d, output: %d }", target, inputPrice, outputPrice)
	}
	short := fmt.Sprintf(", timeouts: { connect: 1s, first_byte: %[1]s, first_token: %[1]s, idle: %[1]s, total: 20s }", shortTimeout)
	return strings.Join([]string{
		"node: " + g.Name,
		"data: " + g.Data,
		fmt.Sprintf("store: { url: %q, peppers: [\"${PEPPER}\"] }", s.store),
		s.redisLine(),
		fmt.Sprintf("discover: { etcd: { endpoints: [%q], prefix: /isogloss/ }, networks: [127.0.0.0/8] }", s.etcd),
		"prices:",
		"  unknown: refuse",
		"  models:",
		fmt.Sprintf("    \"cheap/*\": { input: 0, output: %d }", outputPrice),
		price("dear/*"), price("first/*"), price("second/*"), price("discovered/*"),
		"providers:",
		provider("cheap", ""),
		provider("dear", ""),
		provider("first", short),
		provider("second", short),
		"models:",
		"  cheap: { targets: [cheap/m] }",
		"  dear: { targets: [dear/m] }",
		"  alone: { targets: [first/m] }",
		"  both: { targets: [first/m, second/m] }",
		"timeouts: { connect: 2s, first_byte: 60s, idle: 60s, total: 30m }",
		"overload: { requests: 6000, queue: 3000, wait: 20s }",
		"log: { level: info }",
		s.more,
	}, "\n") + "\n"
}

func (s settings) redisLine() string {
	if s.redis == "" {
		return ""
	}
	return fmt.Sprintf("redis: { url: %q }", s.redis)
}

package completions

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/openaichat"
)

// Route describes the endpoint to the gateway, as a route of the Chat Completions
// dialect.
func Route() codec.Route {
	return codec.Route{Name: "completions", Operation: codec.Complete, Path: "/v1/completions", Span: "text_completion",
		Complete: &codec.Completer{Codec: Codec{}, Report: reportAsChat}, Cacheable: cacheable()}
}

// reportAsChat notes what every request loses when a chat model answers it.
func reportAsChat(report *llm.Report) {
	report.Approximate("turns", "completion.as_chat", "the prompt is sent as a chat message; the model replies to it and does not continue it")
}

func cacheable() *codec.CacheRule {
	members := codec.AllowMembers(openaichat.CacheableSampling(), "prompt", "suffix", "echo")
	members["best_of"] = codec.OnlyOne
	return &codec.CacheRule{Members: members, Required: []string{"temperature"}}
}

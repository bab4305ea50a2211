package openairesponses

import (
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Dialect describes the protocol to the gateway.
func Dialect() *codec.Dialect {
	routes := []codec.Route{
		{Name: "responses", Operation: codec.Generate, Path: "/v1/responses", Span: "chat", Cacheable: cacheable()},
		{Name: "responses_compact", Operation: codec.Compact, Path: "/v1/responses/compact"},
		{Name: "input_tokens", Operation: codec.CountTokens, Path: countPath},
		{Name: "models", Operation: codec.ListModels, Path: modelsPath, Models: &codec.ModelList{List: listModels, One: openai.ListedModel}},
	}
	return &codec.Dialect{
		Name:           protocol.OpenAIResponses,
		Codec:          Codec{},
		Routes:         routes,
		Locate:         openai.LocateAzure(routes),
		Claims:         claims,
		Members:        []string{"model", "stream", "max_output_tokens"},
		Read:           readHead,
		Labels:         codec.Labels{Users: []string{"safety_identifier", "user"}, Metadata: "metadata"},
		SetModel:       codec.SetMember("model"),
		Fields:         fields(),
		UpstreamModels: openai.Models(),
		SetStream:      codec.SetTrue("stream"),
		Prompt:         codec.Prompt{System: "instructions", Tools: "tools", Turns: "input"},
		Parameters: map[string][]string{"sampling.temperature": {"temperature"}, "sampling.top_p": {"top_p"},
			"output.max_tokens": {"max_output_tokens"}, "reasoning": {"reasoning.effort"}},
		LeastOutput:    leastOutput,
		CacheSalt:      "cache_salt",
		SealMarks:      []string{`"encrypted_content"`, `"previous_response_id"`, `"item_reference"`},
		Finishes:       []string{"completed", "max_output_tokens"},
		NamesMalformed: true,
		Overflow:       llm.ContextLength,
		EndStream: func(tap protocol.Tap, e *llm.Error) []byte {
			if t, ok := tap.(*Tap); ok {
				return t.EncodeStreamError(e)
			}
			return Codec{}.EncodeStreamError(e)
		},
		NewAssembler:    newAssembler,
		RepeatsResponse: true,
		Count:           counter(),
		Stored:          storedResponses(),
		State:           vendorState(),
		Headers: codec.Headers{
			Vendor:   "openai",
			Request:  []codec.RequestHeader{{Name: "Openai-Beta", Beta: true}},
			Response: []string{"Openai-Model", "Openai-Processing-Ms", "Openai-Version"},

			SetRateLimits: openai.SetRateLimits,
		},
	}
}

const modelsPath = "/v1/models"

// claims recognizes Codex, which asks for its own list of models.
func claims(req *http.Request) bool {
	return req.URL.Path == modelsPath && req.URL.Query().Has("client_version")
}

// listModels writes OpenAI's list with a second, empty one, which Codex reads in its place. Its
// entries would replace Codex's own instructions and tools for a model, which no gateway knows.
func listModels(models []codec.Model) []byte {
	b := openai.ListModels(models)
	return append(b[:len(b)-1], `,"models":[]}`...)
}

// readHead marks a request as one with side effects that starts a job in the background or
// adds to a conversation of the vendor's.
func readHead(_ codec.Location, body *wire.Index) (codec.Head, *llm.Error) {
	head, err := codec.ReadModel(body, "model", "stream")
	head.MaxOutput = codec.MaxOutput(body.Raw("max_output_tokens"))
	head.Inner = openai.FindModels(body, "input[].tools[].model")
	head.NoStream = body.Raw("background").Kind() == 't' // the response is a ticket
	head.SideEffects = head.NoStream || body.Raw("conversation") != nil
	return head, err
}

// cacheable returns the rule for responses. It requires store: false, because the vendor
// stores by default. previous_response_id, conversation and prompt are not in it, because
// they refer to what the vendor stores and may change; nor is background: true, whose
// response is only a ticket.
func cacheable() *codec.CacheRule {
	members := codec.AllowMembers(map[string]codec.MemberRule{"temperature": codec.OnlyZero, "tools": codec.OnlyClientTools,
		"store": codec.OnlyFalse, "background": codec.OnlyFalse},
		"model", "input", "instructions", "top_p", "max_output_tokens", "stream", "stream_options", "text", "tool_choice",
		"parallel_tool_calls", "reasoning", "include", "truncation", "top_logprobs", "metadata", "user", "service_tier",
		"prompt_cache_key", "prompt_cache_retention", "safety_identifier")
	return &codec.CacheRule{Members: members, Required: []string{"temperature", "store"}}
}

// fields says where a request has the fields of the neutral model.
func fields() codec.Fields {
	return codec.Fields{Turns: "input", System: "instructions", Parts: "content", Block: fieldOfBlock, Names: append(openai.FieldNames(), [][2]string{
		{"output.max_tokens", "max_output_tokens"}, {"output.format", "text.format"}, {"output.verbosity", "text.verbosity"},
		{"reasoning.show", "reasoning.summary"}, {"reasoning.budget", "reasoning.effort"}, {"reasoning.mode", "reasoning.effort"},
	}...)}
}

// fieldOfBlock returns the path of a block below its item. Items other than messages are one
// block.
func fieldOfBlock(item wire.Raw, before []llm.Block, _ llm.Block) string {
	if itemType(item) != "message" {
		return ""
	}
	return codec.PartPath(item, "content", len(before))
}

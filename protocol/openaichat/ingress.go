package openaichat

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Dialect describes the protocol to the gateway. Routes of sibling packages, whose
// requests the same upstreams take, are added to its own.
func Dialect(siblings ...codec.Route) *codec.Dialect {
	routes := append([]codec.Route{
		{Name: "chat_completions", Operation: codec.Generate, Path: "/v1/chat/completions", Span: "chat", Cacheable: cacheable()},
		{Name: "embeddings", Operation: codec.Embed, Path: embeddingsPath, Span: "embeddings", Cacheable: &codec.CacheRule{}},
		{Name: "models", Operation: codec.ListModels, Path: "/v1/models", Models: &codec.ModelList{List: openai.ListModels, One: openai.ListedModel}},
		{Name: "dynamo_models", Operation: codec.ListModels, Path: "/dynamo/alpha/list-models", Models: &codec.ModelList{List: listForDynamo}},
	}, siblings...)
	return tagged(&codec.Dialect{
		Name:           protocol.OpenAIChat,
		Codec:          Codec{},
		Routes:         routes,
		Locate:         openai.LocateAzure(routes),
		Members:        []string{"model", "stream", "stream_options", "n", "nvext", "max_tokens", "max_completion_tokens"},
		Read:           readHead,
		Labels:         codec.Labels{Users: []string{"safety_identifier", "user"}, Metadata: "metadata"},
		SetModel:       codec.SetMember("model"),
		Setup:          codec.Setup{SDK: "OpenAI", Variable: "OPENAI_BASE_URL", Path: "/v1"},
		Fields:         fields(),
		UpstreamModels: openai.Models(),
		SetStream:      codec.SetTrue("stream"),
		RequestUsage:   requestUsage,
		Prompt:         codec.Prompt{Tools: "tools", Turns: "messages"},
		CacheSalt:      "cache_salt",
		Parameters: map[string][]string{"sampling.temperature": {"temperature"}, "sampling.top_p": {"top_p"},
			"output.max_tokens": {"max_completion_tokens"}, "reasoning": {"reasoning_effort"}},
		OtherNames: otherNames,
		SealMarks:  []string{`"reasoning_details"`},
		Finishes:   []string{"stop", "length", "tool_calls", "function_call"},
		Overflow:   llm.ContextLength,
		Extensions: []codec.Extension{{Member: "nvext", Check: CheckNvExt, CacheSalt: "cache_salt"}},
		Continuations: map[string]codec.Continuation{
			"prefix": {Turn: llm.Ext{Protocol: string(protocol.OpenAIChat), Members: []llm.Member{{Name: "prefix", Value: "true"}}}},
			"vllm":   {Members: []llm.Member{{Name: "continue_final_message", Value: "true"}, {Name: "add_generation_prompt", Value: "false"}}},
		},
		Headers: codec.Headers{
			Vendor:   "openai",
			Request:  []codec.RequestHeader{{Name: "Openai-Beta", Beta: true}},
			Response: []string{"Openai-Model", "Openai-Processing-Ms", "Openai-Version"},

			SetRateLimits: openai.SetRateLimits,
		},
		Embed: embedder(),
		State: &codec.VendorState{ // files, and the audio of responses
			References: func(body *wire.Index) []codec.Reference {
				return codec.FindReferences(body, []string{"messages[].content[].file.file_id", "messages[].audio.id"}, `file_id"`, `udio"`)
			},
			Unknown: func(r codec.Reference) *llm.Error {
				if r.Param == "messages[].audio.id" {
					return codec.NotFound(llm.NotFound, "", r, "Audio with id 'ID' not found.")
				}
				return codec.NotFound(llm.NotFound, "", r, "No such File object: ID")
			},
		},
	})
}

// readHead reads the members that chats and text completions share, and of a completion how
// many texts are generated.
func readHead(at codec.Location, body *wire.Index) (codec.Head, *llm.Error) {
	head, err := codec.ReadModel(body, "model", "stream")
	if err != nil {
		return head, err
	}
	n, err := codec.ReadCount("n", body.Raw("n"))
	if err != nil {
		return head, err
	}
	if n > 1 {
		head.Choices, head.Generated = int(n), n
	}
	if at.Operation == codec.Complete {
		// best_of are generated for each prompt, and the best is sent.
		const most = 1 << 16
		best, err := codec.ReadCount("best_of", body.Raw("best_of"))
		if err != nil {
			return head, err
		}
		head.Generated = min(max(head.Generated, best, 1), most) * prompts(body.Raw("prompt"))
	}
	head.MaxOutput = codec.MaxOutput(body.Raw("max_completion_tokens"), body.Raw("max_tokens"))
	head.NoStream = strings.Contains(string(body.Raw("modalities")), `"audio"`) // streams have another audio format
	head.Inner = openai.FindModels(body)
	if body.Raw("route") != nil && body.Raw("models") == nil {
		// OpenRouter would choose the fallbacks.
		return head, codec.WrongModel("route")
	}
	switch body.Raw("stream_options").Kind() {
	case 0:
		return head, nil
	case '{':
	default:
		return head, codec.WrongType("stream_options", "an object")
	}
	options, bad := body.Object("stream_options", "include_usage")
	if bad != nil {
		return head, codec.InvalidBody(bad)
	}
	head.Usage = options.Raw("include_usage").Kind() == 't'
	return head, nil
}

// prompts returns the number of prompts: they are one text, one list of tokens, or a list
// of either.
func prompts(value wire.Raw) int64 {
	var list []jsontext.Value
	if value.Kind() != '[' || json.Unmarshal(value, &list, jsontext.AllowInvalidUTF8(true)) != nil || len(list) == 0 || list[0].Kind() == '0' {
		return 1
	}
	return int64(len(list))
}

// requestUsage sets stream_options.include_usage and keeps the other stream options.
func requestUsage(body *wire.Index) wire.Edit {
	options, err := body.Object("stream_options")
	if err != nil { // absent or null
		return body.Set("stream_options", `{"include_usage":true}`)
	}
	return options.Set("include_usage", "true")
}

// listForDynamo writes the list that the first releases of NVIDIA Dynamo served beside
// OpenAI's.
func listForDynamo(models []codec.Model) []byte {
	names := []byte{'['}
	for i, m := range models {
		if i > 0 {
			names = append(names, ',')
		}
		names = wire.AppendQuote(names, m.ID)
	}
	names = append(names, ']')
	b := append([]byte(`{"chat_completion_models":`), names...)
	b = append(append(b, `,"completion_models":`...), names...)
	return append(b, '}')
}

// cacheable returns the rule for chat completions. Without store the vendor keeps nothing.
func cacheable() *codec.CacheRule {
	members := codec.AllowMembers(CacheableSampling(), "messages", "max_completion_tokens", "response_format", "tool_choice",
		"parallel_tool_calls", "functions", "function_call", "reasoning_effort", "verbosity", "prediction", "prompt_cache_key",
		"prompt_cache_retention", "safety_identifier")
	members["tools"], members["store"] = codec.OnlyClientTools, codec.OnlyFalse
	return &codec.CacheRule{Members: members, Required: []string{"temperature"}}
}

// otherNames returns the other name of the output limit.
func otherNames(name string) []string {
	switch name {
	case "max_completion_tokens":
		return []string{"max_tokens"}
	case "max_tokens":
		return []string{"max_completion_tokens"}
	}
	return nil
}

// CacheableSampling returns the rules of the members that chat completions share with
// text completions.
func CacheableSampling() map[string]codec.MemberRule {
	return codec.AllowMembers(map[string]codec.MemberRule{"temperature": codec.OnlyZero, "n": codec.OnlyOne},
		"model", "top_p", "top_k", "min_p", "seed", "max_tokens", "stop", "stream", "stream_options", "logprobs", "top_logprobs",
		"logit_bias", "presence_penalty", "frequency_penalty", "repetition_penalty", "user", "metadata", "service_tier")
}

// fields says where a request has the fields of the neutral model.
func fields() codec.Fields {
	return codec.Fields{Turns: "messages", Parts: "content", Block: fieldOfBlock, Names: append(openai.FieldNames(), [][2]string{
		{"output.max_tokens", "max_completion_tokens"}, {"output.format", "response_format"}, {"output.verbosity", "verbosity"},
		{"reasoning.effort", "reasoning_effort"}, {"reasoning.budget", "reasoning_effort"}, {"reasoning.mode", "reasoning_effort"}, {"reasoning.show", "reasoning_effort"}, {"reasoning", "reasoning_effort"},
	}...)}
}

// fieldOfBlock returns the path of a block below its message.
func fieldOfBlock(message wire.Raw, before []llm.Block, b llm.Block) string {
	count := func(is func(llm.Block) bool) (n int) {
		for _, other := range before {
			if is(other) {
				n++
			}
		}
		return n
	}
	switch b.(type) {
	case *llm.ToolCall:
		return "." + codec.At("tool_calls", count(func(b llm.Block) bool { _, ok := b.(*llm.ToolCall); return ok }))
	case *llm.ToolResult:
		return ""
	case *llm.Thought:
		return ".reasoning_content"
	}
	return codec.PartPath(message, "content", count(func(b llm.Block) bool { _, thought := b.(*llm.Thought); return !thought }))
}

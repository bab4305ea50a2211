package sdks

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// frameworkSurfaces are the frameworks, which stand on the vendors' SDKs or in their
// place and have words of their own for what those say. All of a language share one
// process.
func frameworkSurfaces() []*surface { return slices.Concat(pythonFrameworks(), nodeFrameworks()) }

// A framework is what its packages have in common.
type framework struct {
	language string
	client   string // what the client calls it
	family   string // what the table calls it
}

// api is one API of a framework. The classes are of what it raises for a 404, for a 429
// and for a stream that was cut.
func (f framework) api(pkg, version, dialect string, classes ...string) *surface {
	return &surface{
		language: f.language, family: f.family, sdk: pkg, version: version, dialect: dialect, client: f.client + "+" + dialect, process: f.language + "-frameworks",
		classes: map[int]string{404: classes[0], 429: classes[1]}, cut: classes[2], runner: true, faults: map[string]fault{},
		lacks: map[string]string{"models": "it lists no models", "count_tokens": "it counts no tokens", "structured_tool": "its schemas are no tools"},
	}
}

// ending gives a framework its own words for the end of a reply, without and with calls.
func (s *surface) ending(said, called string) *surface {
	s.ends = func(r testrig.Reply) string {
		if len(r.Calls) > 0 {
			return called
		}
		return said
	}
	return s
}

// formed is a framework that can have an answer's schema as that of a tool.
func (s *surface) formed(tool string) *surface {
	s.schemaTool = tool
	delete(s.lacks, "structured_tool")
	return s
}

func (s *surface) counting() *surface {
	delete(s.lacks, "count_tokens")
	return s
}

func (s *surface) needing(settings string) *surface {
	s.needs = settings
	return s
}

// unreasoning is a framework that reads no reasoning from Chat.
func (s *surface) unreasoning() *surface {
	s.lacks["reasoning"] = "it reads no reasoning from Chat, which has no field of its own for it"
	return s
}

// cannot says what is reported instead of what a feature should give, and why.
func (s *surface) cannot(feature, report, why string) *surface {
	s.faults[feature] = fault{report: report, why: why}
	return s
}

func pythonFrameworks() []*surface {
	langchain := framework{"python", "langchain", "LangChain"}
	agents := func(dialect string) *surface { // which does not tell how a reply has ended
		return framework{"python", "openai-agents", "Agents SDK"}.api("openai-agents", "0.24.0", dialect, "NotFoundError", "RateLimitError", "APIError").ending("", "")
	}
	pydantic := func(dialect string) *surface {
		ai := framework{"python", "pydantic-ai", "Pydantic AI"}
		return ai.api("pydantic-ai-slim", "2.66.0", dialect, "ModelNotFoundError", "ModelRateLimitError", "ModelServerError").ending("stop", "tool_call").formed("final_result")
	}
	gemini := pydantic("gemini").ending("stop", "stop")
	gemini.random = regexp.MustCompile(`pyd_ai_[0-9a-f]+`) // calls to which Gemini gives no id
	gemini.needing("in the model's `profile`: `supports_inline_system_prompts`, else it puts a preamble of its own before the system text")
	gemini.cannot("cancel", "", "`google-genai` 2.34.0, on which it stands, keeps the connection of an asynchronous stream after `aclose()` until its event loop "+
		"ends, and the server sees no end of it")
	const guesses = "in the model's `profile`, which it guesses from names that it knows: "
	all := []*surface{
		langchain.api("langchain-openai", "1.7.3", "openai-chat", "OpenAIModelNotFoundError", "OpenAIRateLimitError", "APIError").unreasoning().
			needing("`stream_usage=True`, for usage in streams"),
		langchain.api("langchain-openai", "1.7.3", "openai-responses", "OpenAIModelNotFoundError", "OpenAIRateLimitError", "APIError"),
		langchain.api("langchain-anthropic", "1.7.7", "anthropic", "AnthropicModelNotFoundError", "AnthropicRateLimitError", "APIStatusError").counting(),
		langchain.api("langchain-google-genai", "4.4.2", "gemini", "GoogleModelNotFoundError", "GoogleRateLimitError", "GoogleAPIError"),
		agents("openai-chat"),
		agents("openai-responses"),
		pydantic("openai-chat"),
		pydantic("openai-responses").ending("stop", "stop").needing(guesses + "`openai_supports_encrypted_reasoning_content`, for reasoning over tools"),
		pydantic("anthropic").counting().needing(guesses + "`supports_json_schema_output`, for `NativeOutput`, and `supports_inline_system_prompts`, else it " +
			"puts a preamble of its own before the system text"),
		gemini,
	}
	for _, s := range all[:4] {
		s.formed("Person")
	}
	return sharing(all, []string{"langchain", "1.4.7"}, func(t *testing.T, args []string) rig.Client {
		python := filepath.Join(rig.Cache(t), "python-frameworks", "bin", "python")
		return rig.StartProcess(t, "python", python, append([]string{"matrix/client.py"}, args...)...)
	})
}

func nodeFrameworks() []*surface {
	all := slices.Concat(aiSurfaces(), langchainSurfaces(), agentsSurfaces())
	return sharing(all, []string{"ai", aiVersion, "langchain", "1.5.14"}, func(t *testing.T, args []string) rig.Client {
		return rig.StartNodeWith(t, "node-frameworks", "matrix/*.mjs", args...)
	})
}

const aiVersion = "7.0.169"

func aiSurfaces() []*surface {
	provider := func(name, version, dialect string) *surface {
		ai := framework{"node", "ai", "AI SDK " + aiVersion}
		return ai.api("@ai-sdk/"+name, version, dialect, "APICallError", "APICallError", "StreamProviderError").ending("stop", "tool-calls")
	}
	compatible := provider("openai-compatible", "3.0.90", "openai-chat")
	compatible.client = "ai+openai-compatible"
	google := provider("google", "4.0.117", "gemini").needing("a base URL that ends in `/v1beta`")
	google.random = regexp.MustCompile(`"id":"[0-9A-Za-z]{16}"`) // calls to which Gemini gives no id
	responses := provider("openai", "4.0.114", "openai-responses").needing("`forceReasoning: true`, for reasoning with a model's name that it does not know")
	responses.names = true
	return []*surface{
		provider("openai", "4.0.114", "openai-chat").unreasoning(),
		compatible.needing("`includeUsage` and `supportsStructuredOutputs`, for usage in streams and for schemas"),
		responses,
		provider("anthropic", "4.0.102", "anthropic").formed("json").needing("a base URL that ends in `/v1`; `structuredOutputMode: 'outputFormat'`, for schemas with a model's name that it does not know"),
		google,
	}
}

// What some make of thinking and of a cut stream.
const (
	thoughtless   = `{"reasoning":"","text":"42 it is."}`
	unseenCut     = `{"text":"half an ans","error":""}`
	ignoresErrors = "it takes an event `data: {\"error\":{\"code\":502,…}}` for an answer without candidates, and a cut stream ends as if it were complete"
)

func langchainSurfaces() []*surface {
	langchain := framework{"node", "langchain", "LangChain"}
	anthropic := langchain.api("@langchain/anthropic", "1.5.11", "anthropic", "NotFoundError", "RateLimitError", "APIError")
	anthropic.cannot("usage", `{"whole":{"input":11,"cached":4,"output":7,"reasoning":0},"stream":{"input":"*","cached":"*","output":"*","reasoning":0}}`,
		"it leaves out `output_tokens_details`, and in streams it adds the `output_tokens` of `message_start` (1) to those of `message_delta` (7), which is the "+
			"sum, and looks for `input_tokens` only in `message_start`, where an upstream that counts at the end has 0")
	genai := langchain.api("@langchain/google-genai", "2.3.2", "gemini", "GoogleGenerativeAIFetchError", "GoogleGenerativeAIFetchError", "")
	genai.cannot("cut", unseenCut, ignoresErrors)
	genai.cannot("reasoning", `{"whole":`+thoughtless+`,"stream":{"reasoning":"Six times seven.","text":"42 it is."}}`,
		"in a non-streaming response it drops parts with `\"thought\":true`")
	genai.cannot("usage", `{"whole":{"input":11,"cached":4,"output":"*","reasoning":0},"stream":{"input":11,"cached":"*","output":"*","reasoning":0}}`,
		"it leaves `thoughtsTokenCount` out of the output and adds up `cachedContentTokenCount`, which Gemini repeats in every event")
	genai.faults["parallel"] = fault{refused: true, why: "it sends the results of two calls as two turns (`{\"role\":\"user\",\"parts\":[{\"functionResponse\":{…}}]}` twice), and " +
		"Gemini wants as many results in a turn as there were calls; on other upstreams they arrive together"}
	google := langchain.api("@langchain/google", "0.2.6", "gemini", "RequestError", "RequestError", "").cannot("cut", unseenCut, ignoresErrors)
	google.client = "langchain+google"
	all := []*surface{
		langchain.api("@langchain/openai", "1.6.0", "openai-chat", "NotFoundError", "RateLimitError", "APIError").unreasoning(),
		langchain.api("@langchain/openai", "1.6.0", "openai-responses", "NotFoundError", "RateLimitError", "APIError").
			needing("`modelKwargs: { reasoning: … }`, for reasoning: `reasoning` is heard only with names of OpenAI's models"),
		anthropic,
		genai,
		google,
	}
	for _, s := range all {
		s.formed("person")
	}
	return all
}

func agentsSurfaces() []*surface {
	on := func(dialect string) *surface {
		return framework{"node", "openai-agents", "Agents SDK"}.api("@openai/agents", "0.20.0", dialect, "NotFoundError", "RateLimitError", "APIError").ending("", "")
	}
	chat := on("openai-chat").cannot("reasoning", `{"whole":`+thoughtless+`,"stream":`+thoughtless+`}`,
		"it reads `reasoning` and not `reasoning_content`, which is what the upstream sends: `{\"delta\":{\"reasoning_content\":\"Six times \"}}`")
	return []*surface{chat, on("openai-responses")}
}

// sharing has one process do all surfaces. Its arguments are the packages that have to
// be installed, each with its version.
func sharing(all []*surface, packages []string, start func(*testing.T, []string) rig.Client) []*surface {
	for _, s := range all {
		packages = append(packages, s.sdk, s.version)
	}
	for _, s := range all {
		s.start = func(t *testing.T) rig.Client { return start(t, packages) }
	}
	return all
}

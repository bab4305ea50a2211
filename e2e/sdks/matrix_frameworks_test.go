package sdks

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// frameworkSurfaces are the frameworks, which stand on the vendors' SDKs or in their
// place and have words of their own for what those say. All of a language share one
// process.
func frameworkSurfaces() []*surface { return slices.Concat(pythonFrameworks(), nodeFrameworks()) }

const noChatReasoning = "it reads no reasoning from Chat, which has no field of its own for it"

// A cut stream that looks complete.
const (
	unseenCut     = `{"text":"half an ans","error":""}`
	ignoresErrors = "it takes an event `data: {\"error\":{\"code\":502,…}}` for an answer without candidates, and a cut stream ends as if it were complete."
)

// row is an API of a framework; classes are of what it raises for a 404, for a 429 and
// for a stream that was cut.
func row(language, framework, pkg, version, dialect string, classes ...string) *surface {
	return &surface{
		family: families[framework], language: language, sdk: pkg, version: version, dialect: dialect, client: framework + "+" + dialect, process: language + "-frameworks",
		classes: map[int]string{404: classes[0], 429: classes[1]}, cut: classes[2], runner: true,
		lacks: map[string]string{"models": "it lists no models", "count_tokens": "it counts no tokens"},
	}
}

var families = map[string]string{"ai": "AI SDK " + aiVersion + " ", "langchain": "LangChain ", "openai-agents": "Agents SDK ", "pydantic-ai": "Pydantic AI "}

const aiVersion = "7.0.169"

// ending gives a framework its own words for the end of a reply, without and with calls.
func (s *surface) ending(said, called string) *surface {
	s.ends = func(r rig.Reply) string {
		if len(r.Calls) > 0 {
			return called
		}
		return said
	}
	return s
}

func (s *surface) with(feature string) *surface {
	delete(s.lacks, feature)
	return s
}

// cannot says what is reported instead of what a feature should give, and why.
func (s *surface) cannot(feature, report, why string) *surface {
	if s.faults == nil {
		s.faults = map[string]fault{}
	}
	s.faults[feature] = fault{report, why}
	return s
}

func (s *surface) without(feature, why string) *surface {
	s.lacks[feature] = why
	return s
}

func pythonFrameworks() []*surface {
	langchain := func(pkg, version, dialect string, classes ...string) *surface {
		return row("python", "langchain", pkg, version, dialect, classes...).without("runner", "its loop over tools is another package")
	}
	agents := func(dialect string) *surface {
		s := row("python", "openai-agents", "openai-agents", "0.24.0", dialect, "NotFoundError", "RateLimitError", "APIError")
		return s.ending("", "") // it does not tell
	}
	pydantic := func(dialect string) *surface {
		s := row("python", "pydantic-ai", "pydantic-ai-slim", "2.66.0", dialect, "ModelNotFoundError", "ModelRateLimitError", "ModelServerError")
		return s.ending("stop", "tool_call")
	}
	gemini := pydantic("gemini").ending("stop", "stop")
	gemini.cannot("cancel", "", "`google-genai` 2.34.0, on which it stands, keeps the connection of an asynchronous stream that was closed (`aclose()`) until its event "+
		"loop ends: the server sees no end of it.")
	gemini.random = regexp.MustCompile(`pyd_ai_[0-9a-f]+`) // calls to which Gemini gives no id
	all := []*surface{
		langchain("langchain-openai", "1.7.3", "openai-chat", "OpenAIModelNotFoundError", "OpenAIRateLimitError", "APIError").without("reasoning", noChatReasoning),
		langchain("langchain-openai", "1.7.3", "openai-responses", "OpenAIModelNotFoundError", "OpenAIRateLimitError", "APIError"),
		langchain("langchain-anthropic", "1.7.7", "anthropic", "AnthropicModelNotFoundError", "AnthropicRateLimitError", "APIStatusError").with("count_tokens"),
		langchain("langchain-google-genai", "4.4.2", "gemini", "GoogleModelNotFoundError", "GoogleRateLimitError", "GoogleAPIError"),
		agents("openai-chat"),
		agents("openai-responses"),
		pydantic("openai-chat"),
		pydantic("openai-responses").ending("stop", "stop"),
		pydantic("anthropic").with("count_tokens"),
		gemini,
	}
	return sharing(all, func(t *testing.T, args []string) rig.Client {
		python := filepath.Join(rig.Cache(t), "python-frameworks", "bin", "python")
		return rig.StartProcess(t, "python", python, append([]string{"matrix/client.py"}, args...)...)
	})
}

func nodeFrameworks() []*surface {
	ai := func(provider, version, dialect string) *surface {
		s := row("node", "ai", "@ai-sdk/"+provider, version, dialect, "APICallError", "APICallError", "StreamProviderError")
		return s.ending("stop", "tool-calls")
	}
	langchain := func(pkg, version, dialect string, classes ...string) *surface {
		return row("node", "langchain", "@langchain/"+pkg, version, dialect, classes...).without("runner", "its loop over tools is another package")
	}
	agents := func(dialect string) *surface {
		return row("node", "openai-agents", "@openai/agents", "0.20.0", dialect, "NotFoundError", "RateLimitError", "APIError").ending("", "")
	}
	compatible := ai("openai-compatible", "3.0.90", "openai-chat")
	compatible.client = "ai+openai-compatible"
	google := langchain("google", "0.2.6", "gemini", "RequestError", "RequestError", "GoogleError")
	google.client = "langchain+google"
	google.cannot("cut", unseenCut, ignoresErrors)
	googleAI := ai("google", "4.0.117", "gemini")
	googleAI.random = regexp.MustCompile(`"id":"[0-9A-Za-z]{16}"`) // calls to which Gemini gives no id
	const noReasoning = `{"reasoning":"","text":"42 it is."}`
	agentsOnChat := agents("openai-chat").cannot("reasoning", `{"whole":`+noReasoning+`,"stream":`+noReasoning+`}`,
		"it reads `reasoning` and not `reasoning_content`, which is what the upstream sends (`{\"delta\":{\"reasoning_content\":\"Six times \"}}`).")
	anthropic := langchain("anthropic", "1.5.11", "anthropic", "NotFoundError", "RateLimitError", "APIError")
	anthropic.cannot("usage", `{"whole":{"input":11,"cached":4,"output":7},"stream":{"input":"*","cached":"*","output":"*"}}`,
		"it leaves out `output_tokens_details`, and in streams it adds the `output_tokens` of `message_start` (1) to those of `message_delta` (7), which is the "+
			"sum, and looks for `input_tokens` only in `message_start`, where an upstream that counts at the end has 0.")
	genai := langchain("google-genai", "2.3.2", "gemini", "GoogleGenerativeAIFetchError", "GoogleGenerativeAIFetchError", "GoogleError")
	genai.cannot("cut", unseenCut, ignoresErrors)
	genai.cannot("reasoning", `{"whole":`+noReasoning+`,"stream":{"reasoning":"Six times seven.","text":"42 it is."}}`,
		"in an answer that is not streamed it leaves out parts with `\"thought\":true`.")
	genai.cannot("usage", `{"whole":{"input":11,"cached":4,"output":4},"stream":{"input":11,"cached":"*","output":"*"}}`,
		"it leaves `thoughtsTokenCount` out of the output and adds up `cachedContentTokenCount`, which Gemini repeats in every event.")
	all := []*surface{
		ai("openai", "4.0.114", "openai-chat").without("reasoning", noChatReasoning),
		compatible,
		ai("openai", "4.0.114", "openai-responses"),
		ai("anthropic", "4.0.102", "anthropic"),
		googleAI,
		langchain("openai", "1.6.0", "openai-chat", "NotFoundError", "RateLimitError", "APIError").without("reasoning", noChatReasoning),
		langchain("openai", "1.6.0", "openai-responses", "NotFoundError", "RateLimitError", "APIError"),
		anthropic,
		genai,
		google,
		agentsOnChat,
		agents("openai-responses"),
	}
	return sharing(all, func(t *testing.T, args []string) rig.Client {
		return rig.StartNodeWith(t, "node-frameworks", "matrix/*.mjs", append(args, "ai", aiVersion)...)
	})
}

// sharing has one process do all surfaces. Its arguments are the packages and versions
// that have to be installed.
func sharing(all []*surface, start func(*testing.T, []string) rig.Client) []*surface {
	var args []string
	for _, s := range all {
		args = append(args, s.sdk, s.version)
	}
	for _, s := range all {
		s.start = func(t *testing.T) rig.Client { return start(t, args) }
	}
	return all
}

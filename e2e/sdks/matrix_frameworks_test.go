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

const noReasoning = "it reads no reasoning from Chat, which has no field of its own for it"

// row is an API of a framework; classes are of what it raises for a 404, for a 429 and
// for a stream that was cut.
func row(language, framework, pkg, version, dialect string, classes ...string) *surface {
	return &surface{
		language: language, sdk: pkg, version: version, dialect: dialect, client: framework + "+" + dialect, process: language + "-frameworks",
		classes: map[int]string{404: classes[0], 429: classes[1]}, cut: classes[2], runner: true,
		lacks: map[string]string{"models": "it lists no models", "count_tokens": "it counts no tokens"},
	}
}

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
	gemini.random = regexp.MustCompile(`pyd_ai_[0-9a-f]+`) // calls to which Gemini gives no id
	all := []*surface{
		langchain("langchain-openai", "1.7.3", "openai-chat", "OpenAIModelNotFoundError", "OpenAIRateLimitError", "APIError").without("reasoning", noReasoning),
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
		s := row("node", "ai", "@ai-sdk/"+provider, version, dialect, "APICallError", "APICallError", "APICallError")
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
	all := []*surface{
		ai("openai", "4.0.114", "openai-chat").without("reasoning", noReasoning),
		compatible,
		ai("openai", "4.0.114", "openai-responses"),
		ai("anthropic", "4.0.102", "anthropic"),
		ai("google", "4.0.117", "gemini"),
		langchain("openai", "1.6.0", "openai-chat", "NotFoundError", "RateLimitError", "APIError").without("reasoning", noReasoning),
		langchain("openai", "1.6.0", "openai-responses", "NotFoundError", "RateLimitError", "APIError"),
		langchain("anthropic", "1.5.11", "anthropic", "NotFoundError", "RateLimitError", "APIError"),
		langchain("google-genai", "2.3.2", "gemini", "GoogleGenerativeAIFetchError", "GoogleGenerativeAIFetchError", "GoogleError"),
		google,
		agents("openai-chat"),
		agents("openai-responses"),
	}
	return sharing(all, func(t *testing.T, args []string) rig.Client {
		return rig.StartNodeWith(t, "node-frameworks", "matrix/*.mjs", append(args, "ai", "7.0.169")...)
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

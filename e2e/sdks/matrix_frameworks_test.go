package sdks

import (
	"path/filepath"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// A framework stands on the vendors' SDKs or in their place, and has words of its own
// for what they say.

func frameworkSurfaces() []*surface { return pythonFrameworks() }

// pythonFrameworks share one interpreter.
func pythonFrameworks() []*surface {
	row := func(framework, pkg, version, dialect string, finish, classes []string) *surface {
		s := &surface{
			language: "python", sdk: pkg, version: version, dialect: dialect, client: framework + "+" + dialect, process: "python-frameworks",
			classes: map[int]string{404: classes[0], 429: classes[1]}, cut: "APIError", runner: true, start: startPythonFrameworks,
			lacks: map[string]string{"models": "it lists no models"},
		}
		if finish != nil {
			s.ends = func(r rig.Reply) string { return finish[min(len(r.Calls), 1)] }
		}
		return s
	}
	langchain := func(vendor, pkg, version, dialect string) *surface {
		s := row("langchain", "langchain-"+pkg, version, dialect, nil, []string{vendor + "ModelNotFoundError", vendor + "RateLimitError"})
		s.lacks["runner"] = "the loop over tools is another package"
		return s
	}
	pydantic := func(dialect string, finish ...string) *surface {
		return row("pydantic-ai", "pydantic-ai-slim", "2.66.0", dialect, finish, []string{"ModelNotFoundError", "ModelRateLimitError"})
	}
	agents := func(dialect string) *surface {
		return row("openai-agents", "openai-agents", "0.24.0", dialect, []string{"", ""}, []string{"NotFoundError", "RateLimitError"})
	}
	return []*surface{
		langchain("OpenAI", "openai", "1.7.3", "openai-chat"),
		langchain("OpenAI", "openai", "1.7.3", "openai-responses"),
		langchain("Anthropic", "anthropic", "1.7.7", "anthropic"),
		langchain("Google", "google-genai", "4.4.2", "gemini"),
		agents("openai-chat"),
		agents("openai-responses"),
		pydantic("openai-chat", "stop", "tool_call"),
		pydantic("openai-responses", "stop", "stop"),
		pydantic("anthropic", "stop", "tool_call"),
		pydantic("gemini", "stop", "stop"),
	}
}

func startPythonFrameworks(t *testing.T) rig.Client {
	python := filepath.Join(rig.Cache(t), "python-frameworks", "bin", "python")
	args := []string{"matrix/client.py"}
	for _, s := range pythonFrameworks() {
		args = append(args, s.sdk, s.version)
	}
	return rig.StartProcess(t, "python", python, args...)
}

package sdks

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// A surface is one API of a vendor's SDK, or of a framework, in one version.
type surface struct {
	family                 string // of the framework, before its package in the table
	language, sdk, version string
	dialect                string // the API, by its dialect
	client                 string // what the client calls the API; empty is the dialect
	process                string // what surfaces of one process share; empty is the package's own
	start                  func(t *testing.T) rig.Client
	overTLS                func(t *testing.T, ca string) rig.Client // in place of start, for an SDK that sends its key over HTTPS only
	runner                 bool                                     // the SDK runs tools by itself
	threads                bool                                     // and has the vendor keep the conversation unless that is refused
	names                  bool                                     // earlier answers are named and not said again
	// The classes of what is raised for a status, and for a stream that was cut.
	classes    map[int]string
	cut        string
	unnoticed  bool                       // it takes a stream that its vendor cuts for a complete one
	ends       func(testrig.Reply) string // its own word for the end of a reply; nil is the API's
	random     *regexp.Regexp             // what it makes up anew in each request
	schemaTool string                     // the tool whose schema is the answer's
	// needs is what has to be set besides the base URL and the key.
	needs string
	// lacks is why it has not a feature that others have.
	lacks map[string]string
	// faults are the features that it cannot do whatever it is sent.
	faults map[string]fault
}

// fault is what is reported instead of what a feature should give, and why. One that is
// refused is a request that its own vendor does not take; the others get it as they want
// it.
type fault struct {
	report, why string
	refused     bool
}

// fails says whether a feature falls short on an upstream through the client's fault.
func (s *surface) fails(feature, upstream string) bool {
	f, ok := s.faults[feature]
	return ok && (!f.refused || upstream == s.dialect)
}

// name is that of the subtest: the language, the package without its host, the API.
func (s *surface) name() string {
	short := strings.NewReplacer("github.com/openai/", "", "github.com/anthropics/", "", "google.golang.org/", "", "github.com/aws/", "", "@", "", "/", "-").Replace(s.sdk)
	return fmt.Sprintf("%s-%s-%s-%s", s.language, short, s.version, s.dialect)
}

// has says whether there is such a thing as the feature.
func (s *surface) has(f feature) bool {
	return s.lacks[f.name] == "" && (f.has == nil || f.has(s))
}

// api is the client's name for the API.
func (s *surface) api() string {
	if s.client != "" {
		return s.client
	}
	return s.dialect
}

// want is what the client must report.
func (s *surface) want(f feature, d *rig.Dialect) string {
	if report := s.faults[f.name].report; report != "" {
		return report
	}
	return f.want(s, d)
}

// finish is what the API calls the end of a reply.
func (s *surface) finish(r testrig.Reply) string {
	if s.ends != nil {
		return s.ends(r)
	}
	d := rig.DialectNamed(s.dialect).Reply(r).Dialect
	if len(r.Calls) > 0 {
		return map[testrig.Dialect]string{testrig.Chat: "tool_calls", testrig.Responses: "completed", testrig.Messages: "tool_use", testrig.Gemini: "STOP", testrig.Converse: "tool_use"}[d]
	}
	return map[testrig.Dialect]string{testrig.Chat: "stop", testrig.Responses: "completed", testrig.Messages: "end_turn", testrig.Gemini: "STOP", testrig.Converse: "end_turn"}[d]
}

func (s *surface) problem(status int, message, retryAfter string) string {
	return fmt.Sprintf(`{"error":{"class":%q,"status":%d,"message":%q,"retry_after":%q}}`, s.classes[status], status, message, retryAfter)
}

var (
	statusClasses = map[int]string{404: "NotFoundError", 429: "RateLimitError"}
)

// sdkSurfaces are the vendors' SDKs, by language, the newest major first.
func sdkSurfaces() []*surface {
	return slices.Concat(goSurfaces(), converseSurfaces(),
		pythonSurfaces("newest", "3.49.0", "2.8.0", "3.1.0"), pythonSurfaces("before", "2.54.0", "0.125.0", "2.34.0"),
		nodeSurfaces("openai", "7.53.0", "@anthropic-ai/sdk", "1.8.0", "@google/genai", "2.32.0"),
		nodeSurfaces("openai-6", "6.49.0", "anthropic-0", "0.137.0", "genai-1", "1.52.0"))
}

// selection returns the first surface of each dialect, with the languages in turn: a short run plays one client on
// each pair of dialects.
func selection(all []*surface) []*surface {
	var chosen []*surface
	for i, d := range rig.Dialects() {
		of := slices.DeleteFunc(slices.Clone(all), func(s *surface) bool { return s.dialect != d.Name })
		if len(of) == 0 { // no framework speaks Converse here
			continue
		}
		languages := []string{"python", "node", "go"}
		preferred := max(0, slices.IndexFunc(of, func(s *surface) bool { return s.language == languages[i%len(languages)] }))
		chosen = append(chosen, of[preferred])
	}
	return chosen
}

func pythonSurfaces(venv, openai, anthropic, google string) []*surface {
	row := func(sdk, version, dialect, cut string, classes map[int]string) *surface {
		return &surface{
			language: "python", sdk: sdk, version: version, dialect: dialect, classes: classes, cut: cut, runner: dialect != "openai-chat",
			start: func(t *testing.T) rig.Client {
				python := filepath.Join(rig.Cache(t), "python-"+venv, "bin", "python")
				return rig.StartProcess(t, "python", python, "matrix/client.py", sdk, version)
			},
		}
	}
	responses := row("openai", openai, "openai-responses", "APIError", statusClasses)
	responses.runner = venv == "newest"
	messages := row("anthropic", anthropic, "anthropic", "APIStatusError", statusClasses)
	messages.threads = venv == "newest"
	return []*surface{
		row("openai", openai, "openai-chat", "APIError", statusClasses),
		responses,
		messages,
		row("google-genai", google, "gemini", "ServerError", map[int]string{404: "ClientError", 429: "ClientError"}),
	}
}

// nodeSurfaces are by the names under which the packages are installed.
func nodeSurfaces(openai, openaiVersion, anthropic, anthropicVersion, google, googleVersion string) []*surface {
	row := func(sdk, installed, version, dialect, cut string, classes map[int]string) *surface {
		return &surface{
			language: "node", sdk: sdk, version: version, dialect: dialect, classes: classes, cut: cut, runner: true,
			start: func(t *testing.T) rig.Client { return rig.StartNode(t, "matrix/*.mjs", installed, version) },
		}
	}
	responses := row("openai", openai, openaiVersion, "openai-responses", "APIError", statusClasses)
	responses.runner = openai == "openai"
	messages := row("@anthropic-ai/sdk", anthropic, anthropicVersion, "anthropic", "APIError", statusClasses)
	messages.threads = anthropic == "@anthropic-ai/sdk"
	gemini := row("@google/genai", google, googleVersion, "gemini", "ApiError", map[int]string{404: "ApiError", 429: "ApiError"})
	if google == "genai-1" {
		gemini.faults = map[string]fault{"cut": {
			report: `{"text":"half an ans","error":""}`,
			why: "it detects an error only in a read that is one JSON document. It therefore treats an event " +
				"`data: {\"error\":{\"code\":502,…}}` as a response without candidates, and a cut stream looks complete",
		}}
	}
	return []*surface{
		row("openai", openai, openaiVersion, "openai-chat", "APIError", statusClasses),
		responses,
		messages,
		gemini,
	}
}

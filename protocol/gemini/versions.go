package gemini

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Version is a version of the protocol, the first segment of the path. Bodies and
// streams are the same in all known versions.
type Version struct {
	Name   string
	Stable bool // its features do not change
	Latest bool // it knows the model names that end in -latest
}

// DefaultVersion is the version for upstreams without a configured one. Every
// upstream serves it.
const DefaultVersion = "v1beta"

// Versions lists the known versions.
func Versions() []Version {
	return []Version{
		{Name: "v1", Stable: true},
		{Name: DefaultVersion, Latest: true},
		{Name: "v1alpha"},
		{Name: "v1beta1"}, // Vertex's name for its beta
	}
}

// The verbs of a path.
const (
	Generate           = "generateContent"
	StreamGenerate     = "streamGenerateContent"
	CountTokens        = "countTokens"
	Embed              = "embedContent"
	BatchEmbed         = "batchEmbedContents"
	BatchGenerate      = "batchGenerateContent"
	AsyncBatchEmbed    = "asyncBatchEmbedContent"
	Predict            = "predict"
	PredictLongRunning = "predictLongRunning"
)

var verbs = []string{Generate, StreamGenerate, CountTokens, Embed, BatchEmbed, BatchGenerate, AsyncBatchEmbed, Predict, PredictLongRunning}

// Address is a parsed path.
type Address struct {
	Version string
	Model   string // without models/; a tuned model keeps tunedModels/
	Verb    string
}

// ParsePath parses a request's escaped path. It reports false if the path is not a
// model's method in this protocol, and for every HTTP method except POST and OPTIONS,
// because a model's id in a GET request may contain a colon. An unknown verb is an error.
//
// The model may contain slashes, escaped or not, and colons: the last colon of the last
// segment separates it from the verb.
func ParsePath(method, escaped string) (a Address, found bool, err *llm.Error) {
	if method != http.MethodPost && method != http.MethodOptions {
		return Address{}, false, nil
	}
	version, rest := splitVersion(escaped)
	model, ok := modelPath(rest)
	if version == "" || !ok {
		return Address{}, false, nil
	}
	head, tail := model[:strings.LastIndexByte(model, '/')+1], model[strings.LastIndexByte(model, '/')+1:]
	if !strings.Contains(tail, ":") {
		// Some clients escape the colon too; the slash keeps its meaning.
		tail = strings.ReplaceAll(strings.ReplaceAll(tail, "%3A", ":"), "%3a", ":")
	}
	colon := strings.LastIndexByte(tail, ':')
	if colon < 0 {
		return Address{}, false, nil
	}
	name, bad := url.PathUnescape(head + tail[:colon])
	if bad != nil || strings.TrimPrefix(name, "models/") == "" {
		return Address{}, true, notFound("the path names no model; write /" + version + "/models/{model}:" + Generate)
	}
	a = Address{Version: version, Model: strings.TrimPrefix(name, "models/"), Verb: tail[colon+1:]}
	if !slices.Contains(verbs, a.Verb) {
		return a, true, notFound(a.Verb + " is not a method of a model; write one of " + strings.Join(verbs, ", "))
	}
	return a, true, nil
}

func notFound(message string) *llm.Error {
	return &llm.Error{Kind: llm.NotFound, Code: "unknown_path", Message: message}
}

// splitVersion splits the version from a path. A client whose base URL ends in /v1 appends its
// own version. The last version of the path is used.
func splitVersion(path string) (version, rest string) {
	version, rest, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !knownVersion(version) {
		return "", ""
	}
	if inner, after, ok := strings.Cut(rest, "/"); ok && knownVersion(inner) {
		return inner, after
	}
	return version, rest
}

func knownVersion(name string) bool {
	return slices.ContainsFunc(Versions(), func(v Version) bool { return v.Name == name })
}

// modelPath returns the path from the model's name on.
func modelPath(rest string) (string, bool) {
	if strings.HasPrefix(rest, "tunedModels/") {
		return rest, true
	}
	if project, ok := strings.CutPrefix(rest, "projects/"); ok { // Vertex
		_, model, ok := strings.Cut(project, "/models/")
		return model, ok
	}
	return strings.CutPrefix(rest, "models/")
}

// Path returns the path of an upstream request.
func Path(version, model, verb string) string {
	if version == "" {
		version = DefaultVersion
	}
	model = strings.TrimPrefix(model, "models/")
	if !strings.HasPrefix(model, "tunedModels/") {
		model = "models/" + model
	}
	segments := strings.Split(model, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	p := "/" + version + "/" + strings.Join(segments, "/") + ":" + verb
	if verb == StreamGenerate {
		p += "?alt=sse"
	}
	return p
}

// generation returns the number in a model's name, such as 3 for gemini-3.1-pro. It is
// 0 for names without a number, and 3 for the aliases of the newest models.
func generation(model string) int {
	name, ok := strings.CutPrefix(model[strings.LastIndexByte(model, '/')+1:], "gemini-")
	switch {
	case !ok || name == "":
		return 0
	case strings.HasSuffix(name, "-latest"):
		return 3
	}
	n := 0
	for i := 0; i < len(name) && name[i] >= '0' && name[i] <= '9'; i++ {
		n = min(n*10+int(name[i]-'0'), 1000)
	}
	return n
}

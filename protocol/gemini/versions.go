package gemini

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Version is a version of the protocol. It stands at the head of the path; as far
// as is known it changes nothing in bodies and streams.
type Version struct {
	Name   string
	Stable bool // its features do not change
	Latest bool // it knows the model names that end in -latest
}

// DefaultVersion is what an upstream is asked in if nothing else is said: the
// one that every upstream serves.
const DefaultVersion = "v1beta"

// Versions lists the versions that are known.
func Versions() []Version {
	return []Version{
		{Name: "v1", Stable: true},
		{Name: DefaultVersion, Latest: true},
		{Name: "v1alpha"},
		{Name: "v1beta1"}, // Vertex's name for its beta
	}
}

// The verbs: what is asked of a model.
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

// Address is what a path says: the version, the model and what is asked of it.
type Address struct {
	Version string
	Model   string // without models/; a tuned model keeps tunedModels/
	Verb    string
}

// ParsePath reads a request's path, in its escaped form, where it is one of this
// protocol's calls of a model; found is false where it is not, as for every
// method but POST and OPTIONS: an id with a colon in it is a model's name there.
// A call whose verb nobody knows is an error.
//
// The model may hold slashes, escaped or not, and colons: only the last colon of
// the last segment parts it from the verb.
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
		return a, true, notFound("nothing called " + a.Verb + " can be asked of a model; write one of " + strings.Join(verbs, ", "))
	}
	return a, true, nil
}

func notFound(message string) *llm.Error {
	return &llm.Error{Kind: llm.NotFound, Code: "unknown_path", Message: message}
}

// splitVersion takes the version off a path. A client whose base address ends in
// /v1 writes its own version behind it; the inner one is meant.
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

// modelPath takes off what stands before the model's name.
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

// Path is where an upstream is asked.
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

// generation is the number in a model's name, such as 3 for gemini-3.1-pro. It is
// 0 for names that do not say, and counts aliases of the newest models as new.
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

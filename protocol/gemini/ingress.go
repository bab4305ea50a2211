package gemini

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Dialect describes the protocol to the gateway.
func Dialect() *codec.Dialect {
	routes := routes()
	return &codec.Dialect{
		Name:         protocol.Gemini,
		Codec:        Codec{},
		Routes:       routes,
		Locate:       func(req *http.Request) (codec.Location, bool, *llm.Error) { return locate(routes, req) },
		Claims:       claims,
		UpstreamPath: upstreamPath,
		Envelopes:    []*codec.Envelope{vertexEnvelope()},
		Members:      []string{"generationConfig"},
		Read:         readHead,
		Labels:       codec.Labels{Tags: "labels"}, // of Google Cloud's bill
		Prompt:       codec.Prompt{System: "systemInstruction", Tools: "tools", Turns: "contents"},
		Parameters: map[string][]string{"sampling.temperature": {"generationConfig.temperature"}, "sampling.top_p": {"generationConfig.topP"},
			"output.max_tokens": {"generationConfig.maxOutputTokens"}, "reasoning": {"generationConfig.thinkingConfig.thinkingLevel", "generationConfig.thinkingConfig.thinkingBudget"}},
		OtherNames:     snakeNames,
		SealMarks:      sealMarks,
		Unsigned:       unsigned,
		Finishes:       []string{"STOP", "MAX_TOKENS"},
		NamesMalformed: true,
		Overflow:       tooLong,
		Versions:       versions(),
		NoComments:     true, // Google's own clients fail on them

		StreamsOneChoice: true,
		NewAssembler:     newAssembler,

		OptionalCallIDs: true,
		NewArrayEncoder: func(*llm.Request) protocol.StreamEncoder {
			encoder := &StreamEncoder{}
			encoder.Array()
			return encoder
		},
		Setup:          codec.Setup{SDK: "Google Gen AI", Variable: "GOOGLE_GEMINI_BASE_URL"},
		Fields:         fields(),
		UpstreamModels: &codec.ModelSource{Path: "/v1beta/models?pageSize=1000", Read: readModels},
		Embed:          embedder(),
		State:          vendorState(),
		Count: &codec.Counter{DecodeRequest: DecodeCountRequest, EncodeRequest: EncodeCountRequest,
			DecodeResponse: DecodeCountResponse, EncodeResponse: EncodeCountResponse},
	}
}

// routes has one row for each verb.
func routes() []codec.Route {
	rows := []codec.Route{
		{Verb: Generate, Operation: codec.Generate, Span: "generate_content", Cacheable: cacheable()},
		{Verb: StreamGenerate, Operation: codec.Generate, Span: "generate_content", Cacheable: cacheable()},
		{Verb: CountTokens, Operation: codec.CountTokens, Cacheable: &codec.CacheRule{}},
		{Verb: Embed, Operation: codec.Embed, Span: "embeddings", Cacheable: &codec.CacheRule{}},
		{Verb: BatchEmbed, Operation: codec.Embed, Span: "embeddings", Cacheable: &codec.CacheRule{}},
		{Verb: BatchGenerate}, {Verb: AsyncBatchEmbed}, {Verb: Predict}, {Verb: PredictLongRunning},
	}
	for i := range rows {
		rows[i].Name = "gemini_" + rows[i].Verb
	}
	models := &codec.ModelList{List: listModels, One: listedModel}
	for _, v := range Versions() {
		for _, outer := range []string{"", "/v1"} { // clients add their version to a base URL that ends in /v1
			rows = append(rows, codec.Route{Name: "gemini_models", Operation: codec.ListModels, Path: outer + "/" + v.Name + "/models", Models: models, Own: outer != ""})
		}
	}
	return rows
}

func versions() *codec.Versions {
	v := &codec.Versions{SameBodies: true}
	for _, known := range Versions() {
		v.Known = append(v.Known, codec.Version{Name: known.Name})
	}
	return v
}

func listModels(models []codec.Model) []byte {
	b := []byte(`{"models":[`)
	for i, m := range models {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, listedModel(m)...)
	}
	return append(b, "]}"...)
}

func listedModel(m codec.Model) []byte {
	b := append([]byte(`{"name":`), quote("models/"+m.ID)...)
	b = append(append(b, `,"displayName":`...), quote(cmp.Or(m.Name, m.ID))...)
	if !m.Shutdown.IsZero() { // the API has no member of its own for it
		b = append(append(b, `,"description":`...), quote("Shuts down on "+m.Shutdown.UTC().Format(time.DateOnly)+".")...)
	}
	if m.Context > 0 {
		b = strconv.AppendInt(append(b, `,"inputTokenLimit":`...), m.Context, 10)
	}
	if m.MaxOutput > 0 {
		b = strconv.AppendInt(append(b, `,"outputTokenLimit":`...), m.MaxOutput, 10)
	}
	if slices.Contains(m.Capabilities, codec.Thinking) {
		b = append(b, `,"thinking":true`...)
	}
	return append(b, `,"supportedGenerationMethods":["generateContent","streamGenerateContent"]}`...)
}

// readModels reads a list. The names of models have a prefix.
func readModels(body []byte) ([]codec.Model, error) {
	entries, err := codec.ReadModelList(body, "models")
	if err != nil {
		return nil, err
	}
	list := make([]codec.Model, 0, len(entries))
	for _, e := range entries {
		m := codec.Model{ID: strings.TrimPrefix(e.Text("name"), "models/"), Name: e.Text("displayName"), Context: e.Int("inputTokenLimit"), MaxOutput: e.Int("outputTokenLimit")}
		if e.True("thinking") {
			m.Capabilities = []codec.Capability{codec.Thinking}
		}
		list = append(list, m)
	}
	return list, nil
}

// locate reads version, model and verb from a request's path.
func locate(routes []codec.Route, req *http.Request) (codec.Location, bool, *llm.Error) {
	a, found, err := ParsePath(req.Method, req.URL.EscapedPath())
	if !found || err != nil {
		return codec.Location{}, found, err
	}
	i := slices.IndexFunc(routes, func(r codec.Route) bool { return r.Verb == a.Verb })
	if i < 0 {
		return codec.Location{}, false, nil
	}
	stream := a.Verb == StreamGenerate
	return codec.Location{
		Route: &routes[i], URLPath: req.URL.EscapedPath(), Version: a.Version, Model: a.Model,
		Stream: stream, Array: stream && req.URL.Query().Get("alt") != "sse",
	}, true, nil
}

// readHead takes model and stream flag from the path and the limits from generationConfig.
func readHead(at codec.Location, body *wire.Index) (codec.Head, *llm.Error) {
	head := codec.Head{Model: at.Model, Stream: at.Stream}
	// Google's servers read both spellings.
	for _, name := range [...]string{"generationConfig", "generation_config"} {
		if body.Raw(name).Kind() != '{' {
			continue
		}
		config, err := body.Object(name)
		if err != nil {
			continue
		}
		head.MaxOutput = max(head.MaxOutput, codec.MaxOutput(config.Raw("maxOutputTokens"), config.Raw("max_output_tokens")))
		for _, member := range [...]string{"candidateCount", "candidate_count"} {
			n, err := codec.ReadCount(name+"."+member, config.Raw(member))
			if err != nil {
				return head, err
			}
			head.Generated = max(head.Generated, n)
			head.Choices = int(head.Generated)
		}
	}
	head.Inner = innerModels(body)
	return head, nil
}

// innerModels returns the names that repeat the model of the path, in the body and in the
// requests of a batch.
func innerModels(body *wire.Index) []codec.InnerModel {
	list := codec.FindModels(body, "model", "requests[].model", "generateContentRequest.model", "batch.model",
		"batch.inputConfig.requests.requests[].request.model")
	for i := range list {
		m := &list[i]
		m.Same, m.Prefix = true, modelPrefix
		m.Name = strings.TrimPrefix(m.Name, modelPrefix)
	}
	return list
}

// modelPrefix is what a body has before the name of a model.
const modelPrefix = "models/"

// claims recognizes Google's clients by how they send their key, by a version that no
// other dialect has, and by a verb.
func claims(req *http.Request) bool {
	h := req.Header
	if h.Get("X-Goog-Api-Key") != "" || h.Get("X-Goog-Api-Client") != "" || req.URL.Query().Get("key") != "" {
		return true
	}
	if version, _ := splitVersion(req.URL.Path); version != "" && version != "v1" {
		return true
	}
	// A version that is not known does not make it another dialect's path.
	_, rest, _ := strings.Cut(strings.TrimPrefix(req.URL.EscapedPath(), "/"), "/")
	_, found, _ := ParsePath(req.Method, "/v1/"+rest)
	return found
}

// upstreamPath is the client's verb on the target's model and in the target's version.
func upstreamPath(at codec.Location, target protocol.Target, stream bool) (string, *llm.Error) {
	verb := at.Verb
	if at.Operation == codec.Generate && stream {
		verb = StreamGenerate
	}
	version := target.Version
	if version == "" {
		version = at.Version
		knows := slices.ContainsFunc(Versions(), func(v Version) bool { return v.Name == version && v.Latest })
		if strings.HasSuffix(target.Model, "-latest") && !knows {
			version = DefaultVersion // VER-22
		}
	}
	return Path(version, target.Model, verb), nil
}

// cacheable returns the rule for generated content. cachedContent is not in it, because
// the vendor stores it.
func cacheable() *codec.CacheRule {
	members := codec.AllowMembers(map[string]codec.MemberRule{"generationConfig": cacheableConfig(), "tools": onlyFunctions},
		"contents", "systemInstruction", "system_instruction", "safetySettings", "safety_settings", "toolConfig", "tool_config", "labels")
	return &codec.CacheRule{Members: members, Required: []string{"generationConfig"}}
}

// cacheableConfig returns the rule for generationConfig. It knows the names of the JSON
// form only; a request with the other spelling is not cached.
func cacheableConfig() codec.MemberRule {
	rule := codec.CacheRule{Required: []string{"temperature"}, Members: codec.AllowMembers(
		map[string]codec.MemberRule{"temperature": codec.OnlyZero, "candidateCount": codec.OnlyOne},
		"topP", "topK", "seed", "maxOutputTokens", "stopSequences", "responseMimeType", "responseSchema", "responseJsonSchema",
		"presencePenalty", "frequencyPenalty", "thinkingConfig", "responseLogprobs", "logprobs")}
	return func(v jsontext.Value) bool {
		var members map[string]jsontext.Value // duplicate names are an error
		if json.Unmarshal(v, &members) != nil {
			return false
		}
		return rule.Allows(func(yield func(string, []byte) bool) {
			for name, value := range members {
				if !yield(name, value) {
					return
				}
			}
		})
	}
}

// onlyFunctions allows tools that declare functions; every other kind runs at the vendor.
func onlyFunctions(v jsontext.Value) bool {
	var tools []map[string]jsontext.Value
	if json.Unmarshal(v, &tools) != nil {
		return false
	}
	for _, t := range tools {
		for kind := range t {
			if kind != "functionDeclarations" && kind != "function_declarations" {
				return false
			}
		}
	}
	return true
}

// fields says where a request has the fields of the neutral model.
func fields() codec.Fields {
	const config = "generationConfig."
	return codec.Fields{Turns: "contents", System: "systemInstruction", Parts: "parts", Block: fieldOfBlock, Names: [][2]string{
		{"sampling.temperature", config + "temperature"}, {"sampling.top_p", config + "topP"}, {"sampling.top_k", config + "topK"}, {"sampling.seed", config + "seed"},
		{"sampling.frequency_penalty", config + "frequencyPenalty"}, {"sampling.presence_penalty", config + "presencePenalty"}, {"sampling", "generationConfig"},
		{"output.max_tokens", config + "maxOutputTokens"}, {"output.stops", config + "stopSequences"}, {"output.choices", config + "candidateCount"},
		{"output.format.schema", config + "responseSchema"}, {"output.format", config + "responseMimeType"}, {"output.modalities", config + "responseModalities"},
		{"output.logprobs", config + "responseLogprobs"}, {"output.top_logprobs", config + "logprobs"},
		{"reasoning.effort", config + "thinkingConfig.thinkingLevel"}, {"reasoning.budget", config + "thinkingConfig.thinkingBudget"},
		{"reasoning.show", config + "thinkingConfig.includeThoughts"}, {"reasoning", config + "thinkingConfig"},
		{"service.tier", "serviceTier"}, {"state.store", "store"}, {"state.cached_prompt", "cachedContent"}, {"tool_choice", "toolConfig.functionCallingConfig"},
	}}
}

// fieldOfBlock returns the path of a block below its content. The decoder reads function
// responses before the other parts.
func fieldOfBlock(content wire.Raw, before []llm.Block, b llm.Block) string {
	isResult := func(b llm.Block) bool { _, ok := b.(*llm.ToolResult); return ok }
	left := 0
	for _, other := range before {
		if isResult(other) == isResult(b) {
			left++
		}
	}
	var c struct {
		Parts []map[string]wire.Raw `json:"parts"`
	}
	if json.Unmarshal(content, &c, wire.Lenient) != nil {
		return ".parts"
	}
	for i, part := range c.Parts {
		if _, result := part["functionResponse"]; result != isResult(b) {
			continue
		}
		if left == 0 {
			return "." + codec.At("parts", i)
		}
		left--
	}
	return ".parts"
}

// The quoted names of members, in both spellings.
var (
	sealMarks   = []string{`"thoughtSignature"`, `"thought_signature"`}
	callMarks   = []string{`"functionCall"`, `"function_call"`}
	resultMarks = []string{`"functionResponse"`, `"function_response"`}
)

// unsigned reports whether the current turn has a call without a signature, which models of the third
// generation reject. The current turn begins after the last message of the user that is no result.
// GEM-08
func unsigned(body *wire.Index, model string) bool {
	contents := body.Raw("contents")
	if generation(model) < 3 || contents.Kind() != '[' || !hasAny(contents, callMarks) {
		return false
	}
	missing := false
	s := wire.NewScanner(contents)
	for range s.Items() {
		content := s.Value()
		switch {
		case hasAny(content, callMarks):
			missing = missing || !hasAny(content, sealMarks)
		case !hasAny(content, resultMarks) && !bytes.Contains(content, []byte(`"`+roleModel+`"`)):
			missing = false // the user speaks
		}
	}
	return missing
}

// hasAny reports whether a text has one of the names. A name inside a string has escaped quotes.
func hasAny(text wire.Raw, names []string) bool {
	for _, name := range names {
		if bytes.Contains([]byte(text), []byte(name)) {
			return true
		}
	}
	return false
}

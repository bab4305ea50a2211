package converse

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// EncodeRequest encodes a request. Its path names the model.
func (Codec) EncodeRequest(req *llm.Request, target protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	e, err := encodeRequest(req, target, report)
	if err != nil {
		return protocol.Outgoing{}, err
	}
	return e.outgoing()
}

func encodeRequest(req *llm.Request, target protocol.Target, report *llm.Report) (*requestEncoder, *llm.Error) {
	if target.Model == "" {
		target.Model = req.Model
	}
	if _, err := path(target.Model, req.Stream); err != nil {
		return nil, err
	}
	e := &requestEncoder{req: req, target: target, report: report, home: req.Ext.Protocol == own, names: newNames(), documents: protocol.UniqueIDs{}}
	e.family = e.familyOf(target.Model)
	e.encode()
	return e, report.Err()
}

// outgoing returns the encoded request.
func (e *requestEncoder) outgoing() (protocol.Outgoing, *llm.Error) {
	to, err := path(e.target.Model, e.req.Stream)
	if err != nil {
		return protocol.Outgoing{}, err
	}
	body, fault := wire.Marshal(&e.out)
	if fault != nil {
		return protocol.Outgoing{}, &llm.Error{Kind: llm.Internal, Message: "the request cannot be written for the upstream", Cause: fault}
	}
	return protocol.Outgoing{Body: body, Path: to, Names: e.names.undo}, nil
}

// requestEncoder encodes one request.
type requestEncoder struct {
	req    *llm.Request
	target protocol.Target
	report *llm.Report
	home   bool // the client speaks this protocol
	family family
	out    Request
	names  *names
	notes  []string // instructions in place of settings that the protocol lacks

	pairs     pairs
	drafts    []draft
	moved     []wire.Raw         // blocks of an assistant turn that only user messages may hold
	documents protocol.UniqueIDs // the names of documents

	forced      bool // a tool must be called
	fromHistory bool // the declared tools are those that earlier turns called
}

// nested are the members of a request whose unknown members are kept under their names.
var nested = []string{"inferenceConfig", "additionalModelRequestFields", "outputConfig", "serviceTier", "toolConfig"}

func (e *requestEncoder) encode() {
	if e.home {
		e.out.Extra = extraOf(withoutMarks(without(e.req.Ext, nested...)))
	} else {
		protocol.DropExt(e.report, "ext", e.req.Ext, protocol.Converse)
	}
	e.output()
	e.tools()
	e.toolChoice()
	e.format()
	e.reasoning()
	e.sampling()
	e.cacheAndState()
	e.identity()
	e.foreign()
	e.conversation()
	e.system()
	e.rest()
}

// rest writes objects that have only unknown members.
func (e *requestEncoder) rest() {
	has := func(name string) bool { return len(restOf(e.req.Ext, name).All()) > 0 }
	if has("inferenceConfig") {
		e.inference()
	}
	if has("additionalModelRequestFields") {
		e.additional()
	}
	if has("outputConfig") {
		e.outputConfig()
	}
}

// inference, additional and outputConfig return objects of the request. They create them at
// the first use, with the unknown members that a client of this protocol sent.
func (e *requestEncoder) inference() *InferenceConfig {
	if !e.out.InferenceConfig.IsSet() {
		e.out.InferenceConfig = wire.Some(InferenceConfig{Extra: restOf(e.req.Ext, "inferenceConfig")})
	}
	return e.out.InferenceConfig.Ptr()
}

func (e *requestEncoder) additional() *AdditionalFields {
	if !e.out.AdditionalFields.IsSet() {
		e.out.AdditionalFields = wire.Some(AdditionalFields{Extra: restOf(e.req.Ext, "additionalModelRequestFields")})
	}
	return e.out.AdditionalFields.Ptr()
}

func (e *requestEncoder) outputConfig() *OutputConfig {
	if !e.out.OutputConfig.IsSet() {
		e.out.OutputConfig = wire.Some(OutputConfig{Extra: restOf(e.req.Ext, "outputConfig")})
	}
	return e.out.OutputConfig.Ptr()
}

func (e *requestEncoder) output() {
	o := e.req.Output
	switch n := o.MaxTokens; {
	case n == nil:
	case *n == 0 && !e.home:
		e.report.Refuse("output.max_tokens", "max_tokens.zero", "a limit is at least 1")
	default:
		e.inference().MaxTokens = wire.Some(wire.Int(*n))
	}
	e.stops(o.Stops)
	if value(o.Choices) > 1 {
		e.report.Refuse("output.choices", "n.unsupported", "the protocol returns one choice per request")
	}
	for _, m := range o.Modalities {
		if !strings.EqualFold(m, "text") {
			e.report.Refuse("output.modalities", "modality.unsupported", "responses are text only, not "+m)
		}
	}
	e.dropIf(o.Verbosity != "", "output.verbosity", "verbosity.unsupported")
	e.dropIf(o.Logprobs != nil && *o.Logprobs || value(o.TopLogprobs) > 0, "output.logprobs", "logprobs.unsupported")
}

// stopPath is the member of Claude's response that names the stop sequence.
const stopPath = "/stop_sequence"

// stops encodes the stop sequences. The API rejects empty ones, and Claude blank ones.
func (e *requestEncoder) stops(list []string) {
	var paths []string
	if raw := e.req.Ext.Get(protocol.MarkPrefix + "additionalModelResponseFieldPaths"); raw != "" && e.home {
		_ = wire.Unmarshal([]byte(raw), &paths) // it was written by the decoder
	}
	if e.target.Gates.NoStop {
		e.dropIf(len(list) > 0, "output.stops", "stop.unsupported_by_model")
		list = nil
	}
	var stops []wire.Text
	for _, s := range list {
		if isBlank(s) && !e.home {
			e.report.Drop("output.stops", "stop.blank", "a stop sequence must hold more than white space")
			continue
		}
		stops = append(stops, wire.NewText(s))
	}
	if len(stops) > 0 {
		e.inference().StopSequences = wire.Some(stops)
		if e.family == claude && !e.home && !slices.Contains(paths, stopPath) {
			paths = append(paths, stopPath)
		}
	}
	if paths != nil {
		e.out.ResponsePaths = wire.Some(paths)
	}
}

// dropIf reports a setting that the protocol does not have.
func (e *requestEncoder) dropIf(set bool, at, code string) {
	if set {
		e.report.Drop(at, code, "the protocol has no counterpart, or the model refuses it")
	}
}

// format encodes the format of a structured response.
func (e *requestEncoder) format() {
	f := e.req.Output.Format
	protocol.DropExt(e.report, "output.format", f.Ext, protocol.Converse)
	switch f.Kind {
	case "", "text":
		return
	case "json_object":
		e.report.Approximate("output.format", "format.json_object", "the protocol has no JSON mode; the model is instructed to respond in JSON")
		e.notes = append(e.notes, "Answer with one JSON object and nothing else: no prose before or after it, no code fence.")
		return
	}
	if f.Schema == "" {
		e.report.Refuse("output.format.schema", "format.schema", "structured output needs a schema")
		return
	}
	if f.Kind == "enum" {
		e.report.Approximate("output.format", "format.enum", "the value comes as a JSON string")
	}
	if f.Strict != nil && !*f.Strict {
		e.report.Approximate("output.format.strict", "format.strict", "a schema is always strict")
	}
	s := JSONSchema{Schema: wire.Some(wire.NewText(string(wire.Compact(wire.Raw(f.Schema))))), Name: wire.NonZero(wire.NewText(f.Name)),
		Description: wire.NonZero(wire.NewText(f.Description)), Extra: extraOf(f.Ext)}
	if f.Ext.Protocol == own {
		s.Schema = wire.Some(wire.NewText(string(f.Schema)))
	}
	e.outputConfig().TextFormat = wire.Some(TextFormat{Type: wire.Some("json_schema"), Structure: wire.Some(Structure{JSONSchema: wire.Some(s)})})
}

func (e *requestEncoder) sampling() {
	s := e.req.Sampling
	e.dropIf(s.FrequencyPenalty != "", "sampling.frequency_penalty", "frequency_penalty.unsupported")
	e.dropIf(s.PresencePenalty != "", "sampling.presence_penalty", "presence_penalty.unsupported")
	e.dropIf(s.Seed != "", "sampling.seed", "seed.unsupported")
	e.dropIf(s.LogitBias != "", "sampling.logit_bias", "logit_bias.unsupported")
	if e.target.Gates.NoSampling {
		e.dropIf(s.Temperature != "", "sampling.temperature", "temperature.unsupported_by_model")
		e.dropIf(s.TopP != "", "sampling.top_p", "top_p.unsupported_by_model")
		e.dropIf(s.TopK != "", "sampling.top_k", "top_k.unsupported_by_model")
		return
	}
	if atLeast(s.Temperature, 1) && !isOne(s.Temperature) {
		e.report.Approximate("sampling.temperature", "temperature.clamped", "the protocol's range ends at 1")
		s.Temperature = "1"
	}
	if !e.home && s.Temperature != "" && s.TopP != "" && e.family == claude { // newer models reject both at once; 1 has no effect
		switch {
		case isOne(s.TopP):
			s.TopP = ""
		case isOne(s.Temperature):
			s.Temperature = ""
		}
	}
	if e.target.Gates.OneSampling && s.Temperature != "" && s.TopP != "" {
		e.report.Drop("sampling.top_p", "top_p.with_temperature", "the model takes temperature or top_p, not both")
		s.TopP = ""
	}
	if typ := e.out.AdditionalFields.Value().Thinking.Value().Type.Value(); typ != "" && typ != "disabled" && !e.home {
		e.samplingWithThinking(&s)
	}
	if s.Temperature != "" {
		e.inference().Temperature = wire.Some(wire.Number(s.Temperature))
	}
	if s.TopP != "" {
		e.inference().TopP = wire.Some(wire.Number(s.TopP))
	}
	e.topK(s.TopK)
}

// topK encodes top_k, which only some models take, each under its own name.
func (e *requestEncoder) topK(n llm.Number) {
	switch {
	case n == "":
	case e.family == claude, e.home:
		e.additional().TopK = wire.Some(wire.Number(n))
	case e.family == nova:
		e.additional().Extra.Set("inferenceConfig", member("topK", wire.Raw(n)))
	default:
		e.report.Drop("sampling.top_k", "top_k.unsupported_by_model", "nothing is known of a name that the model has for it")
	}
}

// samplingWithThinking removes the sampling settings that Claude rejects while thinking is
// on.
func (e *requestEncoder) samplingWithThinking(s *llm.Sampling) {
	if s.Temperature != "" && !isOne(s.Temperature) {
		e.report.Drop("sampling.temperature", "temperature.with_thinking", "a model that thinks takes no temperature but 1")
		s.Temperature = ""
	}
	if s.TopP != "" && !atLeast(s.TopP, 0.95) {
		e.report.Drop("sampling.top_p", "top_p.with_thinking", "a model that thinks takes no top_p below 0.95")
		s.TopP = ""
	}
	if s.TopK != "" {
		e.report.Drop("sampling.top_k", "top_k.with_thinking", "a model that thinks takes no top_k")
		s.TopK = ""
	}
}

// atLeast reports whether a number is set and at least limit.
func atLeast(n llm.Number, limit float64) bool {
	f, err := wire.Number(n).Float64()
	return err == nil && f >= limit
}

// isOne reports whether a number is 1 in any notation.
func isOne(n llm.Number) bool {
	f, err := wire.Number(n).Float64()
	return err == nil && f == 1
}

func (e *requestEncoder) cacheAndState() {
	e.dropIf(e.req.Cache.Key != "", "cache.key", "cache.key_unsupported")
	e.dropIf(e.req.Cache.Retention != "", "cache.retention", "cache.retention_unsupported")
	s := e.req.State
	if s.PreviousID != "" {
		e.report.Refuse("state.previous_id", "state.previous_response", "the vendor keeps no conversation; send all turns")
	}
	if s.Conversation != "" {
		e.report.Refuse("state.conversation", "state.conversation", "the vendor keeps no conversation; send all turns")
	}
	if s.Background != nil && *s.Background {
		e.report.Refuse("state.background", "state.background", "background responses are not supported")
	}
	if s.CachedPrompt != "" {
		e.report.Refuse("state.cached_prompt", "state.cached_prompt", "the prompt is cached by another vendor; send its content")
	}
	e.dropIf(s.Store != nil && *s.Store, "state.store", "store.unsupported")
	e.dropIf(s.Truncation != "" && s.Truncation != "disabled", "state.truncation", "truncation.unsupported")
}

// tiers are the service tiers of the protocol.
var tiers = []string{"priority", "default", "flex", "reserved"}

func (e *requestEncoder) identity() {
	id := e.req.Identity
	e.dropIf(id.User != "", "identity.user", "user.dropped")
	e.dropIf(id.SafetyID != "" && id.SafetyID != id.User, "identity.safety_id", "user.dropped")
	e.metadata(id.Metadata)
	tier := e.req.Service.Tier
	if speed := e.req.Service.Speed; speed != "" && speed != "standard" && tier == "" {
		e.report.Approximate("service.speed", "speed.as_tier", speed+" is sent as the tier priority")
		tier = "priority"
	}
	if tier == "standard" {
		tier = "default"
	}
	switch {
	case tier == "", tier == "auto" && !e.home:
	case e.home, slices.Contains(tiers, tier):
		e.out.ServiceTier = wire.Some(ServiceTier{Type: wire.Some(tier), Extra: restOf(e.req.Ext, "serviceTier")})
	default:
		e.report.Drop("service.tier", "tier.unsupported", "there is no counterpart of "+tier)
	}
}

// The limits of requestMetadata.
const (
	maxMetadata = 16
	maxLabel    = 256
)

// metadata encodes metadata as labels of the invocation log. Labels that the API rejects are
// dropped.
func (e *requestEncoder) metadata(list []llm.Member) {
	var labels wire.Object
	for _, m := range list {
		text, value := wire.Scalar(wire.Raw(m.Value)), wire.Raw(m.Value)
		if value.Kind() != '"' {
			value = quoted(text)
		}
		if !e.home && (len(labels) == maxMetadata || m.Name == "" || !isLabel(m.Name) || !isLabel(text)) {
			e.report.Drop("identity.metadata", "metadata.unsupported", "at most 16 short labels of letters, digits and some signs are sent")
			continue
		}
		labels = append(labels, wire.Member{Name: m.Name, Value: value})
	}
	if len(labels) > 0 {
		e.out.RequestMetadata = wire.Some(labels)
	}
}

// isLabel reports whether a text may be a name or a value of requestMetadata.
func isLabel(text string) bool {
	for _, r := range text {
		if r >= 0x80 || !llm.WordByte(byte(r)) && !strings.ContainsRune(" \t\n\r:@$#=/+,.", r) {
			return false
		}
	}
	return len(text) <= maxLabel
}

// maxName is the maximum length of a tool's name.
const maxName = 64

// names assigns each tool its name on the wire.
type names struct {
	sentAs map[llm.ToolRef]string // by name and namespace
	taken  map[string]bool
	undo   map[string]llm.ToolRef
}

func newNames() *names {
	return &names{sentAs: map[llm.ToolRef]string{}, taken: map[string]bool{}, undo: map[string]llm.ToolRef{}}
}

// sent returns a tool's name on the wire. A name in earlier turns refers to the tool that is
// declared under it.
func (n *names) sent(ref llm.ToolRef) string {
	key := llm.ToolRef{Name: ref.Name, Namespace: ref.Namespace}
	if s, ok := n.sentAs[key]; ok {
		return s
	}
	full := ref.Name
	if ref.Namespace != "" {
		full = ref.Namespace + "__" + ref.Name
	}
	s := llm.SafeName(full, maxName, llm.WordByte)
	for n.taken[s] {
		full += "\x00" // no name contains it, so the result hashes differently
		s = llm.SafeName(full, maxName, llm.WordByte)
	}
	n.sentAs[key], n.taken[s] = s, true
	if s != ref.Name || ref.Namespace != "" || ref.Kind == llm.CustomTool || ref.Kind == llm.SearchTool {
		n.undo[s] = ref
	}
	return s
}

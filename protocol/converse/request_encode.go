package converse

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/blockcodec"
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
	e := &requestEncoder{req: req, target: target, report: report, home: req.Ext.Protocol == own, names: blockcodec.NewNames(maxName), documents: protocol.UniqueIDs{}}
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
	return protocol.Outgoing{Body: body, Path: to, Names: e.names.Undo()}, nil
}

// requestEncoder encodes one request.
type requestEncoder struct {
	req    *llm.Request
	target protocol.Target
	report *llm.Report
	home   bool // the client speaks this protocol
	family family
	out    Request
	names  *blockcodec.Names
	notes  []string // instructions in place of settings that the protocol lacks

	pairs     blockcodec.Pairs
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
		e.out.Extra = kept.Extra(withoutMarks(blockcodec.Without(e.req.Ext, nested...)))
	} else {
		protocol.DropExt(e.report, "ext", e.req.Ext, protocol.Converse)
	}
	e.output()
	e.tools()
	e.toolChoice()
	e.format()
	e.reasoning()
	e.sampling()
	blockcodec.CacheAndState(e.report, e.req)
	e.identity()
	blockcodec.Foreign(e.report, e.req.Turns, protocol.Converse)
	e.conversation()
	e.system()
	e.rest()
}

// rest writes objects that have only unknown members.
func (e *requestEncoder) rest() {
	has := func(name string) bool { return len(kept.Rest(e.req.Ext, name).All()) > 0 }
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
		e.out.InferenceConfig = wire.Some(InferenceConfig{Extra: kept.Rest(e.req.Ext, "inferenceConfig")})
	}
	return e.out.InferenceConfig.Ptr()
}

func (e *requestEncoder) additional() *AdditionalFields {
	if !e.out.AdditionalFields.IsSet() {
		e.out.AdditionalFields = wire.Some(AdditionalFields{Extra: kept.Rest(e.req.Ext, "additionalModelRequestFields")})
	}
	return e.out.AdditionalFields.Ptr()
}

func (e *requestEncoder) outputConfig() *OutputConfig {
	if !e.out.OutputConfig.IsSet() {
		e.out.OutputConfig = wire.Some(OutputConfig{Extra: kept.Rest(e.req.Ext, "outputConfig")})
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
	if blockcodec.Value(o.Choices) > 1 {
		e.report.Refuse("output.choices", "n.unsupported", "the protocol returns one choice per request")
	}
	for _, m := range o.Modalities {
		if !strings.EqualFold(m, "text") {
			e.report.Refuse("output.modalities", "modality.unsupported", "responses are text only, not "+m)
		}
	}
	e.dropIf(o.Verbosity != "", "output.verbosity", "verbosity.unsupported")
	e.dropIf(o.Logprobs != nil && *o.Logprobs || blockcodec.Value(o.TopLogprobs) > 0, "output.logprobs", "logprobs.unsupported")
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
		if blockcodec.IsBlank(s) && !e.home {
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
	blockcodec.DropIf(e.report, set, at, code)
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
		Description: wire.NonZero(wire.NewText(f.Description)), Extra: kept.Extra(f.Ext)}
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
	if blockcodec.AtLeast(s.Temperature, 1) && !blockcodec.IsOne(s.Temperature) {
		e.report.Approximate("sampling.temperature", "temperature.clamped", "the protocol's range ends at 1")
		s.Temperature = "1"
	}
	if !e.home && s.Temperature != "" && s.TopP != "" && e.family == claude { // newer models reject both at once; 1 has no effect
		switch {
		case blockcodec.IsOne(s.TopP):
			s.TopP = ""
		case blockcodec.IsOne(s.Temperature):
			s.Temperature = ""
		}
	}
	if e.target.Gates.OneSampling && s.Temperature != "" && s.TopP != "" {
		e.report.Drop("sampling.top_p", "top_p.with_temperature", "the model takes temperature or top_p, not both")
		s.TopP = ""
	}
	if typ := e.out.AdditionalFields.Value().Thinking.Value().Type.Value(); typ != "" && typ != "disabled" && !e.home {
		blockcodec.SamplingWithThinking(e.report, &s)
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
		e.additional().Extra.Set("inferenceConfig", blockcodec.Member("topK", wire.Raw(n)))
	default:
		e.report.Drop("sampling.top_k", "top_k.unsupported_by_model", "nothing is known of a name that the model has for it")
	}
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
		e.out.ServiceTier = wire.Some(ServiceTier{Type: wire.Some(tier), Extra: kept.Rest(e.req.Ext, "serviceTier")})
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
			value = blockcodec.Quoted(text)
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

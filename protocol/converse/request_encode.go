package converse

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
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
	home := req.Ext.Protocol == own
	e := &requestEncoder{documents: codec.UniqueIDs{}, RequestEncoder: blockcodec.RequestEncoder{Own: protocol.Converse, Req: req, Target: target, Report: report,
		Home: home, Names: blockcodec.NewNames(maxName)}}
	e.Form, e.Alternate, e.MidSystem = e, !home, home || target.Gates.MidSystem // a client of this protocol divides its messages itself
	e.family = e.familyOf(target.Model)
	e.encode()
	return e, report.Err()
}

// outgoing returns the encoded request.
func (e *requestEncoder) outgoing() (protocol.Outgoing, *llm.Error) {
	to, err := path(e.Target.Model, e.Req.Stream)
	if err != nil {
		return protocol.Outgoing{}, err
	}
	body, fault := wire.Marshal(&e.out)
	if fault != nil {
		return protocol.Outgoing{}, &llm.Error{Kind: llm.Internal, Message: "the request cannot be written for the upstream", Cause: fault}
	}
	return protocol.Outgoing{Body: body, Path: to, Names: e.Names.Undo()}, nil
}

// requestEncoder encodes one request.
type requestEncoder struct {
	blockcodec.RequestEncoder

	family    family
	out       Request
	documents codec.UniqueIDs // the names of documents
}

// nested are the members of a request whose unknown members are kept under their names.
var nested = []string{"inferenceConfig", "additionalModelRequestFields", "outputConfig", "serviceTier", "toolConfig"}

func (e *requestEncoder) encode() {
	if e.Home {
		e.out.Extra = kept.Extra(withoutMarks(blockcodec.Without(e.Req.Ext, nested...)))
	} else {
		codec.DropExt(e.Report, "ext", e.Req.Ext, protocol.Converse)
	}
	e.output()
	e.tools()
	e.toolChoice()
	e.format()
	e.reasoning()
	e.sampling()
	blockcodec.CacheAndState(e.Report, e.Req)
	e.identity()
	blockcodec.Foreign(e.Report, e.Req.Turns, protocol.Converse)
	e.conversation()
	e.system()
	e.rest()
}

// rest writes objects that have only unknown members.
func (e *requestEncoder) rest() {
	has := func(name string) bool { return len(kept.Rest(e.Req.Ext, name).All()) > 0 }
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
		e.out.InferenceConfig = wire.Some(InferenceConfig{Extra: kept.Rest(e.Req.Ext, "inferenceConfig")})
	}
	return e.out.InferenceConfig.Ptr()
}

func (e *requestEncoder) additional() *AdditionalFields {
	if !e.out.AdditionalFields.IsSet() {
		e.out.AdditionalFields = wire.Some(AdditionalFields{Extra: kept.Rest(e.Req.Ext, "additionalModelRequestFields")})
	}
	return e.out.AdditionalFields.Ptr()
}

func (e *requestEncoder) outputConfig() *OutputConfig {
	if !e.out.OutputConfig.IsSet() {
		e.out.OutputConfig = wire.Some(OutputConfig{Extra: kept.Rest(e.Req.Ext, "outputConfig")})
	}
	return e.out.OutputConfig.Ptr()
}

func (e *requestEncoder) output() {
	o := e.Req.Output
	switch n := o.MaxTokens; {
	case n == nil:
	case *n == 0 && !e.Home:
		e.Report.Refuse("output.max_tokens", "max_tokens.zero", "a limit is at least 1")
	default:
		e.inference().MaxTokens = wire.Some(wire.Int(*n))
	}
	e.stops()
	e.Output()
}

// stopPath is the member of Claude's response that names the stop sequence.
const stopPath = "/stop_sequence"

// stops encodes the stop sequences.
func (e *requestEncoder) stops() {
	var paths []string
	if raw := e.Req.Ext.Get(codec.MarkPrefix + "additionalModelResponseFieldPaths"); raw != "" && e.Home {
		_ = wire.Unmarshal([]byte(raw), &paths) // it was written by the decoder
	}
	stops := e.Stops(e.Home)
	if len(stops) > 0 {
		e.inference().StopSequences = wire.Some(stops)
		if e.family == claude && !e.Home && !slices.Contains(paths, stopPath) {
			paths = append(paths, stopPath)
		}
	}
	if paths != nil {
		e.out.ResponsePaths = wire.Some(paths)
	}
}

func (e *requestEncoder) sampling() {
	s := e.Sampling(e.Target.Gates.NoSampling, e.family == claude)
	e.OneSampling(&s)
	if typ := e.out.AdditionalFields.Value().Thinking.Value().Type.Value(); typ != "" && typ != "disabled" && !e.Home {
		blockcodec.SamplingWithThinking(e.Report, &s)
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
	case e.family == claude, e.Home:
		e.additional().TopK = wire.Some(wire.Number(n))
	case e.family == nova:
		e.additional().Extra.Set("inferenceConfig", blockcodec.Member("topK", wire.Raw(n)))
	default:
		e.Report.Drop("sampling.top_k", "top_k.unsupported_by_model", "nothing is known of a name that the model has for it")
	}
}

// tiers are the service tiers of the protocol.
var tiers = []string{"priority", "default", "flex", "reserved"}

func (e *requestEncoder) identity() {
	id := e.Req.Identity
	e.DropIf(id.User != "", "identity.user", "user.dropped")
	e.DropIf(id.SafetyID != "" && id.SafetyID != id.User, "identity.safety_id", "user.dropped")
	e.metadata(id.Metadata)
	tier := e.Req.Service.Tier
	if speed := e.Req.Service.Speed; speed != "" && speed != "standard" && tier == "" {
		e.Report.Approximate("service.speed", "speed.as_tier", speed+" is sent as the tier priority")
		tier = "priority"
	}
	if tier == "standard" {
		tier = "default"
	}
	switch {
	case tier == "", tier == "auto" && !e.Home:
	case e.Home, slices.Contains(tiers, tier):
		e.out.ServiceTier = wire.Some(ServiceTier{Type: wire.Some(tier), Extra: kept.Rest(e.Req.Ext, "serviceTier")})
	default:
		e.Report.Drop("service.tier", "tier.unsupported", "there is no counterpart of "+tier)
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
		if !e.Home && (len(labels) == maxMetadata || m.Name == "" || !isLabel(m.Name) || !isLabel(text)) {
			e.Report.Drop("identity.metadata", "metadata.unsupported", "at most 16 short labels of letters, digits and some signs are sent")
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

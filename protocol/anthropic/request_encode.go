package anthropic

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/blockcodec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// defaultMaxTokens is sent if neither the client nor the model's configuration
// sets an output limit. The protocol requires one.
const defaultMaxTokens = 4096

const messagesPath = "/v1/messages"

// EncodeRequest encodes a messages request.
func (Codec) EncodeRequest(req *llm.Request, target protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	e, err := encodeRequest(req, target, report)
	if err != nil {
		return protocol.Outgoing{}, err
	}
	return e.outgoing(messagesPath)
}

// requestEncoder encodes one request.
type requestEncoder struct {
	req     *llm.Request
	target  protocol.Target
	version Version
	report  *llm.Report
	home    bool // the client speaks this protocol
	out     Request
	names   *blockcodec.Names
	notes   []string // instructions in place of settings that the protocol lacks

	pairs     blockcodec.Pairs
	drafts    []draft
	moved     []wire.Raw // blocks of an assistant turn that only user messages may hold
	maxTokens *int64
	defaulted bool

	forced      bool // a tool must be called
	fromHistory bool // the declared tools are those that earlier turns called
}

func encodeRequest(req *llm.Request, target protocol.Target, report *llm.Report) (*requestEncoder, *llm.Error) {
	s := req.Sampling
	sampled := (s.Temperature != "" || s.TopP != "" || s.TopK != "") && !target.Gates.NoSampling
	version, err := versionFor(target.Version, sampled)
	if err != nil {
		return nil, err
	}
	e := &requestEncoder{req: req, target: target, version: version, report: report,
		home: req.Ext.Protocol == own, names: blockcodec.NewNames(maxName)}
	e.out.Extra = e.extra()
	e.out.Model = wire.Some(target.Model)
	if target.Model == "" {
		e.out.Model = wire.Some(req.Model)
	}
	if len(kept.Rest(req.Ext, "output_config").All()) > 0 {
		e.outputConfig()
	}
	e.output()
	e.tools()
	e.toolChoice()
	e.format()
	e.reasoning()
	if e.defaulted {
		e.report.Approximate("output.max_tokens", "max_tokens.defaulted", "the protocol wants a limit: "+strconv.FormatInt(*e.maxTokens, 10))
	}
	e.sampling()
	e.cacheAndState()
	e.identity()
	blockcodec.Foreign(e.report, e.req.Turns, protocol.Anthropic)
	e.conversation()
	e.system()
	return e, nil
}

// outgoing returns the encoded request, or an error if the report refuses it.
func (e *requestEncoder) outgoing(path string) (protocol.Outgoing, *llm.Error) {
	if err := e.report.Err(); err != nil {
		return protocol.Outgoing{}, err
	}
	body, err := wire.Marshal(&e.out)
	if err != nil {
		return protocol.Outgoing{}, &llm.Error{Kind: llm.Internal, Message: "the request cannot be written for the upstream", Cause: err}
	}
	header := http.Header{}
	header.Set(VersionHeader, e.version.Name)
	return protocol.Outgoing{Body: body, Path: path, Header: header, Names: e.names.Undo()}, nil
}

// extra returns the request's unknown members.
func (e *requestEncoder) extra() wire.Extra {
	ext := e.req.Ext
	if e.home || len(ext.Members) == 0 {
		return kept.Extra(blockcodec.Without(ext, "metadata", "output_config", "tool_choice", "system"))
	}
	protocol.DropExt(e.report, "ext", ext, protocol.Anthropic)
	return wire.Extra{}
}

func (e *requestEncoder) output() {
	o := e.req.Output
	e.maxTokens = o.MaxTokens
	if o.MaxTokens == nil {
		n := e.target.Gates.MaxOutput
		if n == 0 {
			n = defaultMaxTokens
		}
		e.maxTokens, e.defaulted = &n, true
	}
	e.out.MaxTokens = wire.Some(wire.Int(*e.maxTokens))
	if e.req.Stream {
		e.out.Stream = wire.Some(true)
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

// stops encodes the stop sequences. The API rejects blank ones. CRQ-24
func (e *requestEncoder) stops(list []string) {
	if e.target.Gates.NoStop {
		e.dropIf(len(list) > 0, "output.stops", "stop.unsupported_by_model")
		return
	}
	var stops []wire.Text
	for _, s := range list {
		if strings.TrimSpace(s) == "" {
			e.report.Drop("output.stops", "stop.blank", "a stop sequence must hold more than white space")
			continue
		}
		stops = append(stops, wire.NewText(s))
	}
	if len(stops) > 0 {
		e.out.StopSequences = wire.Some(stops)
	}
}

// dropIf reports a setting that the protocol does not have.
func (e *requestEncoder) dropIf(set bool, at, code string) {
	blockcodec.DropIf(e.report, set, at, code)
}

func (e *requestEncoder) sampling() {
	s := e.req.Sampling
	e.dropIf(s.FrequencyPenalty != "", "sampling.frequency_penalty", "frequency_penalty.unsupported")
	e.dropIf(s.PresencePenalty != "", "sampling.presence_penalty", "presence_penalty.unsupported")
	e.dropIf(s.Seed != "", "sampling.seed", "seed.unsupported")
	e.dropIf(s.LogitBias != "", "sampling.logit_bias", "logit_bias.unsupported")
	if e.target.Gates.NoSampling || !e.version.Sampling {
		e.dropIf(s.Temperature != "", "sampling.temperature", "temperature.unsupported_by_model")
		e.dropIf(s.TopP != "", "sampling.top_p", "top_p.unsupported_by_model")
		e.dropIf(s.TopK != "", "sampling.top_k", "top_k.unsupported_by_model")
		return
	}
	if blockcodec.AtLeast(s.Temperature, 1) && !blockcodec.IsOne(s.Temperature) {
		e.report.Approximate("sampling.temperature", "temperature.clamped", "the protocol's range ends at 1")
		s.Temperature = "1"
	}
	if !e.home && s.Temperature != "" && s.TopP != "" { // newer models reject both at once; 1 has no effect. CRQ-19
		switch {
		case blockcodec.IsOne(s.TopP):
			s.TopP = ""
		case blockcodec.IsOne(s.Temperature):
			s.Temperature = ""
		case e.target.Gates.OneSampling:
			e.report.Drop("sampling.top_p", "top_p.with_temperature", "the model takes temperature or top_p, not both")
			s.TopP = ""
		}
	}
	if typ := e.out.Thinking.Value().Type.Value(); typ != "" && typ != "disabled" {
		blockcodec.SamplingWithThinking(e.report, &s)
	}
	e.out.Temperature, e.out.TopP, e.out.TopK = wire.NonZero(wire.Number(s.Temperature)), wire.NonZero(wire.Number(s.TopP)), wire.NonZero(wire.Number(s.TopK))
}

func (e *requestEncoder) cacheAndState() {
	e.out.CacheControl = e.cache("cache.auto", e.req.Cache.Auto)
	blockcodec.CacheAndState(e.report, e.req)
}

// cacheTTLs maps cache lifetimes of other vendors to those of this protocol.
var cacheTTLs = map[string]string{"": "", "5m": "5m", "1h": "1h", "30m": "1h", "12h": "1h", "24h": "1h"}

func (e *requestEncoder) cache(at string, mark *llm.CacheMark) wire.Opt[CacheControl] {
	if mark == nil {
		return wire.Opt[CacheControl]{}
	}
	ttl, known := cacheTTLs[mark.TTL]
	if e.home {
		ttl = mark.TTL
	} else if !known || ttl != mark.TTL {
		e.report.Approximate(at+".cache", "cache_ttl.rounded", mark.TTL+" is not among the lifetimes 5m and 1h")
	}
	protocol.DropExt(e.report, at+".cache", mark.Ext, protocol.Anthropic)
	return wire.Some(CacheControl{Type: wire.Some("ephemeral"), TTL: wire.NonZero(ttl), Extra: kept.Extra(mark.Ext)})
}

func (e *requestEncoder) identity() {
	id := e.req.Identity
	user := id.User
	if user == "" {
		user = id.SafetyID
	}
	e.dropIf(id.SafetyID != "" && id.SafetyID != user, "identity.safety_id", "user.dropped")
	if rest := kept.Rest(e.req.Ext, "metadata"); user != "" || len(rest.All()) > 0 {
		e.out.Metadata = wire.Some(Metadata{UserID: wire.NonZero(wire.NewText(user)), Extra: rest})
	}
	e.dropIf(len(id.Metadata) > 0, "identity.metadata", "metadata.unsupported")
	e.out.Speed = wire.NonZero(e.req.Service.Speed)
	switch tier := e.req.Service.Tier; tier {
	case "":
	case "auto":
		e.out.ServiceTier = wire.Some("auto")
	case "default", "standard":
		e.out.ServiceTier = wire.Some("standard_only")
	case "priority":
		e.report.Approximate("service.tier", "tier.mapped", "priority is sent as auto")
		e.out.ServiceTier = wire.Some("auto")
	default:
		if e.home {
			e.out.ServiceTier = wire.Some(tier)
			return
		}
		e.report.Drop("service.tier", "tier.unsupported", "there is no counterpart of "+tier)
	}
}

// maxName is the maximum length of a tool name and of an id.
const maxName = 128

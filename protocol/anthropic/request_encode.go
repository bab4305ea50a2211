package anthropic

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// defaultMaxTokens is sent where neither the client nor the model's entry says how
// long an answer may be: the protocol wants a number.
const defaultMaxTokens = 4096

const messagesPath = "/v1/messages"

// EncodeRequest writes a request for an upstream.
func (Codec) EncodeRequest(req *llm.Request, target protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	e, err := encodeRequest(req, target, report)
	if err != nil {
		return protocol.Outgoing{}, err
	}
	return e.outgoing(messagesPath)
}

// requestEncoder writes one request.
type requestEncoder struct {
	req     *llm.Request
	target  protocol.Target
	version Version
	report  *llm.Report
	home    bool // the request was made in this protocol
	out     Request
	names   *names
	notes   []string // instructions that stand for what the protocol cannot say

	pairs     pairs
	drafts    []draft
	moved     []wire.Raw // blocks of an assistant turn that only users may send
	maxTokens *int64
	defaulted bool

	forced      bool // a tool must be called
	fromHistory bool // the tools are those of earlier turns
}

func encodeRequest(req *llm.Request, target protocol.Target, report *llm.Report) (*requestEncoder, *llm.Error) {
	s := req.Sampling
	sampled := (s.Temperature != "" || s.TopP != "" || s.TopK != "") && !target.Gates.NoSampling
	version, err := versionFor(target.Version, sampled)
	if err != nil {
		return nil, err
	}
	e := &requestEncoder{req: req, target: target, version: version, report: report,
		home: req.Ext.Protocol == own, names: newNames()}
	e.out.Extra = e.extra()
	e.out.Model = wire.Some(target.Model)
	if target.Model == "" {
		e.out.Model = wire.Some(req.Model)
	}
	if len(restOf(req.Ext, "output_config").All()) > 0 {
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
	e.foreign()
	e.conversation()
	e.system()
	return e, nil
}

// outgoing is the request as it is sent, or the refusal that the losses amount to.
func (e *requestEncoder) outgoing(path string) (protocol.Outgoing, *llm.Error) {
	if err := e.report.Err(); err != nil {
		return protocol.Outgoing{}, err
	}
	body, err := requestShape.Marshal(&e.out)
	if err != nil {
		return protocol.Outgoing{}, &llm.Error{Kind: llm.Internal, Message: "the request cannot be written for the upstream", Cause: err}
	}
	header := http.Header{}
	header.Set(VersionHeader, e.version.Name)
	return protocol.Outgoing{Body: body, Path: path, Header: header, Names: e.names.undo}, nil
}

// extra is the request's own members that no field stands for.
func (e *requestEncoder) extra() wire.Extra {
	ext := e.req.Ext
	if e.home || len(ext.Members) == 0 {
		return extraOf(without(ext, "metadata", "output_config", "tool_choice", "system"))
	}
	if names := protocol.Lost(ext, protocol.Anthropic); len(names) > 0 {
		e.report.Drop("ext", "ext.unknown_field", strings.Join(names, ", "))
	}
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
	if value(o.Choices) > 1 {
		e.report.Refuse("output.choices", "n.unsupported", "the protocol gives one answer to a request")
	}
	for _, m := range o.Modalities {
		if !strings.EqualFold(m, "text") {
			e.report.Refuse("output.modalities", "modality.unsupported", "answers are text only, not "+m)
		}
	}
	e.dropIf(o.Verbosity != "", "output.verbosity", "verbosity.unsupported")
	e.dropIf(o.Logprobs != nil && *o.Logprobs || value(o.TopLogprobs) > 0, "output.logprobs", "logprobs.unsupported")
}

// stops writes the stop sequences; the vendor refuses blank ones. CRQ-24
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

// dropIf reports a value that the protocol has no place for.
func (e *requestEncoder) dropIf(set bool, at, code string) {
	if set {
		e.report.Drop(at, code, "the protocol has no counterpart, or the model refuses it")
	}
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
	if atLeast(s.Temperature, 1) && !isOne(s.Temperature) {
		e.report.Approximate("sampling.temperature", "temperature.clamped", "the protocol's range ends at 1")
		s.Temperature = "1"
	}
	if !e.home && s.Temperature != "" && s.TopP != "" { // newer models refuse both at once; 1 is no restriction. CRQ-19
		switch {
		case isOne(s.TopP):
			s.TopP = ""
		case isOne(s.Temperature):
			s.Temperature = ""
		}
	}
	if typ := e.out.Thinking.Value().Type.Value(); typ != "" && typ != "disabled" {
		e.thoughtfulSampling(&s)
	}
	e.out.Temperature, e.out.TopP, e.out.TopK = wireNumber(s.Temperature), wireNumber(s.TopP), wireNumber(s.TopK)
}

// thoughtfulSampling takes out what the vendor refuses while a model thinks. CRQ-21
func (e *requestEncoder) thoughtfulSampling(s *llm.Sampling) {
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

// atLeast reports whether a number is limit or more; an unset one is not.
func atLeast(n llm.Number, limit float64) bool {
	f, err := wire.Number(n).Float64()
	return err == nil && f >= limit
}

// isOne reports whether a number is 1, however it is spelled.
func isOne(n llm.Number) bool {
	f, err := wire.Number(n).Float64()
	return err == nil && f == 1
}

func wireNumber(n llm.Number) wire.Opt[wire.Number] {
	if n == "" {
		return wire.Opt[wire.Number]{}
	}
	return wire.Some(wire.Number(n))
}

func (e *requestEncoder) cacheAndState() {
	e.out.CacheControl = e.cache("cache.auto", e.req.Cache.Auto)
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
		e.report.Refuse("state.background", "state.background", "the vendor answers at once or not at all")
	}
	e.dropIf(s.Store != nil && *s.Store, "state.store", "store.unsupported")
	e.dropIf(s.Truncation != "" && s.Truncation != "disabled", "state.truncation", "truncation.unsupported")
}

// cacheTTLs are the protocol's lifetimes for other vendors' ones.
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
	return wire.Some(CacheControl{Type: wire.Some("ephemeral"), TTL: optString(ttl), Extra: extraOf(mark.Ext)})
}

func (e *requestEncoder) identity() {
	id := e.req.Identity
	user := id.User
	if user == "" {
		user = id.SafetyID
	}
	e.dropIf(id.SafetyID != "" && id.SafetyID != user, "identity.safety_id", "user.dropped")
	if rest := restOf(e.req.Ext, "metadata"); user != "" || len(rest.All()) > 0 {
		e.out.Metadata = wire.Some(Metadata{UserID: optText(user), Extra: rest})
	}
	e.dropIf(len(id.Metadata) > 0, "identity.metadata", "metadata.unsupported")
	e.out.Speed = optString(e.req.Service.Speed)
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

// path names an element of the neutral model.
func path(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

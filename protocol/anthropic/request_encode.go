package anthropic

import (
	"net/http"
	"strconv"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
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
	blockcodec.RequestEncoder

	version   Version
	out       Request
	maxTokens *int64
	defaulted bool
}

func encodeRequest(req *llm.Request, target protocol.Target, report *llm.Report) (*requestEncoder, *llm.Error) {
	s := req.Sampling
	sampled := (s.Temperature != "" || s.TopP != "" || s.TopK != "") && !target.Gates.NoSampling
	version, err := versionFor(target.Version, sampled)
	if err != nil {
		return nil, err
	}
	e := &requestEncoder{version: version, RequestEncoder: blockcodec.RequestEncoder{Own: protocol.Anthropic, Req: req, Target: target, Report: report,
		Home: req.Ext.Protocol == own, Names: blockcodec.NewNames(maxName)}}
	e.Form, e.IsPlain, e.MidSystem = e, isPlain, target.Gates.MidSystem
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
		e.Report.Approximate("output.max_tokens", "max_tokens.defaulted", "the protocol wants a limit: "+strconv.FormatInt(*e.maxTokens, 10))
	}
	e.sampling()
	e.cacheAndState()
	e.identity()
	blockcodec.Foreign(e.Report, e.Req.Turns, protocol.Anthropic)
	e.conversation()
	e.system()
	return e, nil
}

// outgoing returns the encoded request, or an error if the report refuses it.
func (e *requestEncoder) outgoing(path string) (protocol.Outgoing, *llm.Error) {
	if err := e.Report.Err(); err != nil {
		return protocol.Outgoing{}, err
	}
	body, err := wire.Marshal(&e.out)
	if err != nil {
		return protocol.Outgoing{}, &llm.Error{Kind: llm.Internal, Message: "the request cannot be written for the upstream", Cause: err}
	}
	header := http.Header{}
	header.Set(VersionHeader, e.version.Name)
	return protocol.Outgoing{Body: body, Path: path, Header: header, Names: e.Names.Undo()}, nil
}

// extra returns the request's unknown members.
func (e *requestEncoder) extra() wire.Extra {
	ext := e.Req.Ext
	if e.Home || len(ext.Members) == 0 {
		return kept.Extra(blockcodec.Without(ext, "metadata", "output_config", "tool_choice", "system"))
	}
	codec.DropExt(e.Report, "ext", ext, protocol.Anthropic)
	return wire.Extra{}
}

func (e *requestEncoder) output() {
	o := e.Req.Output
	e.maxTokens = o.MaxTokens
	if o.MaxTokens == nil {
		n := e.Target.Gates.MaxOutput
		if n == 0 {
			n = defaultMaxTokens
		}
		e.maxTokens, e.defaulted = &n, true
	}
	e.out.MaxTokens = wire.Some(wire.Int(*e.maxTokens))
	if e.Req.Stream {
		e.out.Stream = wire.Some(true)
	}
	if stops := e.Stops(false); len(stops) > 0 {
		e.out.StopSequences = wire.Some(stops)
	}
	e.Output()
}

func (e *requestEncoder) sampling() {
	s := e.Sampling(e.Target.Gates.NoSampling || !e.version.Sampling, true)
	if !e.Home {
		e.OneSampling(&s)
	}
	if typ := e.out.Thinking.Value().Type.Value(); typ != "" && typ != "disabled" {
		blockcodec.SamplingWithThinking(e.Report, &s)
	}
	e.out.Temperature, e.out.TopP, e.out.TopK = wire.NonZero(wire.Number(s.Temperature)), wire.NonZero(wire.Number(s.TopP)), wire.NonZero(wire.Number(s.TopK))
}

func (e *requestEncoder) cacheAndState() {
	e.out.CacheControl = e.cache("cache.auto", e.Req.Cache.Auto)
	blockcodec.CacheAndState(e.Report, e.Req)
}

func (e *requestEncoder) cache(at string, mark *llm.CacheMark) wire.Opt[CacheControl] {
	if mark == nil {
		return wire.Opt[CacheControl]{}
	}
	ttl := e.CacheTTL(at, mark)
	return wire.Some(CacheControl{Type: wire.Some("ephemeral"), TTL: wire.NonZero(ttl), Extra: kept.Extra(mark.Ext)})
}

func (e *requestEncoder) identity() {
	id := e.Req.Identity
	user := id.User
	if user == "" {
		user = id.SafetyID
	}
	e.DropIf(id.SafetyID != "" && id.SafetyID != user, "identity.safety_id", "user.dropped")
	if rest := kept.Rest(e.Req.Ext, "metadata"); user != "" || len(rest.All()) > 0 {
		e.out.Metadata = wire.Some(Metadata{UserID: wire.NonZero(wire.NewText(user)), Extra: rest})
	}
	e.DropIf(len(id.Metadata) > 0, "identity.metadata", "metadata.unsupported")
	e.out.Speed = wire.NonZero(e.Req.Service.Speed)
	switch tier := e.Req.Service.Tier; tier {
	case "":
	case "auto":
		e.out.ServiceTier = wire.Some("auto")
	case "default", "standard":
		e.out.ServiceTier = wire.Some("standard_only")
	case "priority":
		e.Report.Approximate("service.tier", "tier.mapped", "priority is sent as auto")
		e.out.ServiceTier = wire.Some("auto")
	default:
		if e.Home {
			e.out.ServiceTier = wire.Some(tier)
			return
		}
		e.Report.Drop("service.tier", "tier.unsupported", "there is no counterpart of "+tier)
	}
}

// maxName is the maximum length of a tool name and of an id.
const maxName = 128

package openaichat

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

const own = string(protocol.OpenAIChat)

// maxStops is the number of stop sequences that the API accepts.
const maxStops = 4

// EncodeRequest encodes the body of POST /v1/chat/completions.
func (Codec) EncodeRequest(req *llm.Request, target protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	e := requestEncoder{in: req, target: target, report: report, names: map[string]llm.ToolRef{}}
	e.out.Model = wire.Some(target.Model)
	e.messages()
	e.tools()
	e.output()
	e.sampling()
	e.identity()
	e.rest()
	if err := report.Err(); err != nil {
		return protocol.Outgoing{}, err
	}
	body, err := wire.Marshal(&e.out)
	if err != nil {
		return protocol.Outgoing{}, &llm.Error{Kind: llm.InvalidRequest, Message: "the request cannot be written as chat completions", Cause: err}
	}
	return protocol.Outgoing{Body: body, Path: "/v1/chat/completions", Header: http.Header{}, Names: e.names}, nil
}

// requestEncoder encodes one request from the neutral model.
type requestEncoder struct {
	in     *llm.Request
	out    Request
	target protocol.Target
	report *llm.Report
	names  map[string]llm.ToolRef
	ids    *pairing
}

func (e *requestEncoder) output() {
	o := e.in.Output
	if o.MaxTokens != nil {
		n := wire.Some(wire.Int(*o.MaxTokens))
		switch {
		case *o.MaxTokens == 0:
			e.report.Refuse("output.max_tokens", "max_tokens.zero", "a limit of 0 tokens only warms a cache, which this protocol cannot do")
		case e.target.Gates.MaxTokensName == "max_tokens":
			e.out.MaxTokens = n
		default:
			e.out.MaxCompletionTokens = n
		}
	}
	e.out.N = wire.IntFromPtr(o.Choices)
	e.out.Logprobs = wire.FromPtr(o.Logprobs)
	e.out.TopLogprobs = wire.IntFromPtr(o.TopLogprobs)
	if o.TopLogprobs != nil && o.Logprobs == nil && e.in.Ext.Protocol != own {
		e.out.Logprobs = wire.Some(true) // the API rejects top_logprobs without it
	}
	e.out.Verbosity = wire.NonZero(o.Verbosity)
	if len(o.Modalities) > 0 {
		e.out.Modalities = wire.Some(o.Modalities)
	}
	e.stops(o.Stops)
	e.format(o.Format)
	e.effort()
	if e.in.Stream {
		e.out.Stream = wire.Some(true)
		if e.in.IncludeUsage {
			e.out.StreamOptions = wire.Some(StreamOptions{IncludeUsage: wire.Some(true)})
		}
	}
}

func (e *requestEncoder) stops(stops []string) {
	switch {
	case len(stops) == 0:
	case e.target.Gates.NoStop:
		e.report.Drop("output.stops", "stop.unsupported_by_model", "this model takes no stop sequences")
	case len(stops) > maxStops:
		e.report.Refuse("output.stops", "stop.too_many", "at most "+strconv.Itoa(maxStops)+" stop sequences can be sent")
	default:
		e.out.Stop = wire.Some(Stop{Many: wire.Some(stops)})
	}
}

func (e *requestEncoder) sampling() {
	s := e.in.Sampling
	if e.target.Gates.NoSampling {
		if s.Temperature != "" || s.TopP != "" || s.FrequencyPenalty != "" || s.PresencePenalty != "" {
			e.report.Drop("sampling", "sampling.unsupported_by_model", "this model takes neither temperature nor top_p nor penalties")
		}
	} else {
		e.out.Temperature, e.out.TopP = wire.NonZero(wire.Number(s.Temperature)), wire.NonZero(wire.Number(s.TopP))
		e.out.FrequencyPenalty, e.out.PresencePenalty = wire.NonZero(wire.Number(s.FrequencyPenalty)), wire.NonZero(wire.Number(s.PresencePenalty))
	}
	e.out.Seed = wire.NonZero(wire.Number(s.Seed))
	if s.TopK != "" {
		e.report.Drop("sampling.top_k", "top_k.unsupported", "chat completions have no top_k")
	}
	if s.LogitBias != "" {
		var o wire.Object
		if json.Unmarshal([]byte(s.LogitBias), &o) == nil {
			e.out.LogitBias = wire.Some(o)
		}
	}
}

func (e *requestEncoder) identity() {
	in := e.in
	e.out.User = wire.NonZero(openai.ShortID(in.Identity.User, "identity.user", e.report))
	e.out.SafetyIdentifier = wire.NonZero(openai.ShortID(in.Identity.SafetyID, "identity.safety_id", e.report))
	if len(in.Identity.Metadata) > 0 {
		e.out.Metadata = wire.Some(codec.Object(in.Identity.Metadata))
	}
	switch tier := in.Service.Tier; {
	case tier == "ultrafast" && in.Ext.Protocol != own:
		e.report.Drop("service.tier", "tier.unsupported", "chat completions have no tier "+tier)
	default:
		e.out.ServiceTier = wire.NonZero(tier)
	}
	if in.Service.Speed == "fast" {
		e.out.ServiceTier = wire.Some("fast")
		e.report.Approximate("service.speed", "speed.as_tier", "the speed fast became the service tier fast")
	}
	e.out.PromptCacheKey, e.out.PromptCacheRetention = wire.NonZero(in.Cache.Key), wire.NonZero(in.Cache.Retention)
	if in.Cache.Auto != nil {
		e.report.Drop("cache.auto", "cache.automatic", "this protocol's servers cache by themselves")
	}
	e.out.Store = wire.FromPtr(in.State.Store)
	switch {
	case in.State.PreviousID != "":
		e.report.Refuse("state.previous_id", "state.previous_response", "the response that previous_response_id names is not stored here; send the complete conversation as input")
	case in.State.Conversation != "":
		e.report.Refuse("state.conversation", "state.conversation", "conversations are not stored here; send the complete conversation as input")
	case in.State.Background != nil && *in.State.Background:
		e.report.Refuse("state.background", "state.background", "background responses are not supported")
	case in.State.CachedPrompt != "":
		e.report.Refuse("state.cached_prompt", "state.cached_prompt", "the prompt is cached by another vendor; send its content")
	}
	if in.State.Truncation != "" && in.State.Truncation != "disabled" {
		e.report.Drop("state.truncation", "truncation.unsupported", "the conversation is sent as it is")
	}
}

// rest writes the members that only this protocol has, and reports those of other
// protocols.
func (e *requestEncoder) rest() {
	ext := e.in.Ext
	if ext.Protocol == own {
		for _, m := range ext.Members {
			if m.Name == "stream_options" {
				e.streamOptions(m.Value)
			} else {
				e.out.Extra.Set(m.Name, wire.Raw(m.Value))
			}
		}
		return
	}
	codec.DropExt(e.report, "ext", ext, protocol.OpenAIChat)
}

// streamOptions writes the client's stream options, with include_usage as the
// gateway needs it.
func (e *requestEncoder) streamOptions(raw llm.Raw) {
	var o StreamOptions
	if wire.Unmarshal([]byte(raw), &o) != nil {
		return
	}
	o.IncludeUsage = e.out.StreamOptions.Value().IncludeUsage
	e.out.StreamOptions = wire.Some(o)
}

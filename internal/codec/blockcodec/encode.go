package blockcodec

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// RequestForm encodes what differs between the protocols.
type RequestForm interface {
	TextBlock(text string) wire.Raw
	// Turn encodes the blocks of a turn except tool results.
	Turn(i int) []wire.Raw
	// Result encodes a tool result.
	Result(r Result) []wire.Raw
}

// RequestEncoder encodes what the requests of both protocols share.
type RequestEncoder struct {
	Form   RequestForm
	Own    protocol.Name
	Req    *llm.Request
	Target protocol.Target
	Report *llm.Report
	Home   bool // the client speaks this protocol
	Names  *Names
	Notes  []string // instructions in place of settings that the protocol lacks

	Conversation

	Forced      bool // a tool must be called
	FromHistory bool // the declared tools are those that earlier turns called
}

// DropIf reports a setting that the protocol does not have.
func (e *RequestEncoder) DropIf(set bool, at, code string) {
	DropIf(e.Report, set, at, code)
}

// Output reports the settings of the response that the protocols do not have.
func (e *RequestEncoder) Output() {
	o := e.Req.Output
	if Value(o.Choices) > 1 {
		e.Report.Refuse("output.choices", "n.unsupported", "the protocol returns one choice per request")
	}
	for _, m := range o.Modalities {
		if !strings.EqualFold(m, "text") {
			e.Report.Refuse("output.modalities", "modality.unsupported", "responses are text only, not "+m)
		}
	}
	e.DropIf(o.Verbosity != "", "output.verbosity", "verbosity.unsupported")
	e.DropIf(o.Logprobs != nil && *o.Logprobs || Value(o.TopLogprobs) > 0, "output.logprobs", "logprobs.unsupported")
}

// Stops returns the stop sequences. With blank it keeps those of white space only, which the
// APIs reject. CRQ-24
func (e *RequestEncoder) Stops(blank bool) []wire.Text {
	list := e.Req.Output.Stops
	if e.Target.Gates.NoStop {
		e.DropIf(len(list) > 0, "output.stops", "stop.unsupported_by_model")
		return nil
	}
	var stops []wire.Text
	for _, s := range list {
		if IsBlank(s) && !blank {
			e.Report.Drop("output.stops", "stop.blank", "a stop sequence must hold more than white space")
			continue
		}
		stops = append(stops, wire.NewText(s))
	}
	return stops
}

// Sampling returns the sampling settings. With none the model takes no sampling parameter. With one it takes either
// temperature or top_p.
func (e *RequestEncoder) Sampling(none, one bool) llm.Sampling {
	s := e.Req.Sampling
	e.DropIf(s.FrequencyPenalty != "", "sampling.frequency_penalty", "frequency_penalty.unsupported")
	e.DropIf(s.PresencePenalty != "", "sampling.presence_penalty", "presence_penalty.unsupported")
	e.DropIf(s.Seed != "", "sampling.seed", "seed.unsupported")
	e.DropIf(s.LogitBias != "", "sampling.logit_bias", "logit_bias.unsupported")
	if none {
		e.DropIf(s.Temperature != "", "sampling.temperature", "temperature.unsupported_by_model")
		e.DropIf(s.TopP != "", "sampling.top_p", "top_p.unsupported_by_model")
		e.DropIf(s.TopK != "", "sampling.top_k", "top_k.unsupported_by_model")
		return llm.Sampling{}
	}
	if AtLeast(s.Temperature, 1) && !IsOne(s.Temperature) {
		e.Report.Approximate("sampling.temperature", "temperature.clamped", "the protocol's range ends at 1")
		s.Temperature = "1"
	}
	if !e.Home && s.Temperature != "" && s.TopP != "" && one { // newer models reject both at once; 1 has no effect. CRQ-19
		switch {
		case IsOne(s.TopP):
			s.TopP = ""
		case IsOne(s.Temperature):
			s.Temperature = ""
		}
	}
	return s
}

// OneSampling drops top_p beside a temperature.
func (e *RequestEncoder) OneSampling(s *llm.Sampling) {
	if e.Target.Gates.OneSampling && s.Temperature != "" && s.TopP != "" {
		e.Report.Drop("sampling.top_p", "top_p.with_temperature", "the model takes temperature or top_p, not both")
		s.TopP = ""
	}
}

// cacheTTLs maps cache lifetimes of other vendors to those of the protocols.
var cacheTTLs = map[string]string{"": "", "5m": "5m", "1h": "1h", "30m": "1h", "12h": "1h", "24h": "1h"}

// CacheTTL returns the lifetime of a cache mark.
func (e *RequestEncoder) CacheTTL(at string, mark *llm.CacheMark) string {
	ttl, known := cacheTTLs[mark.TTL]
	if e.Home {
		ttl = mark.TTL
	} else if !known || ttl != mark.TTL {
		e.Report.Approximate(at+".cache", "cache_ttl.rounded", mark.TTL+" is not among the lifetimes 5m and 1h")
	}
	codec.DropExt(e.Report, at+".cache", mark.Ext, e.Own)
	return ttl
}

// Marshal encodes the block at a path, or refuses it.
func (e *RequestEncoder) Marshal(at string, block any) []wire.Raw {
	raw, err := wire.Marshal(block)
	if err != nil {
		e.Report.Refuse(at, "block.invalid", err.Error())
		return nil
	}
	return []wire.Raw{raw}
}

// ForeignSeals reports seals that only another vendor can read.
func (e *RequestEncoder) ForeignSeals(at string, seals []llm.Seal) {
	for _, s := range seals {
		e.DropIf(s.Origin != string(e.Own), at+".seals", "seal.foreign")
	}
}

// Citations returns the vendor's own citations.
func (e *RequestEncoder) Citations(at string, list []llm.Citation) []wire.Raw {
	raws := OwnCitations(list, string(e.Own))
	if len(raws) < len(list) {
		e.Report.Drop(at+".citations", "citation.foreign", "citations of another vendor")
	}
	return raws
}

// OwnCitations returns the citations of a protocol.
func OwnCitations(list []llm.Citation, own string) []wire.Raw {
	var raws []wire.Raw
	for _, c := range list {
		if c.Protocol == own && c.Raw != "" {
			raws = append(raws, wire.Raw(c.Raw))
		}
	}
	return raws
}

// HistoryText returns the text that replaces a block of an earlier turn without a counterpart, or the original block if
// it came from this protocol.
func (e *RequestEncoder) HistoryText(at string, b llm.Block) (string, wire.Raw) {
	own := string(e.Own)
	switch b := b.(type) {
	case *llm.Refusal:
		e.Report.Approximate(at, "refusal.as_text", "the protocol knows no refusal in history")
		return b.Text, nil
	case *llm.ServerCall:
		switch {
		case b.Protocol == own:
			return "", wire.Raw(b.Raw)
		case b.Digest == "":
			e.Report.Drop(at, "server_tool.dropped", "a call of another vendor's tool says nothing here")
		default:
			e.Report.Approximate(at, "server_tool.digest", "a call of another vendor's tool is sent as text")
		}
		return b.Digest, nil
	case *llm.Opaque:
		if b.Protocol == own {
			return "", wire.Raw(b.Raw)
		}
		e.Report.Refuse(at, "block.unknown", "a block of type "+b.Type+" has no counterpart") // CRQ-41
	}
	return "", nil
}

// ThoughtText returns the text of a thought.
func ThoughtText(t *llm.Thought) string {
	parts := make([]string, 0, len(t.Parts))
	for _, p := range t.Parts {
		parts = append(parts, p.Text)
	}
	return strings.Join(parts, PartBreak)
}

// Trim removes white space at the end of a response that the model has to continue, which the APIs reject. CRQ-07
func (e *RequestEncoder) Trim(i int, t *llm.Text) *llm.Text {
	short := e.trimmed(i, t.Text)
	if short == t.Text {
		return t
	}
	e.Report.Approximate(codec.At("turns", i), "text.trimmed", "white space at the end of a response to be continued")
	changed := *t
	changed.Text = short
	return &changed
}

func (e *RequestEncoder) trimmed(i int, text string) string {
	if i != len(e.Req.Turns)-1 || e.Req.Turns[i].Role != llm.Assistant {
		return text
	}
	return strings.TrimRight(text, " \t\r\n")
}

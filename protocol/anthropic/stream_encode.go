package anthropic

import (
	"cmp"
	"strconv"

	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
	"github.com/isogloss-gateway/isogloss/sse"
)

// NewStreamEncoder returns an encoder for one stream.
func (Codec) NewStreamEncoder(req *llm.Request) protocol.StreamEncoder {
	return &streamEncoder{requestedModel: answeringModel("", req)}
}

// streamEncoder writes the events of a response.
type streamEncoder struct {
	blockcodec.Stream

	requestedModel string // for upstreams that do not name their model
	split          bool   // message_start has the lifetimes of cache writes
}

// Encode appends one event.
func (s *streamEncoder) Encode(event llm.Event, to []byte) []byte {
	if s.Over {
		return to
	}
	switch e := event.(type) {
	case llm.Failure:
		s.Over = true
		return append(to, Codec{}.EncodeStreamError(e.Err)...)
	case llm.Ping:
		if !s.Started {
			return sse.AppendComment(to, "ping")
		}
		return append(to, ping...)
	}
	return s.Stream.Encode(s, event, to)
}

// ping is the event that keeps a stream alive.
const ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n"

// head appends the beginning of an event: its name and its type, which are equal.
func head(to []byte, name string) []byte {
	to = append(append(to, "event: "...), name...)
	to = append(append(to, "\ndata: {\"type\":\""...), name...)
	return append(to, '"')
}

// tail ends an event.
func tail(to []byte) []byte { return append(to, "}\n\n"...) }

// Start writes message_start.
func (s *streamEncoder) Start(to []byte, e llm.Start) []byte {
	s.split = e.Usage != nil && *e.Usage.At(llm.CacheWrite1h) > 0
	to = head(to, "message_start")
	to = wire.AppendQuote(append(to, `,"message":{"id":`...), messageID(e.ID, e.Model))
	to = wire.AppendQuote(append(to, `,"type":"message","role":"assistant","model":`...), cmp.Or(e.Model, s.requestedModel))
	to = append(to, `,"content":[],"stop_reason":null,"stop_sequence":null,"usage":`...)
	to = appendUsage(to, e.Usage)
	rest := kept.Rest(e.Ext, "usage").All()
	if e.Tier != "" {
		rest = append(wire.Object{{Name: "service_tier", Value: blockcodec.Quoted(encodeTier(e.Tier))}}, rest...)
	}
	to = appendMembers(to, withCacheCreation(rest, e.Usage))
	to = appendMembers(append(to, '}'), kept.Extra(blockcodec.Without(e.Ext, messageNames...)).All())
	return tail(to)
}

// messageNames lists the members that the encoder writes itself. Their odd values
// are kept as unknown members and must not be written twice.
var messageNames = []string{"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "stop_details", "usage"}

// appendMembers appends members to the object at the end of the bytes.
func appendMembers(to []byte, members wire.Object) []byte {
	if len(members) == 0 {
		return to
	}
	to = to[:len(to)-1]
	for _, m := range members {
		to = append(wire.AppendQuote(append(to, ','), m.Name), ':')
		to = append(to, wire.Compact(m.Value)...)
	}
	return append(to, '}')
}

// Finish writes message_delta and message_stop.
func (s *streamEncoder) Finish(to []byte) []byte {
	reason := blockcodec.EncodeStop(stops, s.End.Stop, s.Called)
	to = wire.AppendQuote(append(head(to, "message_delta"), `,"delta":{"stop_reason":`...), reason)
	to = append(to, `,"stop_sequence":`...)
	if reason == "stop_sequence" && s.End.Stop.Matched != "" {
		to = wire.AppendQuote(to, s.End.Stop.Matched)
	} else {
		to = append(to, "null"...)
	}
	details := stopDetails(reason, s.End.Stop)
	if d := details.Ptr(); d != nil {
		d.Extra = kept.Rest(s.End.Ext, "stop_details")
		if raw, err := wire.Marshal(d); err == nil {
			to = append(append(to, `,"stop_details":`...), wire.Compact(raw)...)
		}
	}
	to = appendMembers(append(to, '}'), kept.Extra(blockcodec.Without(s.End.Ext, messageNames...)).All())
	to = appendUsage(append(to, `,"usage":`...), s.Usage)
	rest := kept.Rest(s.End.Ext, "usage").All()
	if !s.split {
		rest = withCacheCreation(rest, s.Usage)
	}
	to = tail(appendMembers(to, rest))
	return tail(head(to, "message_stop"))
}

// Write writes an event of the active block.
func (s *streamEncoder) Write(to []byte, b *blockcodec.OutBlock, e llm.Event) []byte {
	switch e := e.(type) {
	case llm.Delta:
		if part, text := b.Piece(e); text != "" { // an empty one does not open the block
			return s.delta(to, b, part, text)
		}
	case llm.SealDelta:
		return s.seal(to, b, e.Seal)
	case llm.Cite:
		if _, ok := b.Block.(*llm.Text); ok && e.Citation.Protocol == own && e.Citation.Raw != "" {
			to = deltaHead(s.open(to, b), b, "citations_delta", "citation")
			return deltaTail(append(to, wire.Compact(wire.Raw(e.Citation.Raw))...))
		}
	case llm.BlockEnd:
		return s.close(to, b)
	}
	return to
}

// deltaForms are the types of the deltas of texts, and their members.
var deltaForms = [...]struct{ typ, member string }{
	blockcodec.TextPart:      {"text_delta", "text"},
	blockcodec.ThinkingPart:  {"thinking_delta", "thinking"},
	blockcodec.InputPart:     {"input_json_delta", "partial_json"},
	blockcodec.SignaturePart: {"signature_delta", "signature"},
}

// delta writes a text of a block.
func (s *streamEncoder) delta(to []byte, b *blockcodec.OutBlock, part blockcodec.Part, text string) []byte {
	form := deltaForms[part]
	to = deltaHead(s.open(to, b), b, form.typ, form.member)
	return deltaTail(wire.AppendQuote(to, text))
}

func deltaHead(to []byte, b *blockcodec.OutBlock, typ, member string) []byte {
	to = append(to, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	to = strconv.AppendInt(to, int64(b.Index), 10)
	to = append(append(to, `,"delta":{"type":"`...), typ...)
	to = append(append(to, `","`...), member...)
	return append(to, `":`...)
}

func deltaTail(to []byte) []byte { return append(to, "}}\n\n"...) }

// open writes the start of a block. It waits for the first content, so that an
// early seal is part of it and an empty block is omitted.
func (s *streamEncoder) open(to []byte, b *blockcodec.OutBlock) []byte {
	if b.Begun {
		return to
	}
	return s.begin(to, b, skeleton(b))
}

func (s *streamEncoder) begin(to []byte, b *blockcodec.OutBlock, block wire.Raw) []byte {
	s.Begin(b)
	to = strconv.AppendInt(append(head(to, "content_block_start"), `,"index":`...), int64(b.Index), 10)
	// Kept members may hold line breaks, which an event's data cannot.
	return tail(append(append(to, `,"content_block":`...), wire.Compact(block)...))
}

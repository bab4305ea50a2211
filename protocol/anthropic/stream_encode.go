package anthropic

import (
	"cmp"
	"strconv"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/blockcodec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
	"github.com/isogloss-gateway/isogloss/sse"
)

// NewStreamEncoder returns an encoder for one stream.
func (Codec) NewStreamEncoder(req *llm.Request) protocol.StreamEncoder {
	return &streamEncoder{requestedModel: answeringModel("", req)}
}

// streamEncoder writes the blocks of a response one after the other. Events of a
// later block wait while another block is open.
type streamEncoder struct {
	requestedModel string // for upstreams that do not name their model
	started, over  bool
	blocks         []*outBlock // of the first choice; finished ones are nil
	active         int         // the block that is being written
	next           int         // index of the next block on the wire
	called         bool
	usage          *llm.Usage
	end            llm.ChoiceEnd
}

// Encode appends one event.
func (s *streamEncoder) Encode(event llm.Event, to []byte) []byte {
	if s.over {
		return to
	}
	switch e := event.(type) {
	case llm.Delta:
		return s.route(to, e.Choice, e.Index, event)
	case llm.Start:
		return s.start(to, e)
	case llm.BlockStart:
		if e.Choice != 0 {
			return to // the protocol has one choice
		}
		s.blocks = append(s.blocks, newOutBlock(e.Block))
		return s.start(to, llm.Start{})
	case llm.SealDelta:
		return s.route(to, e.Choice, e.Index, event)
	case llm.Cite:
		return s.route(to, e.Choice, e.Index, event)
	case llm.BlockEnd:
		return s.route(to, e.Choice, e.Index, event)
	case llm.UsageUpdate:
		s.usage = &e.Usage
	case llm.ChoiceEnd:
		if e.Choice == 0 {
			s.end = e
		}
	case llm.End:
		return s.finish(to)
	case llm.Failure:
		s.over = true
		return append(to, Codec{}.EncodeStreamError(e.Err)...)
	case llm.Ping:
		if !s.started {
			return sse.AppendComment(to, "ping")
		}
		return append(to, ping...)
	case llm.Logprobs:
	}
	return to
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

func (s *streamEncoder) start(to []byte, e llm.Start) []byte {
	if s.started {
		return to
	}
	s.started = true
	s.usage = e.Usage
	to = head(to, "message_start")
	to = wire.AppendQuote(append(to, `,"message":{"id":`...), messageID(e.ID, e.Model))
	to = wire.AppendQuote(append(to, `,"type":"message","role":"assistant","model":`...), cmp.Or(e.Model, s.requestedModel))
	to = append(to, `,"content":[],"stop_reason":null,"stop_sequence":null,"usage":`...)
	to = appendUsage(to, e.Usage)
	rest := kept.Rest(e.Ext, "usage").All()
	if e.Tier != "" {
		rest = append(wire.Object{{Name: "service_tier", Value: blockcodec.Quoted(encodeTier(e.Tier))}}, rest...)
	}
	to = appendMembers(to, rest)
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

func (s *streamEncoder) finish(to []byte) []byte {
	to = s.start(to, llm.Start{})
	for i, b := range s.blocks { // the source did not end a block
		if b != nil && !b.ended {
			to = s.route(to, 0, i, llm.BlockEnd{Index: i})
		}
	}
	s.over = true
	reason := encodeStop(s.end.Stop, s.called)
	to = wire.AppendQuote(append(head(to, "message_delta"), `,"delta":{"stop_reason":`...), reason)
	to = append(to, `,"stop_sequence":`...)
	if reason == "stop_sequence" && s.end.Stop.Matched != "" {
		to = wire.AppendQuote(to, s.end.Stop.Matched)
	} else {
		to = append(to, "null"...)
	}
	details := stopDetails(reason, s.end.Stop)
	if d := details.Ptr(); d != nil {
		d.Extra = kept.Rest(s.end.Ext, "stop_details")
		if raw, err := wire.Marshal(d); err == nil {
			to = append(append(to, `,"stop_details":`...), wire.Compact(raw)...)
		}
	}
	to = appendMembers(append(to, '}'), kept.Extra(blockcodec.Without(s.end.Ext, messageNames...)).All())
	to = appendUsage(append(to, `,"usage":`...), s.usage)
	to = tail(appendMembers(to, kept.Rest(s.end.Ext, "usage").All()))
	return tail(head(to, "message_stop"))
}

// route passes an event to its block, or keeps it until the block is active.
func (s *streamEncoder) route(to []byte, choice, index int, e llm.Event) []byte {
	if choice != 0 || index < 0 || index >= len(s.blocks) || s.blocks[index] == nil || s.blocks[index].ended {
		return to
	}
	b := s.blocks[index]
	if _, last := e.(llm.BlockEnd); last {
		b.ended = true
	}
	if index != s.active {
		b.waiting = append(b.waiting, e)
		return to
	}
	to = s.write(to, b, e)
	for b.ended { // activate the next block and write its waiting events
		s.blocks[s.active] = nil
		if s.active++; s.active >= len(s.blocks) {
			break
		}
		b = s.blocks[s.active]
		for _, e := range b.waiting {
			to = s.write(to, b, e)
		}
		b.waiting = nil
	}
	return to
}

func (s *streamEncoder) write(to []byte, b *outBlock, e llm.Event) []byte {
	switch e := e.(type) {
	case llm.Delta:
		return s.text(to, b, e)
	case llm.SealDelta:
		return s.seal(to, b, e.Seal)
	case llm.Cite:
		if _, ok := b.block.(*llm.Text); ok && e.Citation.Protocol == own && e.Citation.Raw != "" {
			to = deltaHead(s.open(to, b), b, "citations_delta", "citation")
			return deltaTail(append(to, wire.Compact(wire.Raw(e.Citation.Raw))...))
		}
	case llm.BlockEnd:
		return s.close(to, b)
	}
	return to
}

func deltaHead(to []byte, b *outBlock, typ, member string) []byte {
	to = append(to, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	to = strconv.AppendInt(to, int64(b.index), 10)
	to = append(append(to, `,"delta":{"type":"`...), typ...)
	to = append(append(to, `","`...), member...)
	return append(to, `":`...)
}

func deltaTail(to []byte) []byte { return append(to, "}}\n\n"...) }

// open writes the start of a block. It waits for the first content, so that an
// early seal is part of it and an empty block is omitted.
func (s *streamEncoder) open(to []byte, b *outBlock) []byte {
	if b.begun {
		return to
	}
	return s.begin(to, b, b.skeleton())
}

func (s *streamEncoder) begin(to []byte, b *outBlock, block wire.Raw) []byte {
	b.begun, b.index = true, s.next
	s.next++
	to = strconv.AppendInt(append(head(to, "content_block_start"), `,"index":`...), int64(b.index), 10)
	// Kept members may hold line breaks, which an event's data cannot.
	return tail(append(append(to, `,"content_block":`...), wire.Compact(block)...))
}

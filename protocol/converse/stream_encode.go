package converse

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
	"github.com/isogloss-gateway/isogloss/sse"
)

// NewStreamEncoder returns an encoder for one stream.
func (Codec) NewStreamEncoder(*llm.Request) protocol.StreamEncoder { return &streamEncoder{} }

// streamEncoder writes the events of a response.
type streamEncoder struct {
	blockcodec.Stream

	tier string
	ext  llm.Ext // of the response
}

// Encode appends one event.
func (s *streamEncoder) Encode(event llm.Event, to []byte) []byte {
	if s.Over {
		return to
	}
	switch e := event.(type) {
	case llm.Members:
		if e.Choice == llm.Whole && e.Ext.Protocol == own {
			s.ext.Protocol, s.ext.Members = own, append(slices.Clone(s.ext.Members), e.Ext.Members...)
		}
	case llm.Failure:
		s.Over = true
		return append(to, Codec{}.EncodeStreamError(e.Err)...)
	case llm.Ping:
		return sse.AppendComment(to, "ping")
	}
	return s.Stream.Encode(s, event, to)
}

// Start writes messageStart.
func (s *streamEncoder) Start(to []byte, e llm.Start) []byte {
	s.tier, s.ext = e.Tier, e.Ext
	return tail(append(head(to, "messageStart"), `"role":"assistant"`...))
}

// Finish writes messageStop and metadata.
func (s *streamEncoder) Finish(to []byte) []byte {
	stop := Response{StopReason: wire.Some(blockcodec.EncodeStop(stops, s.End.Stop, s.Called)), Extra: kept.Extra(blockcodec.Without(s.End.Ext, responseNames...))}
	if fields := additionalFields(s.End.Stop, s.End.Ext); len(fields) > 0 {
		stop.AdditionalFields = wire.Some(fields)
	}
	to = appendObject(to, "messageStop", &stop)
	metadata := Response{Usage: wire.Some(encodeUsage(s.Usage, s.ext)), Metrics: wire.Raw(noMetrics), Extra: kept.Extra(blockcodec.Without(s.ext, responseNames...))}
	if s.tier != "" {
		metadata.ServiceTier = wire.Some(ServiceTier{Type: wire.Some(encodeTier(s.tier))})
	}
	return appendObject(to, "metadata", &metadata)
}

// Write writes an event of the active block.
func (s *streamEncoder) Write(to []byte, b *blockcodec.OutBlock, e llm.Event) []byte {
	switch e := e.(type) {
	case llm.Delta:
		if part, text := b.Piece(e); text != "" { // an empty one does not open the block
			return s.delta(to, b, part, text)
		}
	case llm.SealDelta:
		b.Seals = append(b.Seals, e.Seal)
	case llm.Cite:
		if _, ok := b.Block.(*llm.Text); ok && e.Citation.Protocol == own && e.Citation.Raw != "" {
			to = append(s.deltaHead(to, b, `"citation":`), wire.Compact(wire.Raw(e.Citation.Raw))...)
			return deltaTail(to, b, "")
		}
	case llm.BlockEnd:
		return s.close(to, b)
	}
	return to
}

// begin gives a block its position. Only calls and images have an event for it.
func (s *streamEncoder) begin(to []byte, b *blockcodec.OutBlock, start wire.Raw) []byte {
	s.Begin(b)
	if start == nil {
		return to
	}
	to = append(append(head(to, "contentBlockStart"), `"start":`...), start...)
	return tail(appendIndex(append(to, ','), b.Index))
}

// deltaHead and deltaTail write what is around a part of a block.
func (s *streamEncoder) deltaHead(to []byte, b *blockcodec.OutBlock, open string) []byte {
	to = s.open(to, b)
	return append(append(head(to, "contentBlockDelta"), `"delta":{`...), open...)
}

func deltaTail(to []byte, b *blockcodec.OutBlock, end string) []byte {
	return tail(appendIndex(append(append(to, end...), "},"...), b.Index))
}

// deltaForms is what is around the texts of the parts.
var deltaForms = [...]struct{ open, end string }{
	blockcodec.TextPart:      {`"text":`, ""},
	blockcodec.ThinkingPart:  {`"reasoningContent":{"text":`, "}"},
	blockcodec.InputPart:     {`"toolUse":{"input":`, "}"},
	blockcodec.SignaturePart: {`"reasoningContent":{"signature":`, "}"},
	blockcodec.RedactedPart:  {`"reasoningContent":{"redactedContent":`, "}"},
}

// delta writes a text of a block.
func (s *streamEncoder) delta(to []byte, b *blockcodec.OutBlock, part blockcodec.Part, text string) []byte {
	form := deltaForms[part]
	return deltaTail(wire.AppendQuote(s.deltaHead(to, b, form.open), text), b, form.end)
}

// open writes the start of a block. It waits for the first content, so that an empty block is omitted.
func (s *streamEncoder) open(to []byte, b *blockcodec.OutBlock) []byte {
	if b.Begun {
		return to
	}
	if call, ok := b.Block.(*llm.ToolCall); ok {
		return s.begin(to, b, callStart(b, call))
	}
	return s.begin(to, b, nil)
}

package converse

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/blockcodec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
	"github.com/isogloss-gateway/isogloss/sse"
)

// NewStreamEncoder returns an encoder for one stream.
func (Codec) NewStreamEncoder(*llm.Request) protocol.StreamEncoder { return &streamEncoder{} }

// streamEncoder writes the blocks of a response one after the other. Events of a later block
// wait while another block is open.
type streamEncoder struct {
	started, over bool
	blocks        []*outBlock // of the first choice; finished ones are nil
	active        int         // the block that is being written
	next          int         // index of the next block on the wire
	called        bool
	usage         *llm.Usage
	tier          string
	end           llm.ChoiceEnd
	ext           llm.Ext // of the response
}

// outBlock is a block that is being sent to the client.
type outBlock struct {
	block   llm.Block
	seals   []llm.Seal
	index   int // on the wire
	begun   bool
	ended   bool
	waiting []llm.Event
	part    int // of a thought: the last part that was written

	args blockcodec.Arguments
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
		s.usage, s.tier, s.ext = e.Usage, e.Tier, e.Ext
		return s.start(to)
	case llm.BlockStart:
		if e.Choice != 0 {
			return to // the protocol has one choice
		}
		s.blocks = append(s.blocks, &outBlock{block: e.Block, seals: slices.Clone(e.Block.Common().Seals)})
		return s.start(to)
	case llm.SealDelta:
		return s.route(to, e.Choice, e.Index, event)
	case llm.Cite:
		return s.route(to, e.Choice, e.Index, event)
	case llm.BlockEnd:
		return s.route(to, e.Choice, e.Index, event)
	case llm.UsageUpdate:
		s.usage = &e.Usage
	case llm.Members:
		if e.Choice == llm.Whole && e.Ext.Protocol == own {
			s.ext.Protocol, s.ext.Members = own, append(slices.Clone(s.ext.Members), e.Ext.Members...)
		}
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
		return sse.AppendComment(to, "ping")
	case llm.Logprobs:
	}
	return to
}

// head appends the beginning of an event, and tail its end.
func head(to []byte, name string) []byte {
	return append(append(append(to, `data: {"`...), name...), `":{`...)
}

func tail(to []byte) []byte { return append(to, "}}\n\n"...) }

func (s *streamEncoder) start(to []byte) []byte {
	if s.started {
		return to
	}
	s.started = true
	return tail(append(head(to, "messageStart"), `"role":"assistant"`...))
}

func (s *streamEncoder) finish(to []byte) []byte {
	to = s.start(to)
	for i, b := range s.blocks { // the source did not end a block
		if b != nil && !b.ended {
			to = s.route(to, 0, i, llm.BlockEnd{Index: i})
		}
	}
	s.over = true
	stop := Response{StopReason: wire.Some(encodeStop(s.end.Stop, s.called)), Extra: kept.Extra(blockcodec.Without(s.end.Ext, responseNames...))}
	if fields := additionalFields(s.end.Stop, s.end.Ext); len(fields) > 0 {
		stop.AdditionalFields = wire.Some(fields)
	}
	to = appendObject(to, "messageStop", &stop)
	metadata := Response{Usage: wire.Some(encodeUsage(s.usage, s.ext)), Metrics: wire.Raw(noMetrics), Extra: kept.Extra(blockcodec.Without(s.ext, responseNames...))}
	if s.tier != "" {
		metadata.ServiceTier = wire.Some(ServiceTier{Type: wire.Some(encodeTier(s.tier))})
	}
	return appendObject(to, "metadata", &metadata)
}

// appendObject appends an event with an object.
func appendObject(to []byte, name string, w *Response) []byte {
	raw, err := wire.Marshal(w)
	if err != nil { // a kept member has invalid UTF-8
		w.Extra = wire.Extra{}
		raw, _ = wire.Marshal(w)
	}
	raw = wire.Compact(raw)
	return tail(append(head(to, name), raw[1:len(raw)-1]...))
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
		b.seals = append(b.seals, e.Seal)
	case llm.Cite:
		if _, ok := b.block.(*llm.Text); ok && e.Citation.Protocol == own && e.Citation.Raw != "" {
			return s.delta(to, b, `"citation":`, wire.Compact(wire.Raw(e.Citation.Raw)), "")
		}
	case llm.BlockEnd:
		return s.close(to, b)
	}
	return to
}

// begin gives a block its position. Only calls and images have an event for it.
func (s *streamEncoder) begin(to []byte, b *outBlock, start wire.Raw) []byte {
	b.begun, b.index = true, s.next
	s.next++
	if start == nil {
		return to
	}
	to = append(append(head(to, "contentBlockStart"), `"start":`...), start...)
	return tail(appendIndex(append(to, ','), b.index))
}

// delta writes a part of a block between two texts of its union.
func (s *streamEncoder) delta(to []byte, b *outBlock, open string, value wire.Raw, end string) []byte {
	if !b.begun {
		to = s.begin(to, b, nil)
	}
	to = append(append(head(to, "contentBlockDelta"), `"delta":{`...), open...)
	to = append(append(append(to, value...), end...), "},"...)
	return tail(appendIndex(to, b.index))
}

// text writes a text delta. An empty one does not open the block.
func (s *streamEncoder) text(to []byte, b *outBlock, e llm.Delta) []byte {
	if e.Text == "" {
		return to
	}
	switch block := b.block.(type) {
	case *llm.Text, *llm.Refusal:
		return s.delta(to, b, `"text":`, blockcodec.Quoted(e.Text), "")
	case *llm.Thought:
		text := e.Text
		if e.Part > b.part {
			text = strings.Repeat(partBreak, e.Part-b.part) + text
			b.part = e.Part
		}
		return s.delta(to, b, `"reasoningContent":{"text":`, blockcodec.Quoted(text), "}")
	case *llm.ToolCall:
		return s.args(to, b, block, e.Text)
	}
	return to
}

func (s *streamEncoder) args(to []byte, b *outBlock, call *llm.ToolCall, text string) []byte {
	if text = b.args.Add(call, text); text == "" {
		return to
	}
	return s.input(s.openCall(to, b, call), b, text)
}

func (s *streamEncoder) input(to []byte, b *outBlock, text string) []byte {
	return s.delta(to, b, `"toolUse":{"input":`, blockcodec.Quoted(text), "}")
}

func (s *streamEncoder) openCall(to []byte, b *outBlock, call *llm.ToolCall) []byte {
	if b.begun {
		return to
	}
	w := ToolUse{ToolUseID: wire.Some(answerCallID(call)), Name: wire.Some(call.Name), ExtraContent: wire.Raw(protocol.Carry(b.seals, protocol.Converse)), Extra: kept.Extra(call.Ext)}
	raw, err := wire.Marshal(&w)
	if err != nil { // the name has invalid UTF-8
		w.Name, w.Extra = wire.Some(strings.ToValidUTF8(call.Name, "\uFFFD")), wire.Extra{}
		raw, _ = wire.Marshal(&w)
	}
	return s.begin(to, b, blockcodec.Member("toolUse", wire.Compact(raw)))
}

// close writes the end of a block, and the complete block if it has no deltas.
func (s *streamEncoder) close(to []byte, b *outBlock) []byte {
	switch block := b.block.(type) {
	case *llm.Text, *llm.Refusal:
	case *llm.Thought:
		switch seal := answerSeal(b.seals); {
		case seal.Form == llm.Redacted:
			to = s.delta(to, b, `"reasoningContent":{"redactedContent":`, blockcodec.Quoted(seal.Data), "}")
		case seal.Data != "":
			to = s.delta(to, b, `"reasoningContent":{"signature":`, blockcodec.Quoted(seal.Data), "}")
		case b.begun && block.Ext.Protocol != own:
			to = s.delta(to, b, `"reasoningContent":{"signature":`, blockcodec.Quoted(protocol.Unsealed), "}") // see answerBlock
		}
	case *llm.ToolCall:
		to = s.closeCall(to, b, block)
	case *llm.Media:
		to = s.media(to, b, block)
	default:
		to = s.whole(to, b)
	}
	if !b.begun {
		return to
	}
	return tail(appendIndex(head(to, "contentBlockStop"), b.index))
}

func (s *streamEncoder) closeCall(to []byte, b *outBlock, call *llm.ToolCall) []byte {
	s.called = true
	to = s.openCall(to, b, call)
	input, ok := b.args.Rest(call)
	if !ok {
		return to
	}
	return s.input(to, b, string(input))
}

func (s *streamEncoder) media(to []byte, b *outBlock, m *llm.Media) []byte {
	w := answerImage(m)
	if w == nil {
		return s.delta(to, b, `"text":`, blockcodec.Quoted(blockcodec.Placeholder(m)), "")
	}
	to = s.begin(to, b, wire.Raw(`{"image":{"format":"`+formatOf(m.Kind, m.MIME)+`"}}`))
	return s.delta(to, b, `"image":{"source":{"bytes":`, blockcodec.Quoted(m.Data), "}}")
}

// whole writes a block without deltas: of a tool that the vendor ran, or the text in place
// of another block.
func (s *streamEncoder) whole(to []byte, b *outBlock) []byte {
	text, raw := blockcodec.AnswerText(b.block, "", &llm.Report{}, own)
	if text != "" {
		return s.delta(to, b, `"text":`, blockcodec.Quoted(text), "")
	}
	var w Block
	if raw == nil || wire.UnmarshalPart(raw, &w) != nil {
		return to
	}
	if use := w.ToolUse.Ptr(); use != nil {
		input := string(wire.Compact(use.Input))
		use.Input = nil
		start, _ := wire.Marshal(use) // cannot fail: it was decoded from JSON
		return s.input(s.begin(to, b, blockcodec.Member("toolUse", wire.Compact(start))), b, input)
	}
	if result := w.ToolResult.Ptr(); result != nil {
		content := result.Content
		result.Content = wire.Opt[wire.List[wire.Raw]]{}
		start, _ := wire.Marshal(result) // as above
		list, _ := wire.Marshal(&content)
		return s.delta(s.begin(to, b, blockcodec.Member("toolResult", wire.Compact(start))), b, `"toolResult":`, wire.Compact(list), "")
	}
	return to // a stream has no event for it
}

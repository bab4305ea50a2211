package anthropic

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// outBlock is a block on its way to the client.
type outBlock struct {
	block   llm.Block
	seals   []llm.Seal
	sealed  int // how many of them the beginning has carried
	signed  bool
	index   int // on the wire
	begun   bool
	ended   bool
	waiting []llm.Event
	part    int // of a thought: the last one that was written

	// Arguments go out as they come if they begin as an object does. If not,
	// they are held until they are whole and can be made one.
	direct bool
	held   []byte
}

func newOutBlock(b llm.Block) *outBlock {
	return &outBlock{block: b, seals: append([]llm.Seal(nil), b.Common().Seals...)}
}

// skeleton is the block as its beginning shows it: without text, with the seals
// that are known.
func (b *outBlock) skeleton() wire.Raw {
	b.sealed = len(b.seals)
	carrier := protocol.Carry(b.seals, protocol.Anthropic)
	w := Block{ExtraContent: wire.Raw(carrier), Extra: extraOf(b.block.Common().Ext)}
	switch block := b.block.(type) {
	case *llm.Thought:
		t := llm.Thought{Meta: llm.Meta{Seals: b.seals, Ext: block.Ext}}
		seal, ok := t.SealFor(own)
		if !ok || seal.Form != llm.Redacted {
			seal = llm.Seal{} // a signature comes as a delta
		}
		return thoughtBlock(&t, seal)
	case *llm.ToolCall:
		w.Type, w.ID, w.Name, w.Input = wire.Some("tool_use"), wire.Some(answerCallID(block)), wire.Some(block.Name), wire.Raw("{}")
	default:
		w.Type, w.Text = wire.Some("text"), wire.Some(wire.NewText(""))
	}
	raw, err := blockShape.Marshal(&w)
	if err != nil { // a name that is not UTF-8
		w.Name, w.Extra = wire.Some(strings.ToValidUTF8(w.Name.Value(), "\uFFFD")), wire.Extra{}
		raw, _ = blockShape.Marshal(&w)
	}
	return raw
}

// text writes a piece of text. An empty one opens nothing.
func (s *streamEncoder) text(to []byte, b *outBlock, e llm.Delta) []byte {
	if e.Text == "" {
		return to
	}
	switch block := b.block.(type) {
	case *llm.Text, *llm.Refusal:
		to = deltaHead(s.open(to, b), b, "text_delta", "text")
		return deltaTail(appendString(to, e.Text))
	case *llm.Thought:
		text := e.Text
		if e.Part > b.part {
			text = strings.Repeat(partBreak, e.Part-b.part) + text
			b.part = e.Part
		}
		to = deltaHead(s.open(to, b), b, "thinking_delta", "thinking")
		return deltaTail(appendString(to, text))
	case *llm.ToolCall:
		return s.args(to, b, block, e.Text)
	}
	return to
}

func (s *streamEncoder) args(to []byte, b *outBlock, call *llm.ToolCall, text string) []byte {
	if b.direct {
		return s.partialJSON(to, b, text)
	}
	b.held = append(b.held, text...)
	if call.Kind == llm.CustomTool || call.Synthetic { // whole at the end; a made-up id means that it came whole
		return to
	}
	if start := bytes.TrimLeft(b.held, " \t\r\n"); len(start) > 0 && start[0] == '{' {
		b.direct = true
		text, b.held = string(b.held), nil
		return s.partialJSON(to, b, text)
	}
	return to
}

func (s *streamEncoder) partialJSON(to []byte, b *outBlock, text string) []byte {
	to = deltaHead(s.open(to, b), b, "input_json_delta", "partial_json")
	return deltaTail(appendString(to, text))
}

// seal takes a seal. The vendor's own signature has an event; others wait for the
// block's beginning, or else for its end.
func (s *streamEncoder) seal(to []byte, b *outBlock, seal llm.Seal) []byte {
	_, thought := b.block.(*llm.Thought)
	if seal.Origin != own || seal.Form != llm.Signature || !thought {
		b.seals = append(b.seals, seal)
		return to
	}
	return s.signature(to, b, seal)
}

func (s *streamEncoder) signature(to []byte, b *outBlock, seal llm.Seal) []byte {
	b.signed = true
	to = deltaHead(s.open(to, b), b, "signature_delta", "signature")
	return deltaTail(appendString(to, seal.Data))
}

// close writes the end of a block, and all of it if it comes whole.
func (s *streamEncoder) close(to []byte, b *outBlock) []byte {
	switch block := b.block.(type) {
	case *llm.Text, *llm.Refusal:
		if len(b.seals) > 0 { // an empty text may be what carries a seal
			to = s.open(to, b)
		}
	case *llm.Thought:
		if len(b.seals) > 0 {
			to = s.open(to, b)
		}
		t := llm.Thought{Meta: *block.Common()}
		if seal, ok := t.SealFor(own); ok && seal.Form == llm.Signature {
			to = s.signature(to, b, seal) // it was known from the beginning
		} else if w := protocol.Wrap(b.seals, protocol.Anthropic); w != "" && !ok {
			to = s.signature(to, b, llm.Seal{Data: w}) // the vendor's clients send it back, whoever made it
			b.sealed = len(b.seals)
		} else if b.begun && !b.signed && len(b.seals) == 0 {
			to = s.signature(to, b, llm.Seal{Data: protocol.Unsealed}) // as in answerBlock
		}
	case *llm.ToolCall:
		to = s.closeCall(to, b, block)
	default:
		to = s.wholeBlock(to, b)
	}
	if !b.begun {
		return to
	}
	to = strconv.AppendInt(append(head(to, "content_block_stop"), `,"index":`...), int64(b.index), 10)
	if late := protocol.Carry(b.seals[b.sealed:], protocol.Anthropic); late != "" {
		to = append(append(to, `,"`+protocol.CarrierMember+`":`...), late...)
	}
	return tail(to)
}

func (s *streamEncoder) closeCall(to []byte, b *outBlock, call *llm.ToolCall) []byte {
	s.called = true
	to = s.open(to, b)
	if b.direct {
		return to
	}
	input := member("input", quoted(string(b.held)))
	if call.Kind != llm.CustomTool {
		input, _ = objectArgs(string(b.held))
	}
	if string(input) == "{}" { // the beginning says so already
		return to
	}
	return s.partialJSON(to, b, string(input))
}

// wholeBlock writes a block that has no deltas of its own. The input of the
// vendor's tools goes into one, because SDKs read it only there. ANT-02, ANT-26
func (s *streamEncoder) wholeBlock(to []byte, b *outBlock) []byte {
	text, raw := answerText(b.block, "", &llm.Report{})
	if text != "" {
		to = deltaHead(s.open(to, b), b, "text_delta", "text")
		return deltaTail(appendString(to, text))
	}
	if raw == nil {
		return to
	}
	var o wire.Object
	if strings.HasSuffix(blockType(raw), "_tool_use") && o.UnmarshalJSON(raw) == nil {
		if input, ok := o.Get("input"); ok {
			if shown, err := o.With("input", wire.Raw("{}")).MarshalJSON(); err == nil {
				return s.partialJSON(s.begin(to, b, shown), b, string(input))
			}
		}
	}
	return s.begin(to, b, raw)
}

package openairesponses

import (
	"cmp"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// beginCall emits a call's start as soon as its id and name are known, or with a
// generated id if none can come any more.
func (d *streamDecoder) beginCall(it *readItem, last bool, to []llm.Event) []llm.Event {
	if it.block >= 0 || it.call.Name == "" || it.call.CallID == "" && !last {
		return to
	}
	if it.call.CallID == "" {
		it.call.CallID, it.call.Synthetic = llm.MintID("call_", d.id, strconv.FormatInt(it.index, 10), it.call.Name), true
	}
	it.block = d.blocks
	d.blocks++
	d.called = true
	call := it.call
	to = append(to, llm.BlockStart{Index: it.block, Block: &call})
	if len(it.held) > 0 {
		to = append(to, llm.Delta{Index: it.block, Text: string(it.held)})
		it.held = nil
	}
	return to
}

func (d *streamDecoder) fillArguments(it *readItem, final string, to []llm.Event) []llm.Event {
	p := it.part(0, false)
	if it.ended || len(final) <= p.sent {
		return to
	}
	rest := final[p.sent:]
	p.sent, p.pieces = len(final), wire.Joiner{}
	if it.block < 0 {
		it.held = append(it.held, rest...)
		return to
	}
	return append(to, llm.Delta{Index: it.block, Text: rest})
}

func (d *streamDecoder) callDone(it *readItem, w *Item, to []llm.Event) []llm.Event {
	call := decodeCall(w)
	args, seals := call.Args, call.Seals
	call.Args, call.Seals = "", nil
	call.ID = cmp.Or(it.id, call.ID)
	if it.block < 0 {
		call.CallID, call.Name = cmp.Or(call.CallID, it.call.CallID), cmp.Or(call.Name, it.call.Name)
		it.call = *call
		to = d.beginCall(it, true, to)
	}
	to = d.fillArguments(it, args, to)
	if it.block >= 0 {
		for _, s := range seals {
			to = append(to, llm.SealDelta{Index: it.block, Seal: s})
		}
	}
	return to
}

func (d *streamDecoder) arguments(it *readItem, raw jsontext.Value, to []llm.Event) []llm.Event {
	if it == nil {
		return to
	}
	p := it.part(0, false)
	text := p.join(raw)
	switch {
	case text == "":
		return to
	case it.block < 0: // its id or name has not come yet
		it.held = append(it.held, text...)
		return to
	}
	return append(to, llm.Delta{Index: it.block, Text: text})
}

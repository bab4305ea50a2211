package openairesponses

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// readItem is an item of a stream that is being read.
type readItem struct {
	index int64
	typ   string
	id    string
	block int  // of a thought or a call; -1 before it has begun
	ended bool // all its blocks have ended

	head  llm.Ext // members of a message that have no field
	phase string
	parts []*readPart

	call llm.ToolCall
	held []byte // arguments that came before id and name
}

// item finds the item of a type that an event is about, or begins one that was
// never added. It is nil where the item has ended: nothing can be added to it.
func (d *streamDecoder) item(e *piece, typ string, to *[]llm.Event) *readItem {
	id := "" // most servers give every item a place of its own, which is cheaper to compare
	if e.Output < 0 || d.crowded {
		id = scalar(e.Item)
	}
	it := d.find(e.Output, id, typ)
	if it == nil {
		*to = d.begin(&snapshot{}, *to)
		it = d.add(max(e.Output, 0))
		it.id = scalar(e.Item)
	}
	if it.ended {
		return nil
	}
	it.typ = typ
	return it
}

// find looks for an item by its place, and among those that a server has put into
// the same place by its id. Without a place it goes by the id alone, and then by
// what is open. An empty type is any.
func (d *streamDecoder) find(index int64, id, typ string) *readItem {
	var found *readItem
	for _, it := range slices.Backward(d.items) {
		fits := typ == "" || it.typ == "" || it.typ == typ
		switch {
		case !fits, index >= 0 && it.index != index:
		case id != "" && it.id == id:
			return it
		case id == "" && index >= 0:
			return it
		case found == nil:
			found = it
		}
	}
	if index < 0 && found != nil && found.ended {
		return nil
	}
	return found
}

func (d *streamDecoder) add(index int64) *readItem {
	it := &readItem{index: index, block: -1, head: llm.Ext{Protocol: own}}
	d.items = append(d.items, it)
	return it
}

func (d *streamDecoder) beginPart(it *readItem, p *readPart, to []llm.Event) []llm.Event {
	if p.block >= 0 {
		return to
	}
	p.block = d.blocks
	d.blocks++
	meta := llm.Meta{ID: it.id, Ext: p.ext}
	if len(it.head.Members) > 0 && p == it.parts[0] {
		o := object{}
		o.ext(it.head)
		meta.Ext.Members = append(meta.Ext.Members, llm.Member{Name: itemMark, Value: o.end()})
	}
	if p.refusal {
		d.refused = true
		return append(to, llm.BlockStart{Index: p.block, Block: &llm.Refusal{Meta: meta}})
	}
	return append(to, llm.BlockStart{Index: p.block, Block: &llm.Text{Meta: meta, Phase: it.phase}})
}

func (d *streamDecoder) beginThought(it *readItem, to []llm.Event) []llm.Event {
	if it.block >= 0 {
		return to
	}
	it.block = d.blocks
	d.blocks++
	return append(to, llm.BlockStart{Index: it.block, Block: &llm.Thought{Meta: llm.Meta{ID: it.id, Ext: it.head}}})
}

// beginCall begins a call as soon as its id and name are known, or with an id of
// our own if none will come.
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

// itemAdded reads an item as it is at its beginning. Another id in a place that is
// taken is another item (VER-23 the other way round).
func (d *streamDecoder) itemAdded(index int64, raw jsontext.Value, to []llm.Event) []llm.Event {
	to = d.begin(&snapshot{}, to)
	typ, id := itemType(raw), itemIDOf(raw)
	it := d.find(index, id, typ)
	if it == nil || it.ended || it.typ != "" && it.id != "" && id != "" && it.id != id {
		d.crowded = d.crowded || it != nil
		it = d.add(max(index, 0))
	}
	var w Item
	if itemShape.UnmarshalLenient(raw, &w) != nil {
		return to
	}
	it.typ, it.id = typ, orElse(id, it.id)
	switch it.typ {
	case "message":
		it.phase = w.Phase.Value()
		it.head = extOf(w.Extra)
	case "reasoning":
		it.head = extOf(w.Extra)
	case "function_call", "custom_tool_call":
		call := decodeCall(&w)
		call.Args, call.Seals = "", nil
		call.ID = it.id
		it.call = *call
		to = d.beginCall(it, false, to)
	}
	return to
}

// itemDone reads an item as it is at its end.
func (d *streamDecoder) itemDone(index int64, raw jsontext.Value, to []llm.Event) []llm.Event {
	it := d.find(index, itemIDOf(raw), itemType(raw))
	if it == nil || it.typ == "" {
		to = d.itemAdded(index, raw, to)
		it = d.find(index, itemIDOf(raw), itemType(raw))
	}
	if it == nil || it.ended {
		return to
	}
	var w Item
	if itemShape.UnmarshalLenient(raw, &w) != nil {
		return d.closeItem(it, to)
	}
	switch it.typ {
	case "message":
		to = d.messageDone(it, &w, to)
	case "reasoning":
		to = d.thoughtDone(it, &w, to)
	case "function_call", "custom_tool_call":
		to = d.callDone(it, &w, to)
	default:
		if !w.Type.IsSet() || !raw.IsValid() {
			break // nobody could tell what it is
		}
		if it.typ == searchCall && byClient(raw) {
			to = d.searchDone(it, raw, to)
			break
		}
		to = append(to, llm.BlockStart{Index: d.blocks, Block: decodeOther(it.typ, llm.Raw(raw))}, llm.BlockEnd{Index: d.blocks})
		d.blocks++
	}
	return d.closeItem(it, to)
}

// itemFinal reads an item of the last snapshot, unless it has been read before.
func (d *streamDecoder) itemFinal(index int64, raw jsontext.Value, to []llm.Event) []llm.Event {
	if raw.Kind() != '{' {
		return to
	}
	id := itemIDOf(raw)
	for _, it := range d.items {
		if id != "" && it.id == id {
			return d.itemDone(it.index, raw, to)
		}
	}
	return d.itemDone(index, raw, to)
}

// itemIDOf is the id of an item, where it has one.
func itemIDOf(raw []byte) string {
	var head struct {
		ID jsontext.Value `json:"id"`
	}
	_ = json.Unmarshal(raw, &head, lenient) // an item without an id is found by its place
	return scalar(head.ID)
}

func (d *streamDecoder) messageDone(it *readItem, w *Item, to []llm.Event) []llm.Event {
	parts := w.Content.Value().Parts.Value()
	if s, ok := w.Content.Value().Text.Get(); ok {
		parts = []Part{{Type: wire.Some("output_text"), Text: wire.Some(s)}}
	}
	for i := range parts {
		w := &parts[i]
		if !isText(w.Type.Value()) {
			continue
		}
		refusal := w.Type.Value() == "refusal"
		p := it.addPart(int64(i), refusal)
		if p.block < 0 {
			p.ext = extOf(w.Extra)
		}
		final := w.Text.Value()
		if refusal {
			final = w.Refusal.Value()
		}
		to = d.fill(it, p, final, to)
		if p.block >= 0 && !p.ended {
			to = d.partExtras(p, w, to)
		}
	}
	return to
}

// partExtras gives on what a part has beside its text.
func (d *streamDecoder) partExtras(p *readPart, w *Part, to []llm.Event) []llm.Event {
	if !p.refusal {
		if !p.logprobs {
			to = d.logprobs(p, w.Logprobs, to)
		}
		notes := w.Annotations.Value()
		for _, a := range notes[min(p.cites, len(notes)):] {
			to = append(to, llm.Cite{Index: p.block, Citation: decodeAnnotation(llm.Raw(a))})
		}
	}
	for _, s := range unseal(&llm.Ext{}, value(w.ExtraContent)) {
		to = append(to, llm.SealDelta{Index: p.block, Seal: s})
	}
	return to
}

// fill gives on what a final text has more than its pieces.
func (d *streamDecoder) fill(it *readItem, p *readPart, final string, to []llm.Event) []llm.Event {
	if p.ended || len(final) <= p.sent {
		return to
	}
	rest := final[p.sent:]
	p.sent, p.half = len(final), ""
	to = d.beginPart(it, p, to)
	return append(to, llm.Delta{Index: p.block, Text: rest})
}

func (d *streamDecoder) fillArguments(it *readItem, final string, to []llm.Event) []llm.Event {
	p := it.part(0, false)
	if it.ended || len(final) <= p.sent {
		return to
	}
	rest := final[p.sent:]
	p.sent, p.half = len(final), ""
	if it.block < 0 {
		it.held = append(it.held, rest...)
		return to
	}
	return append(to, llm.Delta{Index: it.block, Text: rest})
}

func (d *streamDecoder) thoughtDone(it *readItem, w *Item, to []llm.Event) []llm.Event {
	t := decodeThought(w)
	var keys [2]int64 // of summaries and of full text
	for _, part := range t.Parts {
		which := 0
		if part.Form == llm.FullReasoning {
			which = 1
		}
		n, p := it.thought(part.Form, keys[which])
		keys[which]++
		if len(part.Text) > p.sent {
			to = d.beginThought(it, to)
			to = append(to, llm.Delta{Index: it.block, Text: part.Text[p.sent:], Part: n, Form: part.Form})
			p.sent, p.half = len(part.Text), ""
		}
	}
	for _, s := range t.Seals {
		to = d.beginThought(it, to)
		to = append(to, llm.SealDelta{Index: it.block, Seal: s})
	}
	return to
}

func (d *streamDecoder) callDone(it *readItem, w *Item, to []llm.Event) []llm.Event {
	call := decodeCall(w)
	args, seals := call.Args, call.Seals
	call.Args, call.Seals = "", nil
	call.ID = orElse(it.id, call.ID)
	if it.block < 0 {
		call.CallID, call.Name = orElse(call.CallID, it.call.CallID), orElse(call.Name, it.call.Name)
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

// closeItem ends what is open of an item.
func (d *streamDecoder) closeItem(it *readItem, to []llm.Event) []llm.Event {
	if it.ended {
		return to
	}
	it.ended = true
	if it.typ == "function_call" || it.typ == "custom_tool_call" {
		to = d.beginCall(it, true, to)
	}
	for n, p := range it.parts {
		block := p.block
		if it.block >= 0 {
			block = it.block
		}
		if p.half != "" && block >= 0 && !p.ended {
			to = append(to, llm.Delta{Index: block, Text: "\uFFFD", Part: partOf(p, n), Form: p.form})
		}
		if p.block >= 0 && p.form == "" && it.block < 0 && !p.ended {
			to = append(to, llm.BlockEnd{Index: p.block})
		}
		p.ended = true
	}
	if it.block >= 0 {
		to = append(to, llm.BlockEnd{Index: it.block})
	}
	return to
}

// partOf is the number of a thought's part; nothing else has parts.
func partOf(p *readPart, n int) int {
	if p.form == "" {
		return 0
	}
	return n
}

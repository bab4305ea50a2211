package openairesponses

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// readItem is an item of a stream that is being decoded.
type readItem struct {
	index int64
	typ   string
	id    string
	block int  // of a thought or a call; -1 before it has begun
	ended bool // all its blocks have ended

	head  llm.Ext // unknown members of a message
	phase string
	parts []*readPart

	call llm.ToolCall
	held []byte // arguments that came before the id and the name
}

// item returns the item that an event belongs to, or begins one that was never
// added. It returns nil if the item has ended.
func (d *streamDecoder) item(e *piece, typ string, to *[]llm.Event) *readItem {
	id := "" // most servers give every item its own index, which is cheaper to compare
	if e.Output < 0 || d.crowded {
		id = wire.Scalar(e.Item)
	}
	it := d.find(e.Output, id, typ)
	if it == nil {
		*to = d.begin(&snapshot{}, *to)
		it = d.add(max(e.Output, 0))
		d.name(it, wire.Scalar(e.Item))
	}
	if it.ended {
		return nil
	}
	it.typ = typ
	return it
}

// find finds an item by its index, and by its id among items of the same index.
// Without an index it goes by the id, then by what is open. An empty type matches
// any.
func (d *streamDecoder) find(index int64, id, typ string) *readItem {
	fits := func(it *readItem) bool { return typ == "" || it.typ == "" || it.typ == typ }
	if id != "" {
		for _, it := range slices.Backward(latest(d.byID[id])) {
			if it.id == id && fits(it) && (index < 0 || it.index == index) {
				return it
			}
		}
	}
	items := d.items
	if index >= 0 {
		items = d.byIndex[index]
	}
	for _, it := range slices.Backward(latest(items)) {
		switch {
		case !fits(it):
		case index < 0 && it.ended:
			return nil
		default:
			return it
		}
	}
	return nil
}

// maxSearched limits how many items an event is compared with, because the upstream chooses their number.
const maxSearched = 1 << 10

// latest returns the items that an event may belong to.
func latest(items []*readItem) []*readItem { return items[max(0, len(items)-maxSearched):] }

func (d *streamDecoder) add(index int64) *readItem {
	it := &readItem{index: index, block: -1, head: llm.Ext{Protocol: own}}
	d.items = append(d.items, it)
	if d.byIndex == nil {
		d.byIndex, d.byID = map[int64][]*readItem{}, map[string][]*readItem{}
	}
	d.byIndex[index] = append(d.byIndex[index], it)
	return it
}

// name sets the id of an item, unless it is empty.
func (d *streamDecoder) name(it *readItem, id string) {
	if id != "" && id != it.id {
		it.id = id
		d.byID[id] = append(d.byID[id], it)
	}
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

// itemAdded decodes output_item.added. Another id at the same index is another
// item (compare VER-23).
func (d *streamDecoder) itemAdded(index int64, raw jsontext.Value, to []llm.Event) []llm.Event {
	to = d.begin(&snapshot{}, to)
	typ, id := itemType(raw), itemIDOf(raw)
	it := d.find(index, id, typ)
	if it == nil || it.ended || it.typ != "" && it.id != "" && id != "" && it.id != id {
		d.crowded = d.crowded || it != nil
		it = d.add(max(index, 0))
	}
	var w Item
	if wire.UnmarshalLenient(raw, &w) != nil {
		return to
	}
	it.typ = typ
	d.name(it, id)
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

// itemDone decodes output_item.done.
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
	if wire.UnmarshalLenient(raw, &w) != nil {
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
			break // its kind is unknown
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

// itemFinal decodes an item of the last snapshot, unless it was decoded before.
func (d *streamDecoder) itemFinal(index int64, raw jsontext.Value, to []llm.Event) []llm.Event {
	if raw.Kind() != '{' {
		return to
	}
	id := itemIDOf(raw)
	same := latest(d.byID[id])
	if i := slices.IndexFunc(same, func(it *readItem) bool { return it.id == id }); i >= 0 {
		index = same[i].index
	}
	return d.itemDone(index, raw, to)
}

// itemIDOf returns the id of an item, or "".
func itemIDOf(raw []byte) string {
	var head struct {
		ID jsontext.Value `json:"id"`
	}
	_ = json.Unmarshal(raw, &head, wire.Lenient) // an item without an id is found by its index
	return wire.Scalar(head.ID)
}

func (d *streamDecoder) messageDone(it *readItem, w *Item, to []llm.Event) []llm.Event {
	parts := w.Content.Value().Parts.Value()
	if s, ok := w.Content.Value().Text.Get(); ok {
		parts = wire.ListOf(Part{Type: wire.Some("output_text"), Text: wire.Some(s)})
	}
	for i, w := range parts.All() {
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

// partExtras emits what a part has besides its text.
func (d *streamDecoder) partExtras(p *readPart, w *Part, to []llm.Event) []llm.Event {
	if !p.refusal {
		if !p.logprobs {
			to = d.logprobs(p, w.Logprobs, to)
		}
		for i, a := range w.Annotations.Value().All() {
			if i >= p.cites && a.Kind() == '{' {
				to = append(to, llm.Cite{Index: p.block, Citation: decodeAnnotation(llm.Raw(*a))})
			}
		}
	}
	for _, s := range unseal(&llm.Ext{}, value(w.ExtraContent)) {
		to = append(to, llm.SealDelta{Index: p.block, Seal: s})
	}
	return to
}

// fill emits the text of a final part that its deltas did not bring.
func (d *streamDecoder) fill(it *readItem, p *readPart, final string, to []llm.Event) []llm.Event {
	if p.ended || len(final) <= p.sent {
		return to
	}
	rest := final[p.sent:]
	p.sent, p.pieces = len(final), wire.Joiner{}
	to = d.beginPart(it, p, to)
	return append(to, llm.Delta{Index: p.block, Text: rest})
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
			p.sent, p.pieces = len(part.Text), wire.Joiner{}
		}
	}
	for _, s := range t.Seals {
		to = d.beginThought(it, to)
		to = append(to, llm.SealDelta{Index: it.block, Seal: s})
	}
	return to
}

// closeItem ends the open blocks of an item.
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
		if rest := p.pieces.Rest(); rest != "" && block >= 0 && !p.ended {
			to = append(to, llm.Delta{Index: block, Text: rest, Part: partOf(p, n), Form: p.form})
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

// partOf returns the index of a thought's part, and 0 for other blocks.
func partOf(p *readPart, n int) int {
	if p.form == "" {
		return 0
	}
	return n
}

// readPart is a part of a message or a thought, or a call's arguments.
type readPart struct {
	key      int64 // content_index or summary_index
	form     string
	refusal  bool
	block    int // of a message's part
	ended    bool
	sent     int // bytes of text that were emitted
	pieces   wire.Joiner
	cites    int
	logprobs bool
	ext      llm.Ext
}

// maxParts limits the parts of an item, because the upstream chooses their numbers. Later ones continue the
// last one.
const maxParts = 1 << 10

// part returns a message's part. Servers that increase content_index with every
// delta mean the open part (RSP-06).
func (it *readItem) part(key int64, refusal bool) *readPart {
	for _, p := range it.parts {
		if p.key == key && p.refusal == refusal && p.form == "" {
			return p
		}
	}
	if n := len(it.parts); n > 0 && !it.parts[n-1].ended && it.parts[n-1].refusal == refusal {
		return it.parts[n-1]
	}
	return it.addPart(key, refusal)
}

func (it *readItem) addPart(key int64, refusal bool) *readPart {
	for _, p := range it.parts {
		if p.key == key && p.refusal == refusal {
			return p
		}
	}
	if n := len(it.parts); n >= maxParts {
		return it.parts[n-1]
	}
	p := &readPart{key: key, refusal: refusal, block: -1, ext: llm.Ext{Protocol: own}}
	it.parts = append(it.parts, p)
	return p
}

// thought returns a thought's part and its index.
func (it *readItem) thought(form string, key int64) (int, *readPart) {
	for i, p := range it.parts {
		if p.key == key && p.form == form {
			return i, p
		}
	}
	if n := len(it.parts); n >= maxParts {
		return n - 1, it.parts[n-1]
	}
	it.parts = append(it.parts, &readPart{key: key, form: form})
	return len(it.parts) - 1, it.parts[len(it.parts)-1]
}

// join decodes a piece of text.
func (p *readPart) join(lit jsontext.Value) string {
	if lit.Kind() != '"' {
		return ""
	}
	text := p.pieces.Next(string(lit[1 : len(lit)-1]))
	p.sent += len(text)
	return text
}

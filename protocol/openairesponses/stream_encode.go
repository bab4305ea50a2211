package openairesponses

import (
	"cmp"
	"strconv"
	"unicode/utf8"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
	"github.com/isogloss-gateway/isogloss/sse"
)

// snapshot appends the response in its present state.
func (s *streamEncoder) snapshot(o outcome, to []byte) []byte {
	to = wire.AppendQuote(append(to, `{"id":`...), s.id)
	to = strconv.AppendInt(append(to, `,"object":"response","created_at":`...), s.created, 10)
	to = wire.AppendQuote(append(to, `,"status":`...), o.status)
	to = append(to, `,"error":`...)
	if o.err == nil {
		to = append(to, "null"...)
	} else {
		typ, code := openai.ErrorType(o.err)
		to = wire.AppendQuote(append(to, `{"code":`...), cmp.Or(code, typ))
		to = append(wire.AppendQuote(append(to, `,"message":`...), o.err.Message), '}')
	}
	to = append(to, `,"incomplete_details":`...)
	if o.reason == "" {
		to = append(to, "null"...)
	} else {
		to = append(wire.AppendQuote(append(to, `{"reason":`...), o.reason), '}')
	}
	to = wire.AppendQuote(append(to, `,"model":`...), s.model)
	to = append(to, `,"output":[`...)
	if o.status != "in_progress" {
		for i, it := range s.items {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(to, it.done...)
		}
	}
	to = append(to, `],"usage":`...)
	to = appendUsage(to, s.usage, o.status)
	to = wire.AppendQuote(append(to, `,"service_tier":`...), cmp.Or(openai.Tier(s.tier, nil), unknownTier))
	to = append(to, s.echo...)
	if o.status != "in_progress" {
		to = append(to, s.extra...)
	}
	return append(to, '}')
}

// streamEncoder encodes one stream. It keeps the items, because the last event
// repeats all of them.
type streamEncoder struct {
	requestedModel string // for upstreams that do not name their model
	echo           []byte // the members of a snapshot that repeat the request
	whole          bool   // only the last snapshot is needed, so events that repeat text are not written
	seq            int64
	started        bool
	over           bool

	id, model, tier string
	created         int64
	usage           *llm.Usage
	stop            llm.Stop

	items   []*writtenItem
	ids     map[string]bool // of the items
	blocks  []place
	pending []*writtenItem // items whose blocks have ended and whose last event waits
	extra   []byte         // members of the last snapshot that the neutral model has no fields for
	last    []byte         // the snapshot that ended the stream
}

// place is where a block is written: an item, and a part if it belongs to a
// message.
type place struct {
	item *writtenItem
	part *writtenPart
}

func newStreamEncoder(req *llm.Request) *streamEncoder {
	s := &streamEncoder{echo: echo(req)}
	if req != nil {
		s.requestedModel = req.Model
	}
	return s
}

// Encode appends one event.
func (s *streamEncoder) Encode(e llm.Event, to []byte) []byte {
	if s.over {
		return to
	}
	switch e := e.(type) {
	case llm.Delta:
		return s.delta(e, to)
	case llm.Start:
		return s.start(e, to)
	case llm.BlockStart:
		return s.blockStart(e, to)
	case llm.SealDelta:
		if at := s.place(e.Choice, e.Index); at.item != nil {
			at.seal(e.Seal)
		}
	case llm.Cite:
		if at := s.place(e.Choice, e.Index); at.part != nil {
			at.part.cites = append(at.part.cites, e.Citation)
		}
	case llm.Logprobs:
		if at := s.place(e.Choice, e.Index); at.part != nil {
			at.part.logprobs.add(e.Raw)
		}
	case llm.Members:
		s.members(e)
	case llm.BlockEnd:
		return s.blockEnd(e, to)
	case llm.UsageUpdate:
		s.usage = &e.Usage
	case llm.ChoiceEnd:
		if e.Choice == 0 {
			s.stop = e.Stop
			return s.closeAll(to)
		}
	case llm.End:
		return s.end(to)
	case llm.Failure:
		return s.fail(e.Err, to)
	case llm.Ping:
		return sse.AppendComment(to, "ping")
	}
	return to
}

// members keeps the members of a response for its last snapshot.
func (s *streamEncoder) members(e llm.Members) {
	if e.Choice != llm.Whole || !isOwn(e.Ext) {
		return
	}
	o := object{}
	o.ext(e.Ext)
	if len(o.names) == 0 {
		return
	}
	text := oneLine(o.end())
	text[0] = ',' // they follow other members
	s.extra = append(s.extra, text[:len(text)-1]...)
}

// place returns the place of a block. Only the first choice is written.
func (s *streamEncoder) place(choice, index int) place {
	if choice != 0 || index < 0 || index >= len(s.blocks) {
		return place{}
	}
	return s.blocks[index]
}

func (s *streamEncoder) start(e llm.Start, to []byte) []byte {
	if s.started {
		return to
	}
	s.started = true
	s.id, s.model, s.created, s.tier, s.usage = responseID(e), cmp.Or(e.Model, s.requestedModel), e.Created, e.Tier, e.Usage
	if isOwn(e.Ext) { // prefer what the upstream repeated of the request
		s.echo = echoOf(e.Ext.Members)
	}
	for _, typ := range []string{"response.created", "response.in_progress"} {
		to = append(s.open(typ, to), `,"response":`...)
		to = closeEvent(s.snapshot(outcome{status: "in_progress"}, to))
	}
	return to
}

// open appends an event up to its own members.
func (s *streamEncoder) open(typ string, to []byte) []byte {
	to = append(append(append(to, "event: "...), typ...), "\ndata: {\"type\":\""...)
	to = append(append(to, typ...), `","sequence_number":`...)
	to = strconv.AppendInt(to, s.seq, 10)
	s.seq++
	return to
}

func closeEvent(to []byte) []byte { return append(to, "}\n\n"...) }

func (s *streamEncoder) delta(e llm.Delta, to []byte) []byte {
	at := s.place(e.Choice, e.Index)
	if at.item == nil || e.Text == "" && e.Form == "" {
		return to
	}
	to = s.flush(to)
	p := at.part
	if at.item.typ == "reasoning" {
		p, to = s.thoughtPart(at.item, e, to)
	}
	if e.Text == "" || p == nil {
		return to
	}
	if p.deltaType == "" {
		quoted := quote(e.Text)
		p.body = append(p.body, quoted[1:len(quoted)-1]...)
		return to
	}
	to = append(s.open(p.deltaType, to), p.prefix...)
	begin := len(to)
	to = wire.AppendQuote(to, e.Text)
	p.body = append(p.body, to[begin+1:len(to)-1]...)
	if p.typ == "output_text" {
		p.runes += utf8.RuneCountInString(e.Text)
		to = append(to, `,"logprobs":[]`...)
	}
	return closeEvent(to)
}

// blockStart begins an item, or a part of the open message.
func (s *streamEncoder) blockStart(e llm.BlockStart, to []byte) []byte {
	if e.Choice != 0 {
		return to
	}
	for len(s.blocks) <= e.Index {
		s.blocks = append(s.blocks, place{})
	}
	at := &s.blocks[e.Index]
	switch b := e.Block.(type) {
	case *llm.Text:
		*at, to = s.startPart("output_text", b.Phase, b, to)
	case *llm.Refusal:
		*at, to = s.startPart("refusal", "", b, to)
	default:
		item := newItem(b)
		if item == nil {
			return to // another vendor's block, which has no counterpart
		}
		to = s.addItem(item, b.Common().ID, s.flush(to))
		*at = place{item: item, part: item.arguments()}
	}
	for _, seal := range e.Block.Common().Seals {
		at.seal(seal)
	}
	return to
}

func (s *streamEncoder) startPart(typ, phase string, b llm.Block, to []byte) (place, []byte) {
	m := b.Common()
	item := s.openMessage(m, phase)
	if item == nil {
		item = &writtenItem{typ: "message", phase: phase, source: m.ID}
		if isOwn(m.Ext) {
			item.ext = membersOf(m.Ext.Get(itemMark))
		}
		to = s.addItem(item, m.ID, s.flush(to))
	}
	p := item.add(typ)
	if isOwn(m.Ext) {
		p.ext = m.Ext
	}
	to = append(s.open("response.content_part.added", to), p.at...)
	to = append(append(to, `,"part":`...), p.empty()...)
	return place{item, p}, closeEvent(to)
}

// openMessage returns the message that a new part belongs to: the last item,
// unless the source or the phase begins another one.
func (s *streamEncoder) openMessage(m *llm.Meta, phase string) *writtenItem {
	if len(s.items) == 0 {
		return nil
	}
	it := s.items[len(s.items)-1]
	if it.typ != "message" || it.done != "" || it.source != m.ID || it.phase != phase || isOwn(m.Ext) && m.Ext.Get(itemMark) != "" {
		return nil
	}
	s.pending = without(s.pending, it)
	return it
}

func without(items []*writtenItem, gone *writtenItem) []*writtenItem {
	kept := items[:0]
	for _, it := range items {
		if it != gone {
			kept = append(kept, it)
		}
	}
	return kept
}

func (s *streamEncoder) addItem(it *writtenItem, id string, to []byte) []byte {
	it.index = len(s.items)
	if it.raw != "" {
		id = itemIDOf([]byte(it.raw))
	}
	if it.id = s.itemID(id, it); it.raw != "" && it.id != id {
		it.rename()
	}
	if s.ids == nil {
		s.ids = map[string]bool{}
	}
	s.items, s.ids[it.id] = append(s.items, it), true
	to = append(s.open("response.output_item.added", to), `,"output_index":`...)
	to = strconv.AppendInt(to, int64(it.index), 10)
	to = append(append(to, `,"item":`...), it.render("in_progress", true)...)
	return closeEvent(to)
}

// itemID returns the source's id of an item if it is valid here and unused,
// otherwise one that is derived from the response.
func (s *streamEncoder) itemID(id string, it *writtenItem) string {
	if s.ids[id] {
		id = ""
	}
	if known := itemID(id, it.prefix()); known != "" || it.raw != "" && id != "" {
		return cmp.Or(known, id)
	}
	prefix := it.prefix()
	if it.typ == "reasoning" && !it.own {
		prefix += codec.Minted
	}
	return llm.MintID(prefix, s.id, strconv.Itoa(it.index))
}

// responseID returns the source's id if it is valid in this protocol.
func responseID(e llm.Start) string {
	if known := itemID(e.ID, "resp_"); known != "" {
		return known
	}
	return llm.MintID("resp_", e.ID, e.Model, strconv.FormatInt(e.Created, 10))
}

// blockEnd ends a block. The item's last event waits for the next block or the
// end of the response, which shows whether the item is complete and whether a
// message continues.
func (s *streamEncoder) blockEnd(e llm.BlockEnd, to []byte) []byte {
	at := s.place(e.Choice, e.Index)
	if at.item == nil {
		return to
	}
	if at.item.typ == "message" {
		to = s.endPart(at.item, at.part, to)
		if at.item.ended < len(at.item.parts) {
			return to
		}
	}
	s.pending = append(without(s.pending, at.item), at.item)
	return to
}

// flush writes the last events of items whose blocks have ended.
func (s *streamEncoder) flush(to []byte) []byte {
	for _, it := range s.pending {
		to = s.closeItem(it, "completed", to)
	}
	s.pending = s.pending[:0]
	return to
}

// closeAll ends what is open at the end of the choice. The last item of a
// response that was cut off is incomplete.
func (s *streamEncoder) closeAll(to []byte) []byte {
	s.pending = s.pending[:0]
	cut := s.outcome().status == "incomplete"
	for i, it := range s.items {
		status := "completed"
		if cut && i == len(s.items)-1 {
			status = "incomplete"
		}
		to = s.closeItem(it, status, to)
	}
	return to
}

func (s *streamEncoder) closeItem(it *writtenItem, status string, to []byte) []byte {
	if it.done != "" {
		return to
	}
	if it.typ == "function_call" && len(it.parts[0].body) == 0 && status == "completed" {
		// A call without arguments gets an empty object, because clients parse
		// the arguments (RSP-33).
		it.parts[0].body = append(it.parts[0].body, "{}"...)
		to = append(append(s.open(it.parts[0].deltaType, to), it.parts[0].prefix...), `"{}"`...)
		to = closeEvent(to)
	}
	for _, p := range it.parts {
		to = s.endPart(it, p, to)
	}
	it.done = it.render(status, false)
	for _, p := range it.parts {
		p.body = nil // the item holds it now
	}
	if s.whole {
		return to
	}
	to = append(s.open("response.output_item.done", to), `,"output_index":`...)
	to = strconv.AppendInt(to, int64(it.index), 10)
	to = append(append(to, `,"item":`...), it.done...)
	return closeEvent(to)
}

// end writes the last event.
func (s *streamEncoder) end(to []byte) []byte {
	if !s.started {
		to = s.start(llm.Start{}, to)
	}
	to = s.closeAll(to)
	return s.terminal(s.outcome(), to)
}

// fail ends a response with an error: what is open is incomplete.
func (s *streamEncoder) fail(e *llm.Error, to []byte) []byte {
	if !s.started {
		to = s.start(llm.Start{}, to)
	}
	s.pending = s.pending[:0]
	for _, it := range s.items {
		to = s.closeItem(it, "incomplete", to)
	}
	return withError(s.terminal(outcome{status: "failed", err: e}, to), e)
}

// withError adds an error member to the last event. SDKs that read event by event
// raise it; they do not look inside the response.
func withError(event []byte, e *llm.Error) []byte {
	event = append(event[:len(event)-len("}\n\n")], `,"error":`...)
	return closeEvent(openai.AppendError(event, e))
}

func (s *streamEncoder) terminal(o outcome, to []byte) []byte {
	s.over = true
	s.last = s.snapshot(o, nil)
	if s.whole {
		return to
	}
	to = append(s.open("response."+o.status, to), `,"response":`...)
	return closeEvent(append(to, s.last...))
}

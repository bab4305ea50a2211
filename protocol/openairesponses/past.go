package openairesponses

import (
	"bytes"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// A chain of answers that name each other is followed so far. A conversation that is
// longer has long been too long for any model.
const maxChain = 10_000

// Question is what of a request is kept for those who name the answer to it: what was
// said, and which answer that went on from. member finds a member of the request.
func (Codec) Question(member func(name string) []byte) []byte {
	o := object{}
	for _, name := range []string{"previous_response_id", "input"} {
		o.raw(name, llm.Raw(member(name)))
	}
	return []byte(o.end())
}

// Told reads an answer: one that has failed tells nothing.
func (Codec) Told(answer []byte) (protocol.Told, bool) {
	var w struct {
		ID     string     `json:"id"`
		Status string     `json:"status"`
		Output []wire.Raw `json:"output"`
	}
	if json.Unmarshal(answer, &w, lenient) != nil || w.ID == "" || w.Status != "completed" && w.Status != "incomplete" {
		return protocol.Told{}, false
	}
	told := protocol.Told{ID: w.ID}
	for _, raw := range w.Output {
		told.Items = append(told.Items, protocol.ToldItem{ID: itemIDOf(raw), Text: raw})
	}
	return told, true
}

// Names reports whether a request may name what was said before. Inside a JSON string a
// quote is escaped, so that text cannot look like a name.
func (Codec) Names(body []byte) bool {
	if bytes.Contains(body, []byte(`"previous_response_id"`)) || bytes.Contains(body, []byte(`"item_reference"`)) {
		return true
	}
	// A reference may come without its type, and is then an id and nothing else (RSP-27).
	for _, rest, found := bytes.Cut(body, []byte(`{"id":`)); found; _, rest, found = bytes.Cut(rest, []byte(`{"id":`)) {
		_, after, quoted := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(`"`))
		if _, after, ended := bytes.Cut(after, []byte(`"`)); quoted && ended && bytes.HasPrefix(bytes.TrimLeft(after, " "), []byte("}")) {
			return true
		}
	}
	return false
}

// Recount writes out what a request only names, as far as past knows it: an earlier
// answer with all that was said up to it, and single items. What is not known stays a
// name, for the vendor or for [Codec.Stateful]. It is nil where nothing is known. What
// was named is no larger than limit.
func (Codec) Recount(body []byte, past protocol.Past, limit int64) ([]byte, *llm.Error) {
	var w Request
	if requestShape.Unmarshal(body, &w) != nil {
		return nil, nil //nolint:nilerr // whoever is asked will say what is wrong with it
	}
	r := recounter{past: past, room: limit}
	known := r.upTo(w.PreviousResponseID.Value())
	r.input(w.Input.Value())
	switch {
	case r.room < 0:
		return nil, &llm.Error{Kind: llm.TooLarge, Message: "the conversation that the request goes on from is larger than limits.body; send a shorter one as input"}
	case !known && r.found == 0:
		return nil, nil
	}
	o := object{}
	for _, m := range membersOf(llm.Raw(body)) {
		if m.Name != "input" && (m.Name != "previous_response_id" || !known) {
			o.raw(m.Name, llm.Raw(m.Value))
		}
	}
	o.raw("input", r.items.end())
	return []byte(o.end()), nil
}

// recounter gathers items.
type recounter struct {
	past    protocol.Past
	room    int64 // for what was named; less than nothing where it is too much
	items   list
	found   int // items that were named
	unknown int // and those that nobody knows
}

// upTo says again what was said up to an answer, that one included. It reports whether
// all of that is known; else it is as if it had not been asked. What is too much is not
// followed to its beginning.
func (r *recounter) upTo(id string) bool {
	type exchange struct {
		question Input
		items    [][]byte
	}
	var chain []exchange // the last one first
	fresh := *r
	for before := id; before != ""; {
		question, items, ok := r.past.Answer(before)
		var w Request
		if !ok || len(chain) == maxChain || requestShape.Unmarshal(question, &w) != nil {
			*r = fresh
			return false
		}
		chain = append(chain, exchange{w.Input.Value(), items})
		r.room -= int64(len(question))
		for _, it := range items {
			r.room -= int64(len(it))
		}
		if r.room < 0 {
			return true
		}
		before = w.PreviousResponseID.Value()
	}
	for len(chain) > 0 {
		e := chain[len(chain)-1]
		chain = chain[:len(chain)-1]
		r.input(e.question)
		for _, it := range e.items {
			r.items.add(llm.Raw(it))
		}
	}
	if r.unknown > 0 {
		*r = fresh
		return false
	}
	return id != ""
}

// input adds what a request has said, with what it names.
func (r *recounter) input(in Input) {
	if s, ok := in.Text.Get(); ok {
		o := object{}
		o.str("type", "message")
		o.str("role", "user")
		o.str("content", s)
		r.items.add(o.end())
	}
	for _, raw := range in.Items.Value() {
		if itemType(raw) != "item_reference" {
			r.items.add(llm.Raw(raw))
			continue
		}
		item, ok := r.past.Item(itemIDOf(raw))
		if !ok {
			r.unknown++
			r.items.add(llm.Raw(raw))
			continue
		}
		r.found++
		if r.room -= int64(len(item)); r.room < 0 {
			return
		}
		r.items.add(llm.Raw(item))
	}
}

// unknown is the refusal of a name that nobody knows here.
func unknown(param, code, id string) *llm.Error {
	return &llm.Error{Kind: llm.InvalidRequest, Code: code, Param: param,
		Message: param + " '" + id + "' is not known here: this model is not served by OpenAI's Responses API. What this process has answered is known to it for an hour after it was last used, " +
			"unless store was false or limits.conversations is 0; send the whole conversation as input instead"}
}

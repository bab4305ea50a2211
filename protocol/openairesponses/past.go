package openairesponses

import (
	"strconv"

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

// Recount writes out what a request only names: an earlier answer with all that was said
// up to it, and single items. What comes of it is no larger than limit.
func (Codec) Recount(body []byte, past protocol.Past, limit int64) ([]byte, *llm.Error) {
	var w Request
	if err := requestShape.Unmarshal(body, &w); err != nil {
		return nil, invalid("", err)
	}
	r := recounter{past: past, room: limit}
	if err := r.upTo(w.PreviousResponseID.Value()); err != nil {
		return nil, err
	}
	if err := r.input(w.Input.Value()); err != nil {
		return nil, err
	}
	o := object{}
	for _, m := range membersOf(llm.Raw(body)) {
		if m.Name != "input" && m.Name != "previous_response_id" {
			o.raw(m.Name, llm.Raw(m.Value))
		}
	}
	o.raw("input", r.items.end())
	return []byte(o.end()), nil
}

// recounter gathers items.
type recounter struct {
	past  protocol.Past
	room  int64
	items list
}

// upTo says again what was said up to an answer, that one included.
func (r *recounter) upTo(id string) *llm.Error {
	type exchange struct {
		question Input
		items    [][]byte
	}
	var chain []exchange // the last one first
	for id != "" {
		question, items, ok := r.past.Answer(id)
		var w Request
		if !ok || len(chain) == maxChain || requestShape.Unmarshal(question, &w) != nil {
			return unknown("previous_response_id", "previous_response_id", "previous_response_not_found", id)
		}
		r.room -= int64(len(question))
		for _, it := range items {
			r.room -= int64(len(it))
		}
		if r.room < 0 {
			return tooMuch()
		}
		chain = append(chain, exchange{w.Input.Value(), items})
		id = w.PreviousResponseID.Value()
	}
	for len(chain) > 0 {
		e := chain[len(chain)-1]
		chain = chain[:len(chain)-1]
		if err := r.input(e.question); err != nil {
			return err
		}
		for _, it := range e.items {
			r.items.add(llm.Raw(it))
		}
	}
	return nil
}

// input adds what a request has said, with what it names.
func (r *recounter) input(in Input) *llm.Error {
	if s, ok := in.Text.Get(); ok {
		o := object{}
		o.str("type", "message")
		o.str("role", "user")
		o.str("content", s)
		r.items.add(o.end())
	}
	for i, raw := range in.Items.Value() {
		if itemType(raw) == "item_reference" {
			id := itemIDOf(raw)
			item, ok := r.past.Item(id)
			if !ok {
				return unknown("input["+strconv.Itoa(i)+"]", "item_reference", "item_not_found", id)
			}
			if r.room -= int64(len(item)); r.room < 0 {
				return tooMuch()
			}
			raw = item
		}
		r.items.add(llm.Raw(raw))
	}
	return nil
}

// unknown is the error for a name that nobody knows here.
func unknown(param, what, code, id string) *llm.Error {
	return &llm.Error{Kind: llm.InvalidRequest, Code: code, Param: param,
		Message: what + " '" + id + "' is not known here. This model is not served by OpenAI's Responses API: what was said is kept in memory only, by the process that has answered, " +
			"until it was not used for an hour, and not at all with store: false; send the whole conversation as input instead"}
}

func tooMuch() *llm.Error {
	return &llm.Error{Kind: llm.TooLarge, Message: "the conversation that the request goes on from is larger than limits.body; send a shorter one as input"}
}

package openairesponses

import (
	"bytes"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// maxChain bounds how many earlier responses a request can continue through
// previous_response_id. No model has room for a longer conversation.
const maxChain = 10_000

// storedResponses describes previous_response_id and item_reference.
func storedResponses() *codec.StoredResponses {
	return &codec.StoredResponses{MayRefer: mayRefer, Expand: expandReferences, CheckExpanded: checkExpanded, Input: storedInput, Parse: parseStored,
		FinalResponse: func(e protocol.StreamEncoder) []byte {
			if s, ok := e.(*streamEncoder); ok {
				return s.last
			}
			return nil
		}}
}

// storedInput returns the input of a request and the response that it continues.
func storedInput(member func(name string) []byte) []byte {
	o := object{}
	for _, name := range []string{"previous_response_id", "input"} {
		o.raw(name, llm.Raw(member(name)))
	}
	return o.close()
}

// parseStored reads a response that completed, in whole or in part.
func parseStored(response []byte) (codec.StoredResponse, bool) {
	var w struct {
		ID     string     `json:"id"`
		Status string     `json:"status"`
		Output []wire.Raw `json:"output"`
	}
	if json.Unmarshal(response, &w, wire.Lenient) != nil || w.ID == "" || w.Status != "completed" && w.Status != "incomplete" {
		return codec.StoredResponse{}, false
	}
	stored := codec.StoredResponse{ID: w.ID}
	for _, raw := range w.Output {
		stored.Items = append(stored.Items, codec.StoredItem{ID: itemIDOf(raw), Text: raw})
	}
	return stored, true
}

// mayRefer looks for the members that hold references. Inside a JSON string a quote is
// escaped, so that text cannot look like a member.
func mayRefer(body []byte) bool {
	if bytes.Contains(body, []byte(`"previous_response_id"`)) || bytes.Contains(body, []byte(`"item_reference"`)) {
		return true
	}
	// An item_reference may come without its type, as an object with nothing but an id (RSP-27).
	for _, rest, found := bytes.Cut(body, []byte(`{"id":`)); found; _, rest, found = bytes.Cut(rest, []byte(`{"id":`)) {
		_, after, quoted := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(`"`))
		if _, after, ended := bytes.Cut(after, []byte(`"`)); quoted && ended && bytes.HasPrefix(bytes.TrimLeft(after, " "), []byte("}")) {
			return true
		}
	}
	return false
}

// expandReferences replaces previous_response_id by the conversation up to that
// response, and each item_reference by its item. References that the store does not
// know stay, for the vendor or for checkExpanded.
func expandReferences(body []byte, store codec.ResponseStore, maxBytes int64) (*codec.Expanded, *llm.Error) {
	var w Request
	if wire.Unmarshal(body, &w) != nil {
		return nil, nil //nolint:nilerr // the decoder or the vendor reports what is wrong with it
	}
	x := expander{store: store, left: maxBytes}
	previous := w.PreviousResponseID.Value()
	known := x.addUpTo(previous)
	x.addInput(w.Input.Value())
	switch {
	case x.left < 0:
		return nil, &llm.Error{Kind: llm.TooLarge, Message: "the conversation that the request continues is larger than limits.body; send a shorter one as input"}
	case !known && x.found == 0:
		return nil, nil
	}
	o := object{}
	for _, m := range membersOf(llm.Raw(body)) {
		if m.Name != "input" && (m.Name != "previous_response_id" || !known) {
			o.raw(m.Name, llm.Raw(m.Value))
		}
	}
	o.bytes("input", x.items.close())
	e := &codec.Expanded{Body: o.close()}
	if known {
		e.PreviousID = previous
	}
	return e, nil
}

// expander collects the items of an expanded request.
type expander struct {
	store   codec.ResponseStore
	left    int64 // bytes that references may still expand to; negative when there are too many
	items   list
	found   int // references that the store knows
	unknown int // references that it does not know
}

// addUpTo adds the conversation up to and including a response. It reports false, and adds
// nothing, if the store lacks a part of the chain. It stops early when the conversation is too
// large.
func (x *expander) addUpTo(id string) bool {
	type turn struct {
		input Input
		items [][]byte
	}
	var chain []turn // the latest first
	before := *x
	for at := id; at != ""; {
		input, items, ok := x.store.Response(at)
		var w Request
		if !ok || len(chain) == maxChain || wire.Unmarshal(input, &w) != nil {
			*x = before
			return false
		}
		chain = append(chain, turn{w.Input.Value(), items})
		x.left -= int64(len(input))
		for _, it := range items {
			x.left -= int64(len(it))
		}
		if x.left < 0 {
			return true
		}
		at = w.PreviousResponseID.Value()
	}
	for len(chain) > 0 {
		t := chain[len(chain)-1]
		chain = chain[:len(chain)-1]
		x.addInput(t.input)
		for _, it := range t.items {
			x.items.add(llm.Raw(it))
		}
	}
	if x.unknown > 0 {
		*x = before
		return false
	}
	return id != ""
}

// addInput adds the input of a request with its references replaced.
func (x *expander) addInput(in Input) {
	if s, ok := in.Text.Get(); ok {
		o := object{}
		o.str("type", "message")
		o.str("role", "user")
		o.str("content", s)
		x.items.add(o.end())
	}
	for _, item := range in.Items.Value().All() {
		raw := *item
		if itemType(raw) != "item_reference" {
			x.items.add(llm.Raw(raw))
			continue
		}
		item, ok := x.store.Item(itemIDOf(raw))
		if !ok {
			x.unknown++
			x.items.add(llm.Raw(raw))
			continue
		}
		x.found++
		if x.left -= int64(len(item)); x.left < 0 {
			return
		}
		x.items.add(llm.Raw(item))
	}
}

// unknownReference is the error of a reference that the store does not know.
func unknownReference(param, code, id string) *llm.Error {
	return &llm.Error{Kind: llm.InvalidRequest, Code: code, Param: param,
		Message: param + " '" + id + "' is not known here: this model is not served by OpenAI's Responses API. This process stores the responses that it sent for an hour after their last use, " +
			"unless store was false or limits.conversations is 0; send the whole conversation as input instead"}
}

package relay

import (
	"crypto/sha256"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// What is kept of conversations. How much room they have together is the operator's.
const (
	pastLife = time.Hour
	maxPast  = 256 << 10 // questions, answers and items
	pastSize = 8 << 20   // bytes of one
)

// namer is a dialect whose clients may name what was said before, in place of saying it
// again.
type namer interface {
	// Names reports whether a request may name anything. It is quick.
	Names(body []byte) bool

	// Recount writes out what a request only names, as far as it is known. It is nil
	// where nothing is.
	Recount(body []byte, past protocol.Past, limit int64) ([]byte, *llm.Error)

	// Stateful is the refusal of a request that needs more than it says.
	Stateful(ask *llm.Request) *llm.Error

	// Question is what of a request is kept for those who name the answer to it.
	Question(member func(name string) []byte) []byte

	// Told reads an answer.
	Told(answer []byte) (protocol.Told, bool)
}

// pastStore keeps what clients have said and were told, on upstreams that keep nothing.
// It is found with the caller's own key and the id that the caller was told.
type pastStore struct{ *vault }

func newPastStore() *pastStore {
	return &pastStore{newVault(vaultBounds{life: pastLife, many: maxPast, size: pastSize})}
}

// toldAnswer is an answer as it is kept. Its items are kept apart, because they are
// named apart.
type toldAnswer struct {
	Question string   `json:"question"` // the id of the exchange, which it is kept under
	Items    []string `json:"items"`
}

// The kinds of what is kept: an id of one is none of another.
const (
	pastQuestion = "question"
	pastAnswer   = "answer"
	pastItem     = "item"
)

func pastKey(caller, kind, id string) vaultKey {
	return sha256.Sum256([]byte(caller + "\x00" + kind + "\x00" + id))
}

// pastOf is what one caller has said and was told.
type pastOf struct {
	store  *pastStore
	caller string
}

func (p pastOf) Item(id string) ([]byte, bool) { return p.store.get(pastKey(p.caller, pastItem, id)) }

func (p pastOf) Answer(id string) (question []byte, items [][]byte, ok bool) {
	kept, ok := p.store.get(pastKey(p.caller, pastAnswer, id))
	var told toldAnswer
	if !ok || json.Unmarshal(kept, &told) != nil {
		return nil, nil, false
	}
	if question, ok = p.store.get(pastKey(p.caller, pastQuestion, told.Question)); !ok {
		return nil, nil, false
	}
	for _, id := range told.Items {
		item, ok := p.Item(id)
		if !ok {
			return nil, nil, false
		}
		items = append(items, item)
	}
	return question, items, true
}

// named is a request as it came, where it named what was said before.
type named struct {
	question []byte // as it is kept
	previous string // the answer that it goes on from; empty if it named items only
}

// writeOut makes of a request that names what was said before one that says it, so that
// from here on it is like any other: for prompt caches, for what it is going to cost, for
// whoever is asked. What is not known here may be known to the vendor, and stays.
func (r *Relay) writeOut(x *exchange) *llm.Error {
	dialect, names := x.dialect.(namer)
	if !names || x.state.Limits.Conversations == 0 || r.past.empty() || !dialect.Names(x.ask.body) {
		return nil
	}
	body, err := dialect.Recount(x.ask.body, pastOf{r.past, x.caller.ID}, x.state.Limits.Body)
	if body == nil || err != nil {
		return err
	}
	ask, err := x.endpoint.project(body)
	if err != nil {
		return err
	}
	x.named = &named{question: dialect.Question(x.ask.member)}
	if id := x.ask.raw("previous_response_id"); id != nil && ask.raw("previous_response_id") == nil {
		previous, _ := jsontext.AppendUnquote(nil, id) // it was read as a string before
		x.named.previous = string(previous)
	}
	x.ask = ask
	return nil
}

// member is a member of the body, as the codecs ask for it.
func (o *object) member(name string) []byte { return o.raw(name) }

// keeping is an exchange that may be named later.
type keeping struct {
	pastOf
	dialect namer
	room    int64
	id      string // of the exchange
	asked   bool   // the question is kept
}

// keeping is nil where nothing is to be kept: the upstream keeps it, or the client or
// the operator does not want it.
func (r *Relay) keeping(x *exchange) *keeping {
	room := x.state.Limits.Conversations
	dialect, names := x.dialect.(namer)
	if !names || room == 0 || x.dialect.Name() == x.speaks.Name() {
		return nil
	}
	if store := x.translation.ask.State.Store; store != nil && !*store {
		return nil
	}
	return &keeping{pastOf: pastOf{r.past, x.caller.ID}, dialect: dialect, room: room, id: x.seen.ID}
}

// question keeps what was asked, once, while it is there. What was named stays a name:
// each turn of a conversation is kept once.
func (k *keeping) question(x *exchange) {
	if k == nil || k.asked {
		return
	}
	var q []byte
	if x.named != nil {
		q = x.named.question
	} else {
		q = k.dialect.Question(x.ask.member)
	}
	k.asked = k.store.put(pastKey(k.caller, pastQuestion, k.id), q, k.room)
}

// answer keeps what was told. Some upstreams give the same id to all of their answers:
// what could be either of two is not found.
func (k *keeping) answer(written []byte) {
	if k == nil || !k.asked {
		return
	}
	told, ok := k.dialect.Told(written)
	if !ok {
		return
	}
	a := toldAnswer{Question: k.id}
	for _, item := range told.Items {
		if !k.store.claim(pastKey(k.caller, pastItem, item.ID), item.Text, k.room) {
			return
		}
		a.Items = append(a.Items, item.ID)
	}
	if kept, err := json.Marshal(a); err == nil {
		k.store.claim(pastKey(k.caller, pastAnswer, told.ID), kept, k.room)
	}
}

// keepPast keeps a stream that can be named later.
func (s *translator) keepPast() {
	if whole, ok := s.encoder.(interface{ Whole() []byte }); ok && s.keeping != nil {
		s.keeping.question(s.x) // of an answer that came at once
		s.keeping.answer(whole.Whole())
	}
}

package conversation

import (
	"strconv"
	"time"
)

// Pins remember which target served each conversation.
type Pins struct{ store *store }

// Session identifies one conversation of a caller with a model.
type Session struct {
	Caller Caller
	Route  string
	Prefix uint64 // hash of the conversation so far
}

// NewPins returns Pins for 64 Ki conversations, each kept for a day after its last
// use.
func NewPins() *Pins {
	return &Pins{newStore(bounds{ttl: 24 * time.Hour, maxEntries: 64 << 10, maxValue: 1 << 10, maxBytes: 32 << 20})}
}

// Set records the target that served a conversation.
func (p *Pins) Set(s Session, target string) { p.store.put(s.Caller.Tenant, s.key(), []byte(target)) }

// Target returns the target that served a conversation, or "" if none is known.
func (p *Pins) Target(s Session) string {
	target, _ := p.store.get(s.key())
	return string(target)
}

func (s Session) key() key { return newKey(s.Caller.ID, s.Route, strconv.FormatUint(s.Prefix, 16)) }

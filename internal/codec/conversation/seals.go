package conversation

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Bounds of the sealed reasoning. A conversation that pauses for longer than the TTL
// continues without its earlier reasoning, as it would with most vendors.
const (
	sealsTTL        = time.Hour
	sealsMaxEntries = 16 << 10
	sealsMaxValue   = 256 << 10 // bytes of one response's reasoning
	sealsMaxBytes   = 64 << 20
)

// Seals store the sealed reasoning of responses that call tools, for clients that do
// not send it back.
//
// The key of an entry consists of the caller, the protocol that sealed the reasoning, the
// conversation before the response and the response's first tool call. If the id of the
// call is not random, the system text is a part of the key too, because some servers use
// the same ids in every conversation.
type Seals struct{ store keeper }

// NewSeals returns an empty store with its default bounds: one hour after the last
// use, 16 Ki responses, 256 KiB each and 64 MiB together.
func NewSeals() *Seals {
	return &Seals{newStore(bounds{ttl: sealsTTL, maxEntries: sealsMaxEntries, maxValue: sealsMaxValue, maxBytes: sealsMaxBytes})}
}

// NewSealsIn returns seals that are kept in values, which belong to one caller.
func NewSealsIn(values Values) *Seals { return &Seals{&outside{values: values}} }

// Restore returns the turns with the stored reasoning added to each assistant turn that
// calls tools and has no seal. A turn with a seal stays as it is: its client sends reasoning
// back, and the turn may come from another vendor's model. The argument is not changed.
func (s *Seals) Restore(caller Caller, protocol string, turns []llm.Turn) []llm.Turn {
	if s.store.isEmpty() {
		return turns
	}
	var restored []llm.Turn
	before := newDigester()
	for i := range turns {
		digest := before.sum()
		before.add(turns[i])
		first := firstCall(turns[i].Blocks)
		if turns[i].Role != llm.Assistant || first == nil || hasSeal(turns[i].Blocks) {
			continue
		}
		id := first.CallID
		if first.Synthetic {
			id = "" // the client sent no id
		}
		found, ok := s.get(sealKey(caller.ID, protocol, digest, id, first))
		if !ok {
			continue
		}
		if restored == nil {
			restored = slices.Clone(turns)
		}
		restored[i].Blocks = found.applyTo(turns[i].Blocks)
	}
	if restored == nil {
		return turns
	}
	return restored
}

// sealKey returns the key of a response's reasoning. The call's arguments are compared
// in canonical form, because clients format them in their own way.
func sealKey(caller, protocol string, before Digest, callID string, call *llm.ToolCall) key {
	args := jsontext.Value(call.Args)
	if call.Args == "" {
		args = jsontext.Value("{}") // clients receive "{}" for a call without arguments
	}
	if args.Canonicalize(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		args = jsontext.Value(call.Args)
	}
	system := ""
	if !isRandom(callID) {
		system = string(before.system[:])
	}
	return newKey(caller, protocol, string(before.turns[:]), system, callID, call.Name, string(args))
}

// isRandom reports whether an id ends with enough letters and digits to be unique to one call.
func isRandom(id string) bool {
	const enough = 20
	end := strings.TrimRight(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	return len(id)-len(end) >= enough
}

func (s *Seals) put(tenant string, k key, r *reasoning) {
	if value, err := json.Marshal(r); err == nil {
		s.store.put(tenant, k, value)
	}
}

func (s *Seals) get(k key) (*reasoning, bool) {
	value, ok := s.store.get(k)
	var r reasoning
	if !ok || json.Unmarshal(value, &r) != nil {
		return nil, false
	}
	return &r, true
}

// reasoning is the sealed reasoning of one response.
type reasoning struct {
	Thoughts []llm.Thought         `json:"thoughts"` // those before the first call
	Calls    map[string][]llm.Seal `json:"calls"`    // seals of the calls themselves, by call id
}

// protocols returns the protocols that sealed any part of the reasoning.
func (r *reasoning) protocols() []string {
	var names []string
	add := func(seals []llm.Seal) {
		for _, s := range seals {
			if !slices.Contains(names, s.Origin) {
				names = append(names, s.Origin)
			}
		}
	}
	for _, t := range r.Thoughts {
		add(t.Seals)
	}
	for _, seals := range r.Calls {
		add(seals)
	}
	return names
}

// applyTo returns the blocks of a turn with the stored thoughts first, in place of the
// client's own, and with the stored seals on its calls.
func (r *reasoning) applyTo(blocks []llm.Block) []llm.Block {
	var out []llm.Block
	for i := range r.Thoughts {
		out = append(out, &r.Thoughts[i])
	}
	for _, b := range blocks {
		switch b := b.(type) {
		case *llm.Thought:
			if len(out) == 0 {
				out = append(out, b)
			}
			continue
		case *llm.ToolCall:
			if seals := r.Calls[b.CallID]; len(seals) > 0 {
				call := *b
				call.Seals = append(slices.Clone(call.Seals), seals...)
				out = append(out, &call)
				continue
			}
		}
		out = append(out, b)
	}
	return out
}

func firstCall(blocks []llm.Block) *llm.ToolCall {
	for _, b := range blocks {
		if c, ok := b.(*llm.ToolCall); ok {
			return c
		}
	}
	return nil
}

func hasSeal(blocks []llm.Block) bool {
	return slices.ContainsFunc(blocks, func(b llm.Block) bool { return len(b.Common().Seals) > 0 })
}

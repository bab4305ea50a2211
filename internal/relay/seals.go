package relay

import (
	"crypto/sha256"
	"hash"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Bounds of the store. A conversation that rests for longer than an hour goes on
// without its earlier reasoning, as it would with most vendors.
const (
	sealLife    = time.Hour
	maxSeals    = 16 << 10  // entries
	maxSealSize = 256 << 10 // bytes of one answer's reasoning
	maxSealRoom = 64 << 20  // bytes in all
)

// sealStore keeps the sealed reasoning of answers that call tools, for clients
// that do not send it back: some vendors refuse the next turn without it. Clients
// that do send it back need nothing of this. It is found only with the caller's own
// key, a call, the conversation before it and whose seals they are: some servers use the
// same ids in every conversation, and one conversation may be had with two vendors.
type sealStore struct{ *vault }

func newSealStore() *sealStore {
	return &sealStore{newVault(vaultBounds{life: sealLife, many: maxSeals, size: maxSealSize})}
}

// keptTurn is the reasoning of one answer: the thoughts before its calls, and the
// seals of the calls themselves.
type keptTurn struct {
	Thoughts []llm.Thought         `json:"thoughts"`
	Calls    map[string][]llm.Seal `json:"calls"`
}

// origins are the protocols that have sealed any of it.
func (t *keptTurn) origins() []string {
	var all []string
	for _, th := range t.Thoughts {
		all = appendOrigins(all, th.Seals)
	}
	for _, seals := range t.Calls {
		all = appendOrigins(all, seals)
	}
	return all
}

func appendOrigins(to []string, seals []llm.Seal) []string {
	for _, s := range seals {
		if !slices.Contains(to, s.Origin) {
			to = append(to, s.Origin)
		}
	}
	return to
}

// keyOf parts callers from each other: nobody finds another's reasoning with a
// guessed id.
func keyOf(caller, protocol string, before [sha256.Size]byte, call *llm.ToolCall) vaultKey {
	args := jsontext.Value(call.Args)
	if call.Args == "" {
		args = jsontext.Value("{}") // which is what clients are told
	}
	if args.Canonicalize(scanOptions) != nil { // clients spell what they send back as they like
		args = jsontext.Value(call.Args)
	}
	return sha256.Sum256([]byte(caller + "\x00" + protocol + "\x00" + string(before[:]) + call.CallID + "\x00" + call.Name + "\x00" + string(args)))
}

// nameless is a call without its id: some clients of a dialect that can do without
// ids drop those that they were given.
func nameless(call *llm.ToolCall) *llm.ToolCall {
	c := *call
	c.CallID = ""
	return &c
}

// talk is a digest of a conversation as it goes on. System text is not in it:
// clients put dates there.
type talk struct {
	hash    hash.Hash
	scratch []byte
}

func newTalk() *talk { return &talk{hash: sha256.New()} }

// digestOf is the digest of a whole conversation.
func digestOf(turns []llm.Turn) [sha256.Size]byte {
	t := newTalk()
	for i := range turns {
		t.add(turns[i])
	}
	return t.sum()
}

func (t *talk) sum() (digest [sha256.Size]byte) {
	t.hash.Sum(digest[:0])
	return digest
}

func (t *talk) add(turn llm.Turn) {
	if turn.Role == llm.System || turn.Role == llm.Developer {
		return
	}
	t.write("turn", string(turn.Role))
	t.blocks(turn.Blocks)
}

func (t *talk) blocks(blocks []llm.Block) {
	for _, b := range blocks {
		switch b := b.(type) {
		case *llm.Text:
			t.write("text", b.Text)
		case *llm.Media:
			t.write("media", b.Data, b.URL, b.FileID)
		case *llm.ToolCall:
			t.write("call", b.CallID, b.Name, b.Args)
		case *llm.ToolResult:
			t.write("result", b.CallID)
			t.blocks(b.Blocks)
		}
	}
}

// write parts what it writes, so that two ways to cut a text differ.
func (t *talk) write(parts ...string) {
	for _, p := range parts {
		t.scratch = append(strconv.AppendInt(t.scratch[:0], int64(len(p)), 10), ':')
		t.scratch = append(t.scratch, p...)
		_, _ = t.hash.Write(t.scratch) // a hash never fails
	}
}

// put keeps a turn.
func (s *sealStore) put(key vaultKey, t *keptTurn) {
	if plain, err := json.Marshal(t); err == nil {
		s.vault.put(key, plain, maxSealRoom)
	}
}

// get finds a turn.
func (s *sealStore) get(key vaultKey) (*keptTurn, bool) {
	plain, ok := s.vault.get(key)
	if !ok {
		return nil, false
	}
	var t keptTurn
	if json.Unmarshal(plain, &t) != nil {
		return nil, false
	}
	return &t, true
}

// restore gives the model's earlier turns their reasoning back where the client
// has not: turns that call tools and hold no seal of the upstream's protocol.
func (s *sealStore) restore(caller, protocol string, turns []llm.Turn) []llm.Turn {
	if s.empty() {
		return turns
	}
	var out []llm.Turn
	before := newTalk()
	for i := range turns {
		at := before.sum()
		before.add(turns[i])
		first := firstCall(turns[i].Blocks)
		if turns[i].Role != llm.Assistant || first == nil || sealedBy(turns[i].Blocks, protocol) {
			continue
		}
		if first.Synthetic {
			first = nameless(first) // the client sent no id
		}
		kept, ok := s.get(keyOf(caller, protocol, at, first))
		if !ok {
			continue
		}
		if out == nil {
			out = slices.Clone(turns)
		}
		out[i].Blocks = kept.apply(turns[i].Blocks)
	}
	if out == nil {
		return turns
	}
	return out
}

func (t *keptTurn) blocks() []llm.Block {
	var blocks []llm.Block
	for i := range t.Thoughts {
		blocks = append(blocks, &t.Thoughts[i])
	}
	return blocks
}

// apply puts the thoughts before what was said, in place of what the client made
// of them, and the seals on their calls.
func (t *keptTurn) apply(blocks []llm.Block) []llm.Block {
	out := t.blocks()
	for _, b := range blocks {
		switch b := b.(type) {
		case *llm.Thought:
			if len(out) == 0 {
				out = append(out, b)
			}
			continue
		case *llm.ToolCall:
			if seals := t.Calls[b.CallID]; len(seals) > 0 {
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

func sealedBy(blocks []llm.Block, protocol string) bool {
	return slices.ContainsFunc(blocks, func(b llm.Block) bool {
		_, ok := b.Common().SealFor(protocol)
		return ok
	})
}

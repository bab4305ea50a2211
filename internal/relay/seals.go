package relay

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

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
// that do send it back need nothing of this. What is kept is encrypted with a key
// that this process made up and never tells, and is found only with the id of a
// call and the caller's own key.
type sealStore struct {
	aead cipher.AEAD
	now  func() time.Time

	mu      sync.Mutex
	entries map[sealKey]sealEntry
	order   []sealKey // oldest first
	room    int
}

type sealKey [sha256.Size]byte

type sealEntry struct {
	until time.Time
	data  []byte // nonce and ciphertext
}

func newSealStore() *sealStore {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has the right length
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // the block has the right size
	}
	return &sealStore{aead: aead, now: time.Now, entries: map[sealKey]sealEntry{}}
}

// keptTurn is the reasoning of one answer: the thoughts before its calls, and the
// seals of the calls themselves.
type keptTurn struct {
	Thoughts []llm.Thought         `json:"thoughts"`
	Calls    map[string][]llm.Seal `json:"calls"`
}

func (t *keptTurn) sealed() bool {
	return len(t.Calls) > 0 || slices.ContainsFunc(t.Thoughts, func(th llm.Thought) bool { return len(th.Seals) > 0 })
}

// keyOf parts callers from each other: nobody finds another's reasoning with a
// guessed id.
func keyOf(caller, callID string) sealKey {
	return sha256.Sum256([]byte(caller + "\x00" + callID))
}

// put keeps a turn under the id of its first call.
func (s *sealStore) put(caller, callID string, t *keptTurn) {
	plain, err := json.Marshal(t)
	if err != nil || len(plain) > maxSealSize {
		return
	}
	key := keyOf(caller, callID)
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce)
	data := s.aead.Seal(nonce, nonce, plain, key[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(key)
	s.entries[key] = sealEntry{s.now().Add(sealLife), data}
	s.order = append(s.order, key)
	s.room += len(data)
	s.evict()
}

// evict makes room: the oldest go first, and what is too old goes anyway.
func (s *sealStore) evict() {
	for len(s.order) > 0 {
		oldest := s.order[0]
		e, ok := s.entries[oldest]
		if ok && len(s.entries) <= maxSeals && s.room <= maxSealRoom && s.now().Before(e.until) {
			return
		}
		s.order = s.order[1:]
		s.drop(oldest)
	}
}

// drop forgets an entry. Its place in the order goes when its turn comes.
func (s *sealStore) drop(key sealKey) {
	if e, ok := s.entries[key]; ok {
		s.room -= len(e.data)
		delete(s.entries, key)
	}
}

// get finds the turn of a call.
func (s *sealStore) get(caller, callID string) (*keptTurn, bool) {
	key := keyOf(caller, callID)
	s.mu.Lock()
	e, ok := s.entries[key]
	s.mu.Unlock()
	if !ok || s.now().After(e.until) {
		return nil, false
	}
	n := s.aead.NonceSize()
	plain, err := s.aead.Open(nil, e.data[:n], e.data[n:], key[:])
	if err != nil {
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
	var out []llm.Turn
	for i := range turns {
		first := firstCall(turns[i].Blocks)
		if turns[i].Role != llm.Assistant || first == "" || sealedBy(turns[i].Blocks, protocol) {
			continue
		}
		kept, ok := s.get(caller, first)
		if !ok || !sealedBy(kept.blocks(), protocol) && !kept.callsSealedBy(protocol) {
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

func (t *keptTurn) callsSealedBy(protocol string) bool {
	for _, seals := range t.Calls {
		if slices.ContainsFunc(seals, func(s llm.Seal) bool { return s.Origin == protocol }) {
			return true
		}
	}
	return false
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

func firstCall(blocks []llm.Block) string {
	for _, b := range blocks {
		if c, ok := b.(*llm.ToolCall); ok {
			return c.CallID
		}
	}
	return ""
}

func sealedBy(blocks []llm.Block, protocol string) bool {
	return slices.ContainsFunc(blocks, func(b llm.Block) bool {
		_, ok := b.Common().SealFor(protocol)
		return ok
	})
}

// keeper gathers what of an answer is worth keeping while it passes.
type keeper struct {
	turn  keptTurn
	first string // id of the first call
	open  map[int]*keptBlock
	size  int
}

type keptBlock struct {
	thought *llm.Thought
	call    string
	seals   []llm.Seal
}

// event looks at one event of the first choice.
func (k *keeper) event(e llm.Event) {
	if k.size > maxSealSize {
		return // too much to keep; the client may still send it back
	}
	switch e := e.(type) {
	case llm.BlockStart:
		k.begin(e)
	case llm.Delta:
		b := k.open[e.Index]
		if e.Choice != 0 || b == nil || b.thought == nil {
			return
		}
		k.size += len(e.Text)
		for len(b.thought.Parts) <= e.Part && e.Part < 64 {
			b.thought.Parts = append(b.thought.Parts, llm.ThoughtPart{Form: e.Form})
		}
		if e.Part < len(b.thought.Parts) {
			b.thought.Parts[e.Part].Text += e.Text
		}
	case llm.SealDelta:
		if b := k.open[e.Index]; e.Choice == 0 && b != nil {
			k.size += len(e.Seal.Data)
			b.seals = append(b.seals, e.Seal)
		}
	case llm.BlockEnd:
		if e.Choice == 0 {
			k.end(e.Index)
		}
	}
}

func (k *keeper) begin(e llm.BlockStart) {
	if e.Choice != 0 {
		return
	}
	if k.open == nil {
		k.open = map[int]*keptBlock{}
	}
	b := &keptBlock{seals: slices.Clone(e.Block.Common().Seals)}
	switch block := e.Block.(type) {
	case *llm.Thought:
		b.thought = &llm.Thought{Parts: slices.Clone(block.Parts)}
	case *llm.ToolCall:
		b.call = block.CallID
		if k.first == "" {
			k.first = block.CallID
		}
	default:
		return
	}
	k.open[e.Index] = b
}

func (k *keeper) end(index int) {
	b := k.open[index]
	if b == nil {
		return
	}
	delete(k.open, index)
	switch {
	case b.thought != nil:
		b.thought.Seals = b.seals
		k.turn.Thoughts = append(k.turn.Thoughts, *b.thought)
	case len(b.seals) > 0:
		if k.turn.Calls == nil {
			k.turn.Calls = map[string][]llm.Seal{}
		}
		k.turn.Calls[b.call] = b.seals
	}
}

// keep puts what was gathered into the store, if it is worth it.
func (k *keeper) keep(s *sealStore, caller string) {
	if k.first != "" && k.size <= maxSealSize && k.turn.sealed() {
		s.put(caller, k.first, &k.turn)
	}
}

// keepAnswer keeps what is worth it of an answer that came whole.
func (s *sealStore) keepAnswer(caller string, resp *llm.Response) {
	var k keeper
	for _, e := range llm.Explode(resp) {
		k.event(e)
	}
	k.keep(s, caller)
}

package relay

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"hash"
	"slices"
	"strconv"
	"sync"
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
// that do send it back need nothing of this. What is kept is encrypted with a key
// that this process made up and never tells, and is found only with the caller's
// own key, a call and the conversation before it: some servers use the same ids
// in every conversation.
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
func keyOf(caller string, before [sha256.Size]byte, call *llm.ToolCall) sealKey {
	args := jsontext.Value(call.Args)
	if call.Args == "" {
		args = jsontext.Value("{}") // which is what clients are told
	}
	if args.Canonicalize(scanOptions) != nil { // clients spell what they send back as they like
		args = jsontext.Value(call.Args)
	}
	return sha256.Sum256([]byte(caller + "\x00" + string(before[:]) + call.CallID + "\x00" + call.Name + "\x00" + string(args)))
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
func (s *sealStore) put(key sealKey, t *keptTurn) {
	plain, err := json.Marshal(t)
	if err != nil || len(plain) > maxSealSize {
		return
	}
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

// get finds a turn.
func (s *sealStore) get(key sealKey) (*keptTurn, bool) {
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
		kept, ok := s.get(keyOf(caller, at, first))
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

func (s *sealStore) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries) == 0
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

// keeper gathers what of an answer is worth keeping while it passes.
type keeper struct {
	turn  keptTurn
	first *llm.ToolCall
	open  map[int]*keptBlock
	size  int
}

// keptBlock is a block in the making. Its text grows in bytes: a string would be
// copied with every delta.
type keptBlock struct {
	thought *llm.Thought // nil for a call
	call    *llm.ToolCall
	texts   [][]byte // of the thought's parts, or of the call's arguments
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
		if e.Choice != 0 || b == nil {
			return
		}
		k.size += len(e.Text)
		b.add(e)
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

// add appends a delta's text to its part.
func (b *keptBlock) add(e llm.Delta) {
	for len(b.texts) <= e.Part && e.Part < 64 {
		b.texts = append(b.texts, nil)
		if b.thought != nil && len(b.thought.Parts) < len(b.texts) {
			b.thought.Parts = append(b.thought.Parts, llm.ThoughtPart{Form: e.Form})
		}
	}
	if e.Part < len(b.texts) {
		b.texts[e.Part] = append(b.texts[e.Part], e.Text...)
	}
}

// fill puts the text where it belongs.
func (b *keptBlock) fill() {
	for i, text := range b.texts {
		if b.thought == nil {
			b.call.Args += string(text)
			continue
		}
		b.thought.Parts[i].Text += string(text)
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
		call := *block
		b.call = &call
		if k.first == nil {
			k.first = b.call
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
	b.fill()
	switch {
	case b.thought != nil:
		b.thought.Seals = b.seals
		k.turn.Thoughts = append(k.turn.Thoughts, *b.thought)
	case len(b.seals) > 0:
		if k.turn.Calls == nil {
			k.turn.Calls = map[string][]llm.Seal{}
		}
		k.turn.Calls[b.call.CallID] = b.seals
	}
}

// keep puts what was gathered into the store, if it is worth it. before is the
// digest of the conversation that was answered.
func (k *keeper) keep(s *sealStore, caller string, before func() [sha256.Size]byte) {
	if k.first == nil || k.size > maxSealSize || !k.turn.sealed() {
		return
	}
	s.put(keyOf(caller, before(), k.first), &k.turn)
}

// keepAnswer keeps what is worth it of an answer that came whole.
func (s *sealStore) keepAnswer(caller string, ask []llm.Turn, resp *llm.Response) {
	var k keeper
	for _, e := range llm.Explode(resp) {
		k.event(e)
	}
	k.keep(s, caller, func() [sha256.Size]byte { return digestOf(ask) })
}

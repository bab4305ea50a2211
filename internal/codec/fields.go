package codec

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Fields says where a request of a dialect has the fields of the neutral model, so that
// losses name the client's own fields.
type Fields struct {
	Turns  string // the member with the conversation
	System string // the member with the system prompt; empty: the conversation has it
	Parts  string // the member of an item of the conversation with its parts

	// Names are pairs of a neutral path and the client's path. They also apply to a path
	// below the neutral path, whose end is kept.
	Names [][2]string

	// Block returns the path of the block b below its item, or "" if b is the whole item.
	// before are the blocks that come before b in the item. Nil: PartPath.
	Block func(item wire.Raw, before []llm.Block, b llm.Block) string
}

// Limits of locating losses in the conversation, which decodes parts of a request again.
const (
	maxLocated     = 64      // losses
	maxLocatedBody = 1 << 20 // bytes
)

// NameFields replaces the neutral paths of losses by those of the request's own fields.
func (d *Dialect) NameFields(codec protocol.Translator, in protocol.Incoming, req *llm.Request, losses []llm.Loss) {
	l := &locator{fields: &d.Fields, codec: codec, in: in, req: req}
	for i := range losses {
		loss := &losses[i]
		if loss.Path == "ext" && len(loss.Note) < 100 { // the note lists the names
			loss.Path = loss.Note
			continue
		}
		loss.Path = l.path(loss.Path, i < maxLocated && len(in.Body) <= maxLocatedBody)
	}
}

// locator finds the fields of one request.
type locator struct {
	fields *Fields
	codec  protocol.Translator
	in     protocol.Incoming
	req    *llm.Request
	index  *wire.Index
	items  []wire.Raw // of the conversation
}

// path returns the client's path for a neutral path. Without exact, a path in the
// conversation becomes the path of the whole conversation.
func (l *locator) path(neutral string, exact bool) string {
	neutral = strings.TrimPrefix(strings.TrimPrefix(neutral, "/"), "ext.")
	rest, ok := strings.CutPrefix(neutral, "turns")
	if !ok {
		return l.named(neutral)
	}
	turn, rest, ok := number(rest)
	if !ok || !exact || turn >= len(l.req.Turns) || !l.read() {
		return l.fields.Turns
	}
	block := -1
	if below, ok := strings.CutPrefix(rest, ".blocks"); ok {
		if block, rest, ok = number(below); !ok || block >= len(l.req.Turns[turn].Blocks) {
			return l.fields.Turns
		}
	}
	rest = strings.ReplaceAll(strings.ReplaceAll(rest, ".blocks[", "."+l.fields.Parts+"["), ".ext.", ".")
	return l.place(turn, block) + rest
}

// number reads an index such as [2] and returns what follows it.
func number(s string) (n int, rest string, ok bool) {
	inside, rest, ok := strings.Cut(strings.TrimPrefix(s, "["), "]")
	if !ok || !strings.HasPrefix(s, "[") {
		return 0, s, false
	}
	n, err := strconv.Atoi(inside)
	return n, rest, err == nil && n >= 0
}

// named returns the client's path of a field outside the conversation.
func (l *locator) named(neutral string) string {
	for _, pair := range l.fields.Names {
		rest, ok := strings.CutPrefix(neutral, pair[0])
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return pair[1] + rest
		}
	}
	return neutral
}

// read reads the items of the conversation, if it has not yet. It reports false if the body
// cannot be read.
func (l *locator) read() bool {
	if l.index != nil {
		return true
	}
	index, err := wire.IndexObject(l.in.Body)
	if err != nil {
		return false
	}
	if raw := index.Raw(l.fields.Turns); raw.Kind() == '[' {
		if json.Unmarshal(raw, &l.items, wire.Lenient) != nil {
			return false
		}
	}
	l.index = &index
	return true
}

// prefix decodes the request with only the first n items of its conversation, and returns
// its turns. Decoders read the items in order, so that these are the first turns of the
// whole request.
func (l *locator) prefix(n int) []llm.Turn {
	var list []byte
	list = append(list, '[')
	for i, item := range l.items[:n] {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, item...)
	}
	in := l.in
	in.Body = wire.Patch(l.in.Body, []wire.Edit{l.index.Set(l.fields.Turns, string(append(list, ']')))})
	req, err := l.codec.DecodeRequest(in)
	if err != nil {
		return nil
	}
	return req.Turns
}

// place returns the path of a block, or of a turn if block is negative.
func (l *locator) place(turn, block int) string {
	has := func(turns []llm.Turn) bool { return len(turns) > turn && len(turns[turn].Blocks) > block }
	if l.fields.System != "" && has(l.prefix(0)) {
		return l.system(turn, block)
	}
	n := sort.Search(len(l.items), func(n int) bool { return has(l.prefix(n + 1)) })
	if n == len(l.items) {
		return l.fields.Turns
	}
	path := At(l.fields.Turns, n)
	if block < 0 {
		return path
	}
	all := slices.Concat(blocksOf(l.req.Turns[:turn]), l.req.Turns[turn].Blocks[:block])
	before := all[min(len(blocksOf(l.prefix(n))), len(all)):]
	locate := l.fields.Block
	if locate == nil {
		locate = func(item wire.Raw, before []llm.Block, _ llm.Block) string {
			return PartPath(item, l.fields.Parts, len(before))
		}
	}
	return path + locate(l.items[n], before, l.req.Turns[turn].Blocks[block])
}

func blocksOf(turns []llm.Turn) (all []llm.Block) {
	for i := range turns {
		all = append(all, turns[i].Blocks...)
	}
	return all
}

// system returns the path of a block of the system prompt, or of the whole prompt if block is
// negative. The decoder may have left out blocks at the beginning of the prompt.
func (l *locator) system(turn, block int) string {
	raw, name := l.index.Raw(l.fields.System), l.fields.System
	switch raw.Kind() {
	case '[':
		var parts []wire.Raw
		if block < 0 || json.Unmarshal(raw, &parts, wire.Lenient) != nil {
			return name
		}
		return At(name, block+max(0, len(parts)-len(l.req.Turns[turn].Blocks)))
	case '{':
		if block >= 0 {
			return name + PartPath(raw, l.fields.Parts, block)
		}
	}
	return name
}

// PartPath returns the path of the nth part below an item: .content[n], or .content if
// that is not a list.
func PartPath(item wire.Raw, member string, n int) string {
	index, err := wire.IndexObject(item)
	if err != nil || index.Raw(member).Kind() != '[' {
		return "." + member
	}
	return "." + At(member, n)
}

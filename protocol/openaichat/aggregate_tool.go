package openaichat

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// toolCalls gathers the calls of one choice. By the specification a call is
// known by its index; servers leave the index out, use one twice, repeat or
// change ids and send none at all, so which call a fragment belongs to is found
// by what it brings (see call.continuedBy).
type toolCalls struct {
	all     []*call // in order of appearance, which is the order of the answer
	byIndex map[int64]*call
	byID    map[string]*call
}

// fragment is what decides where a delta goes.
type fragment struct {
	index    int64
	hasIndex bool
	id       string
	name     string
	text     wire.Text // arguments or input
	whole    bool      // the arguments came as an object, so they are not a fragment
}

func fragmentOf(d *ToolCallDelta) fragment {
	f := fragment{id: d.ID.Value()}
	if n, ok := d.Index.Get(); ok {
		i, err := n.Int64()
		f.index, f.hasIndex = i, err == nil
	}
	if c := d.Custom.Ptr(); c != nil {
		f.name, f.text = c.Name.Value(), c.Input.Value()
	}
	if fn := d.Function.Ptr(); fn != nil {
		f.name = fn.Name.Value()
		if args, ok := fn.Arguments.Get(); ok {
			f.text, f.whole = args.asText(), !args.Text.IsSet()
		}
	}
	return f
}

// add returns by how many bytes the calls have grown, and the call that has.
func (t *toolCalls) add(d *ToolCallDelta) (*call, int) {
	f := fragmentOf(d)
	c, grown := t.find(f)
	if c.typ == "" {
		c.typ = d.Type.Value()
	}
	grown += c.extras.merge(d.Extra, "index")
	if cu := d.Custom.Ptr(); cu != nil {
		c.custom = true
		grown += c.inner.merge(cu.Extra, "")
	}
	if fn := d.Function.Ptr(); fn != nil {
		grown += c.inner.merge(fn.Extra, "")
	}
	return c, grown + c.add(f)
}

// find returns the call that f belongs to, which may be a new one.
func (t *toolCalls) find(f fragment) (*call, int) {
	if t.byIndex == nil {
		t.byIndex, t.byID = make(map[int64]*call), make(map[string]*call)
	}
	c, grown := t.choose(f), 0
	if c == nil {
		c = &call{}
		t.all = append(t.all, c)
		grown = overhead
		if f.hasIndex {
			t.byIndex[f.index] = c
		}
	}
	if f.hasIndex && t.byIndex[f.index] == nil {
		t.byIndex[f.index] = c
	}
	switch {
	case c.id == "" && f.id != "":
		c.id = f.id
		t.byID[f.id] = c
	case f.id != "" && f.id != c.id:
		c.unsteady = true
	}
	return c, grown
}

// choose returns the known call that f continues, or nil.
func (t *toolCalls) choose(f fragment) *call {
	if c := t.byID[f.id]; c != nil && f.id != "" {
		return c // a known id wins over any index
	}
	how := unindexed
	var c *call
	if len(t.all) > 0 {
		c = t.all[len(t.all)-1]
	}
	if f.hasIndex {
		how = newIndex
		if at := t.byIndex[f.index]; at != nil {
			c, how = at, sameIndex
		}
	}
	if c != nil && c.continuedBy(f, how) {
		return c
	}
	return nil
}

// any reports whether there is a call.
func (t *toolCalls) any() bool {
	for _, c := range t.all {
		if !c.isStub() {
			return true
		}
	}
	return false
}

// complete reports whether the arguments of all calls are whole.
func (t *toolCalls) complete() bool {
	for _, c := range t.all {
		if !c.isStub() && !c.isComplete() {
			return false
		}
	}
	return true
}

// whole returns the calls of the answer.
func (t *toolCalls) whole(cut bool, choice int64, seed string) []ToolCall {
	var calls []ToolCall
	for _, c := range t.all {
		if c.isStub() {
			continue
		}
		if c.id == "" {
			c.id = mintID(seed, choice, len(calls), c)
		}
		calls = append(calls, c.toolCall(cut))
	}
	return calls
}

// mintID makes an id for a call that came without one. It is made from what the
// answer holds: the same answer gives the same id, another one another.
func mintID(seed string, choice int64, position int, c *call) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %d %q %q", seed, choice, position, c.name, c.text.body))
	return "call_" + hex.EncodeToString(sum[:12])
}

// call is one call that comes in fragments.
type call struct {
	id       string
	unsteady bool // later fragments brought other ids
	typ      ToolType
	custom   bool
	name     string
	text     joined
	nesting  nesting
	extras   extras // of the call
	inner    extras // of its function or custom member
}

// relation is how a fragment points at the call that it may continue.
type relation int

const (
	sameIndex relation = iota // by an index that the call is known by
	newIndex                  // by an index that no call is known by; the call is the last one
	unindexed                 // by nothing; the call is the last one
)

// continuedBy reports whether f, whose id is not known, continues c or begins
// another call (CST-01, CST-02, CST-05).
func (c *call) continuedBy(f fragment, how relation) bool {
	otherName := f.name != "" && c.name != "" && f.name != c.name
	switch {
	case how == newIndex:
		// The tail of a call whose head came under a wrong index.
		return f.id == "" && f.name == "" && !c.closed()
	case f.id == "" && f.name == "":
		return true
	case how == sameIndex && f.id == "" && !c.closed():
		return true // a name in pieces, or repeated
	case how == sameIndex && f.id == "":
		return !otherName && !f.opensObject()
	case c.id == "" || how == sameIndex:
		// A late id, or one more for a call that is still being written.
		return !otherName && (!c.closed() || c.unsteady && f.text.IsEmpty())
	}
	return f.id == "" && !otherName && !c.closed()
}

func (f fragment) opensObject() bool {
	s := f.text.String()
	return s != "" && s[0] == '{'
}

// add returns by how many bytes the call has grown.
func (c *call) add(f fragment) int {
	c.addName(f.name)
	if f.whole {
		// Arguments that came whole take the place of what was there.
		before := len(c.text.body)
		c.text, c.nesting = joined{}, nesting{}
		return c.text.add(wire.Some(f.text)) - before
	}
	return c.text.add(wire.Some(f.text))
}

// addFunction adds to a call of the deprecated kind.
func (c *call) addFunction(fn *FunctionCall) int {
	f := fragmentOf(&ToolCallDelta{Function: wire.Some(*fn)})
	return c.inner.merge(fn.Extra, "") + c.add(f)
}

// addName takes a name that comes in pieces (CST-07) or again and again
// (CST-06). The first argument byte settles it.
func (c *call) addName(name string) {
	if name != c.name && len(c.text.body) == 0 || c.name == "" {
		c.name += name
	}
}

// isStub reports whether nothing came that could be called.
func (c *call) isStub() bool { return c.name == "" && len(c.text.body) == 0 }

// closed reports whether the arguments so far are a whole object.
func (c *call) closed() bool { return c.nesting.closed(c.text.body) }

// isComplete reports whether the arguments are JSON, or none.
func (c *call) isComplete() bool {
	args := c.text.text().String()
	return c.custom || args == "" || wire.Raw(args).IsValid()
}

func (c *call) functionCall(cut bool) FunctionCall {
	args := c.text.text()
	// No arguments are no object to most clients (CST-09); but where the answer
	// was cut, nobody knows what would have come (CST-39).
	if args.IsEmpty() && !cut {
		args = wire.NewText("{}")
	}
	return FunctionCall{
		Name:      wire.Some(c.name),
		Arguments: wire.Some(Arguments{Text: wire.Some(args)}),
		Extra:     c.inner.extra(),
	}
}

func (c *call) toolCall(cut bool) ToolCall {
	t := ToolCall{ID: wire.Some(c.id), Type: wire.Some(c.typ), Extra: c.extras.extra()}
	if c.custom {
		t.Custom = wire.Some(CustomCall{
			Name: wire.Some(c.name), Input: wire.Some(c.text.text()), Extra: c.inner.extra(),
		})
	} else {
		t.Function = wire.Some(c.functionCall(cut))
	}
	switch {
	case c.typ != "":
	case c.custom:
		t.Type = wire.Some(ToolTypeCustom)
	default:
		t.Type = wire.Some(ToolTypeFunction)
	}
	return t
}

// nesting follows the braces of arguments as they grow, each byte once: asking a
// parser again and again whether they are whole would take quadratic time.
type nesting struct {
	read     int // bytes of the literal's body that were followed
	depth    int
	inString bool
	escaped  bool
	opened   bool
}

// closed reports whether body, which may only have grown since the last time, is
// an object from first to last brace.
func (n *nesting) closed(body []byte) bool {
	if n.read < len(body) {
		// Fragments are literals of their own, so an escape is never cut.
		lit := append(append([]byte{'"'}, body[n.read:]...), '"')
		fresh, _ := jsontext.AppendUnquote(nil, lit)
		for _, b := range fresh {
			n.follow(b)
		}
		n.read = len(body)
	}
	return n.opened && n.depth == 0
}

func (n *nesting) follow(b byte) {
	switch {
	case n.escaped:
		n.escaped = false
	case n.inString:
		n.escaped = b == '\\'
		n.inString = b != '"'
	case b == '"':
		n.inString = true
	case b == '{' || b == '[':
		n.opened = true
		n.depth++
	case b == '}' || b == ']':
		n.depth--
	}
}

package openaichat

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// callState is the block of a call. It is opened when the call's name is final.
type callState struct {
	index   int
	begun   bool
	waiting []string
	args    wire.Joiner
	seals   []llm.Seal
}

// callDeltas decodes fragments of calls. A call's block opens when its name is
// final: at the first argument byte, at the next call, or at the end.
func (r *choiceDecoder) callDeltas(raw jsontext.Value, to []llm.Event) []llm.Event {
	var deltas wire.List[ToolCallDelta]
	if wire.Unmarshal(raw, &deltas) != nil {
		return to
	}
	for _, d := range deltas.All() {
		before := len(r.calls.all)
		c := r.calls.add(d)
		if len(r.calls.all) > before && before > 0 {
			to = r.beginWaiting(c, to)
		}
		sl := r.callState(c)
		sl.seals = append(sl.seals, codec.Uncarry(extraRaw(d.Extra, codec.CarrierMember))...)
		to = r.addArgs(c, sl, fragmentOf(d).text, to)
	}
	return to
}

func (r *choiceDecoder) callState(c *call) *callState {
	if r.callStates[c] == nil {
		r.callStates[c] = &callState{}
	}
	return r.callStates[c]
}

func (r *choiceDecoder) addArgs(c *call, sl *callState, fragment wire.Text, to []llm.Event) []llm.Event {
	if fragment.IsEmpty() {
		return to
	}
	text := sl.args.Next(fragment.Body())
	if text == "" {
		return to
	}
	if !sl.begun && c.name == "" {
		sl.waiting = append(sl.waiting, text)
		return to
	}
	to = r.begin(c, sl, to)
	return append(to, llm.Delta{Choice: r.choice, Index: sl.index, Text: text})
}

// begin opens a call's block and emits the arguments that waited for it.
func (r *choiceDecoder) begin(c *call, sl *callState, to []llm.Event) []llm.Event {
	if sl.begun {
		return to
	}
	to = r.closeText(to)
	sl.begun, sl.index = true, r.next
	r.next++
	b := &llm.ToolCall{CallID: c.id, Kind: llm.FunctionTool, Name: c.name}
	if c.custom {
		b.Kind = llm.CustomTool
	}
	if b.CallID == "" {
		b.CallID, b.Synthetic = llm.MintID("call_", r.id, strconv.Itoa(r.choice), strconv.Itoa(sl.index), c.name), true
	}
	if c == &r.legacy {
		b.Ext = ext([]llm.Member{{Name: legacyMark, Value: "true"}})
	}
	to = append(to, llm.BlockStart{Choice: r.choice, Index: sl.index, Block: b})
	for _, text := range sl.waiting {
		to = append(to, llm.Delta{Choice: r.choice, Index: sl.index, Text: text})
	}
	sl.waiting = nil
	return to
}

// beginWaiting opens the blocks of all other calls, whose names are final once a
// new call begins.
func (r *choiceDecoder) beginWaiting(except *call, to []llm.Event) []llm.Event {
	for _, c := range r.calls.all {
		if c != except && !c.isStub() && c.name != "" {
			to = r.begin(c, r.callState(c), to)
		}
	}
	return to
}

func (r *choiceDecoder) legacyDelta(raw jsontext.Value, to []llm.Event) []llm.Event {
	var f FunctionCall
	if wire.UnmarshalLenient(raw, &f) != nil {
		return to
	}
	r.legacy.addFunction(&f)
	if r.legacy.isStub() || r.legacy.name == "" {
		return to
	}
	sl := r.callState(&r.legacy)
	to = r.begin(&r.legacy, sl, to)
	if args, ok := f.Arguments.Get(); ok {
		to = r.addArgs(&r.legacy, sl, args.asText(), to)
	}
	return to
}

// called reports whether a call's block was opened. A call without a name is
// dropped.
func (r *choiceDecoder) called() bool {
	for _, sl := range r.callStates {
		if sl.begun {
			return true
		}
	}
	return false
}

// maxCalls limits the calls of one choice, and maxChoices the choices of one
// response.
const (
	maxCalls   = 1 << 12
	maxChoices = 1 << 10
)

// toolCalls assembles the calls of one choice. By the specification an index
// identifies a call, but servers omit the index, reuse it, and repeat, change or
// omit ids. continuedBy decides which call a fragment belongs to.
type toolCalls struct {
	all     []*call // in order of appearance
	byIndex map[int64]*call
	byID    map[string]*call
}

// fragment is a delta of a call.
type fragment struct {
	index    int64
	hasIndex bool
	id       string
	name     string
	text     wire.Text // arguments or input
	whole    bool      // the arguments came as an object, so they are complete
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

// add adds a fragment to its call and returns the call.
func (t *toolCalls) add(d *ToolCallDelta) *call {
	f := fragmentOf(d)
	c := t.find(f)
	c.extras.merge(d.Extra)
	if cu := d.Custom.Ptr(); cu != nil {
		c.custom = true
		c.inner.merge(cu.Extra)
	}
	if fn := d.Function.Ptr(); fn != nil {
		c.inner.merge(fn.Extra)
	}
	c.add(f)
	return c
}

// find returns the call that f belongs to. It may be a new one.
func (t *toolCalls) find(f fragment) *call {
	if t.byIndex == nil {
		t.byIndex, t.byID = make(map[int64]*call), make(map[string]*call)
	}
	c := t.choose(f)
	if c == nil {
		c = &call{}
		t.all = append(t.all, c)
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
	return c
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

// complete reports whether the arguments of all calls are complete.
func (t *toolCalls) complete() bool {
	for _, c := range t.all {
		if !c.isStub() && !c.isComplete() {
			return false
		}
	}
	return true
}

// call is a call that is assembled from fragments.
type call struct {
	id       string
	unsteady bool // later fragments had other ids
	custom   bool
	name     string
	body     []byte // the JSON literal of the arguments without quotes; fragments may split a surrogate pair (JSN-07)
	nesting  nesting
	extras   extras // unknown members of the call
	inner    extras // unknown members of its function or custom object
}

// relation is how a fragment refers to the call that it may continue.
type relation int

const (
	sameIndex relation = iota // by the call's index
	newIndex                  // by an unused index; the call is the last one
	unindexed                 // without an index; the call is the last one
)

// continuedBy reports whether f, whose id is unknown, continues c. Otherwise f
// begins another call (CST-01, CST-02, CST-05).
func (c *call) continuedBy(f fragment, how relation) bool {
	otherName := f.name != "" && c.name != "" && f.name != c.name
	switch {
	case how == newIndex:
		// The end of a call whose beginning had a wrong index.
		return f.id == "" && f.name == "" && !c.closed()
	case f.id == "" && f.name == "":
		return true
	case how == sameIndex && f.id == "" && !c.closed():
		return true // a name in fragments, or a repeated name
	case how == sameIndex && f.id == "":
		return !otherName && !f.opensObject()
	case c.id == "" || how == sameIndex:
		// A late id, or another id for an unfinished call.
		return !otherName && (!c.closed() || c.unsteady && f.text.IsEmpty())
	}
	return f.id == "" && !otherName && !c.closed()
}

func (f fragment) opensObject() bool {
	s := f.text.String()
	return s != "" && s[0] == '{'
}

func (c *call) add(f fragment) {
	c.addName(f.name)
	if f.whole { // complete arguments replace what came before
		c.body, c.nesting = nil, nesting{}
	}
	c.body = f.text.AppendBody(c.body)
}

// addFunction adds a fragment of a function_call.
func (c *call) addFunction(fn *FunctionCall) {
	c.inner.merge(fn.Extra)
	c.add(fragmentOf(&ToolCallDelta{Function: wire.Some(*fn)}))
}

// maxNameBytes limits the bytes of a name that comes in fragments.
const maxNameBytes = 1 << 10

// addName adds a name that comes in fragments (CST-07) or repeatedly (CST-06).
// The name is final at the first argument byte.
func (c *call) addName(name string) {
	if c.name == "" || name != c.name && len(c.body) == 0 && len(c.name)+len(name) <= maxNameBytes {
		c.name += name
	}
}

// isStub reports whether the call has neither a name nor arguments.
func (c *call) isStub() bool { return c.name == "" && len(c.body) == 0 }

// closed reports whether the arguments are a complete JSON object.
func (c *call) closed() bool { return c.nesting.closed(c.body) }

// isComplete reports whether the arguments are valid JSON or empty.
func (c *call) isComplete() bool {
	args := wire.JoinedText(c.body).String()
	return c.custom || args == "" || wire.Raw(args).IsValid()
}

// ext returns the call's unknown members.
func (c *call) ext() llm.Ext {
	inner := string(ToolTypeFunction)
	if c.custom {
		inner = string(ToolTypeCustom)
	}
	return extWith(wire.NewExtra(c.extras.members), inner, wire.NewExtra(c.inner.members))
}

// extras collects unknown members. A later value replaces an earlier one, unless
// it is null.
type extras struct{ members wire.Object }

func (e *extras) merge(from wire.Extra) {
	for _, m := range from.All() {
		_, known := e.members.Get(m.Name)
		if m.Name != "index" && len(e.members) < maxSeen && (!known || m.Value.Kind() != 'n') {
			e.members = e.members.With(m.Name, m.Value.Clone())
		}
	}
}

// nesting tracks the braces of arguments as they grow. It reads each byte once;
// parsing them again for each fragment would take quadratic time.
type nesting struct {
	read     int // bytes of body that were read
	depth    int
	inString bool
	escaped  bool
	opened   bool
}

// closed reports whether body is a complete object. body may only have grown
// since the last call.
func (n *nesting) closed(body []byte) bool {
	if n.read < len(body) {
		// Each fragment is a literal, so an escape sequence is never split.
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

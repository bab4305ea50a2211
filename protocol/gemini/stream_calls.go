package gemini

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// pendingCall is a call whose arguments are incomplete.
type pendingCall struct {
	args      string
	signature string
	tree      *branch // arguments that come value by value
}

// add adds arguments: a complete object, or values with their paths.
func (p *pendingCall) add(args string, partial wire.Raw) {
	if len(partial) == 0 {
		p.args, p.tree = args, nil
		return
	}
	var values []struct {
		Path   string         `json:"jsonPath"`
		String *string        `json:"stringValue"`
		Number jsontext.Value `json:"numberValue"`
		Bool   jsontext.Value `json:"boolValue"`
	}
	if json.Unmarshal(partial, &values, wire.Lenient) != nil {
		return
	}
	if p.tree == nil {
		p.tree = &branch{}
	}
	for _, v := range values {
		leaf := p.tree.at(v.Path)
		switch {
		case leaf == nil:
		case v.String != nil:
			leaf.isText = true
			leaf.text = append(leaf.text, *v.String...) // later pieces of a string are appended
		case len(v.Number) > 0:
			leaf.value = string(v.Number)
		case len(v.Bool) > 0:
			leaf.value = string(v.Bool)
		default:
			leaf.value = "null"
		}
	}
}

func (p *pendingCall) text() string {
	if p.tree == nil {
		return p.args
	}
	return string(p.tree.append(nil))
}

// branch is a value that is being built: an object, a list or a leaf.
type branch struct {
	names  []string
	inner  []*branch
	places map[string]int // of the names, if there are many
	list   bool
	isText bool
	text   []byte
	value  string
}

// maxPath limits the depth of a path.
const maxPath = 64

// at returns the node of a path such as $.a.b[2].c and creates it if it is
// missing; nil for a path of another form.
func (b *branch) at(path string) *branch {
	path, ok := strings.CutPrefix(path, "$")
	for depth := 0; ok && path != ""; depth++ {
		var name string
		list := path[0] == '['
		if list {
			name, path, ok = strings.Cut(path[1:], "]")
			if quoted := strings.Trim(name, `'"`); quoted != name {
				name, list = quoted, false // $['a'] is $.a
			} else if _, err := strconv.Atoi(name); err != nil {
				return nil
			}
		} else {
			rest, dot := strings.CutPrefix(path, ".")
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			name, path, ok = rest[:end], rest[end:], dot
		}
		if !ok || depth >= maxPath {
			return nil
		}
		b = b.member(name, list)
	}
	if !ok {
		return nil
	}
	return b
}

func (b *branch) member(name string, list bool) *branch {
	b.list = list
	if i, ok := b.place(name); ok {
		return b.inner[i]
	}
	if b.places != nil {
		b.places[name] = len(b.names)
	}
	b.names = append(b.names, name)
	b.inner = append(b.inner, &branch{})
	return b.inner[len(b.inner)-1]
}

// few is the number of names that are compared one by one.
const few = 16

// place returns the place of a member.
func (b *branch) place(name string) (int, bool) {
	if len(b.names) < few {
		i := slices.Index(b.names, name)
		return i, i >= 0
	}
	if b.places == nil {
		b.places = make(map[string]int, len(b.names))
		for i, n := range b.names {
			b.places[n] = i
		}
	}
	i, ok := b.places[name]
	return i, ok
}

func (b *branch) append(dst []byte) []byte {
	switch {
	case b.isText:
		return wire.AppendQuote(dst, string(b.text))
	case b.value != "":
		return append(dst, b.value...)
	}
	brackets := "{}"
	if b.list {
		brackets = "[]"
	}
	dst = append(dst, brackets[0])
	for i, inner := range b.inner {
		if i > 0 {
			dst = append(dst, ',')
		}
		if !b.list {
			dst = append(wire.AppendQuote(dst, b.names[i]), ':')
		}
		dst = inner.append(dst)
	}
	return append(dst, brackets[1])
}

// functionCall decodes a call, which mostly comes complete. A call without
// arguments may get them in later parts, which have no name (GEM-03).
func (c *choice) functionCall(f *FunctionCall, signature string) {
	partial, _ := f.Extra.Get("partialArgs")
	more, _ := f.Extra.Get("willContinue")
	args := readArgs(f.Args)
	if f.Name.Value() != "" {
		c.close()
		b := &llm.ToolCall{CallID: f.ID.Value(), Kind: llm.FunctionTool, Name: f.Name.Value()}
		if b.CallID == "" {
			b.Synthetic = true
			b.CallID = llm.MintID("call_", c.s.frame.id, strconv.Itoa(c.index), strconv.Itoa(c.blocks), b.Name)
		}
		c.start(b)
		c.call = &pendingCall{args: "{}"}
	}
	if c.call == nil {
		return // arguments without a call
	}
	bare := len(partial) == 0 && string(wire.Compact(wire.Raw(args))) == "{}"
	if !bare {
		c.call.add(args, partial)
	}
	if c.call.signature == "" {
		c.call.signature = signature
	}
	continues := string(more) == "true" || len(partial) > 0
	if !continues && (!bare || f.Name.Value() == "") {
		c.closeCall()
	}
}

func (c *choice) closeCall() {
	if c.call == nil {
		return
	}
	call := c.call
	c.call = nil
	c.calls++
	if call.signature != "" { // some dialects can add it only where a block starts
		c.s.emit(llm.SealDelta{Choice: c.index, Index: c.blocks - 1, Seal: seal(call.signature)})
	}
	c.s.emit(llm.Delta{Choice: c.index, Index: c.blocks - 1, Text: call.text()})
	c.s.emit(llm.BlockEnd{Choice: c.index, Index: c.blocks - 1})
}

package openairesponses

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// beforeTurn is the member of additionalMark that holds the index of the turn
// behind the item.
const beforeTurn = codec.MarkPrefix + "before"

// additional decodes an item that declares tools. Codex declares all its tools to
// the newest models like this. Each tool keeps the item and the turn behind it.
func (r *inputReader) additional(raw wire.Raw) error {
	var w AdditionalTools
	if err := wire.Unmarshal(raw, &w); err != nil {
		return err
	}
	o := object{}
	o.str("type", "additional_tools")
	o.opt("id", w.ID.Value())
	o.opt("role", w.Role.Value())
	o.ext(extOf(w.Extra))
	o.num(beforeTurn, int64(len(r.turns)))
	note := llm.Member{Name: additionalMark, Value: o.end()}
	declared := len(r.tools)
	for i, t := range w.Tools.Value().All() {
		some, err := decodeTool(*t, "")
		if err != nil {
			return &wire.Error{Pointer: "/tools/" + strconv.Itoa(i), Message: err.Error()}
		}
		r.tools = append(r.tools, some...)
	}
	if declared == len(r.tools) { // it has no function, but the client sent it
		r.tools = append(r.tools, hostedTool("additional_tools", "", ""))
	}
	for i := range r.tools[declared:] {
		e := &r.tools[declared+i].Ext
		e.Members = append(e.Members, note)
	}
	return nil
}

// listed returns how many tools are in the request's own list. Those of items
// come after them.
func (e *requestEncoder) listed() int {
	for i := range e.req.Tools {
		if e.additionalNote(i) != "" {
			return i
		}
	}
	return len(e.req.Tools)
}

// additionalNote returns what a tool keeps of its item.
func (e *requestEncoder) additionalNote(tool int) llm.Raw {
	ext := e.req.Tools[tool].Ext
	if !isOwn(ext) {
		return ""
	}
	return ext.Get(additionalMark)
}

// additional encodes the tool items in front of a turn.
func (e *requestEncoder) additional(turn int) {
	for e.declared < len(e.req.Tools) {
		from := e.declared
		note := e.additionalNote(from)
		o := object{}
		for _, m := range membersOf(note) {
			if m.Name != beforeTurn {
				o.raw(m.Name, llm.Raw(m.Value))
			} else if before, err := strconv.Atoi(string(m.Value)); err == nil && before > turn {
				return
			}
		}
		for e.declared < len(e.req.Tools) && e.additionalNote(e.declared) == note {
			e.declared++
		}
		o.raw("tools", e.toolList(from, e.declared).end())
		e.items.add(o.end())
	}
}

// A client may declare a search for tools instead of the tools themselves, and
// run the search itself. Codex does so with the tools of MCP servers. In other
// protocols the search is a function, and the tools that it finds are declared
// beside the others.
const (
	searchTool   = "tool_search"
	searchCall   = "tool_search_call"
	searchOutput = "tool_search_output"

	// These are the descriptions for the model where the client gives none.
	searchText   = "Searches for further tools by what they do. The tools that are found can be called from then on."
	searchSchema = `{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`
)

func isSearch(typ string) bool { return typ == searchCall || typ == searchOutput }

// byClient reports whether the client runs a tool search. By default the vendor
// runs it, and it is like any vendor-run tool.
func byClient(raw []byte) bool {
	var head struct {
		Execution string `json:"execution"`
	}
	return json.Unmarshal(raw, &head, wire.Lenient) == nil && head.Execution == "client"
}

func decodeSearch(raw wire.Raw) ([]llm.Tool, error) {
	var w Tool
	if err := wire.Unmarshal(raw, &w); err != nil {
		return nil, err
	}
	t := llm.Tool{Kind: llm.SearchTool, Name: searchTool, Description: cmp.Or(w.Description.Value(), searchText),
		Schema: value(w.Parameters), Raw: llm.Raw(raw), Ext: extOf(w.Extra)}
	if t.Schema == "" {
		t.Schema = searchSchema
	}
	leaveOut(&t.Ext, "execution")
	return []llm.Tool{t}, nil
}

func leaveOut(e *llm.Ext, name string) {
	e.Members = slices.DeleteFunc(e.Members, func(m llm.Member) bool { return m.Name == name })
}

// search decodes the call of a tool search, or its result.
func (r *inputReader) search(typ string, raw wire.Raw) error {
	var w SearchItem
	if err := wire.Unmarshal(raw, &w); err != nil {
		return err
	}
	whole := llm.Member{Name: wholeMark, Value: llm.Raw(raw)}
	if typ == searchCall {
		c := decodeSearchCall(&w)
		c.Ext.Members = append(c.Ext.Members, whole)
		r.call(c)
		return nil
	}
	found, err := r.found(w.Tools.Value())
	if err != nil {
		return err
	}
	result := &llm.ToolResult{
		Meta:   llm.Meta{ID: w.ID.Value(), Ext: extOf(w.Extra)},
		CallID: w.CallID.Value(), Kind: llm.SearchTool, Blocks: []llm.Block{&llm.Text{Text: foundText(found)}},
	}
	result.Ext.Members = append(result.Ext.Members, whole)
	r.turns = append(r.turns, llm.Turn{Role: llm.ToolRole, Blocks: []llm.Block{result}, Ext: llm.Ext{Protocol: own}})
	return nil
}

func decodeSearchCall(w *SearchItem) *llm.ToolCall {
	c := &llm.ToolCall{
		Meta:   llm.Meta{ID: w.ID.Value(), Ext: extOf(w.Extra)},
		CallID: w.CallID.Value(), Name: searchTool, Kind: llm.SearchTool, Args: w.Arguments.Value().String(),
	}
	c.Seals = unseal(&c.Ext, value(w.ExtraContent))
	return c
}

// found declares the tools that a search found.
func (r *inputReader) found(raws wire.List[wire.Raw]) ([]llm.Tool, error) {
	declared := len(r.tools)
	for i, t := range raws.All() {
		some, err := decodeTool(*t, "")
		if err != nil {
			return nil, &wire.Error{Pointer: "/tools/" + strconv.Itoa(i), Message: err.Error()}
		}
		r.tools = append(r.tools, some...)
	}
	found := r.tools[declared:]
	for i := range found {
		leaveOut(&found[i].Ext, "defer_loading") // a tool that was found has to be loaded
		found[i].Ext.Members = append(found[i].Ext.Members, llm.Member{Name: foundMark, Value: "true"})
	}
	return found, nil
}

// foundText lists the tools that a search found, under the names that other
// protocols use. Their declarations hold the rest.
func foundText(found []llm.Tool) string {
	if len(found) == 0 {
		return "No tools were found."
	}
	var b strings.Builder
	b.WriteString("These tools were found and can be called now:")
	for _, t := range found {
		b.WriteString("\n- ")
		if t.Namespace != "" {
			b.WriteString(t.Namespace + "__")
		}
		b.WriteString(cmp.Or(t.Name, t.Hosted))
		if about, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n"); about != "" {
			b.WriteString(": " + about)
		}
	}
	return b.String()
}

func isFound(t llm.Tool) bool { return isOwn(t.Ext) && t.Ext.Get(foundMark) != "" }

// withoutFound returns a request without the tools that searches found, which are
// part of the searches' items.
func withoutFound(req *llm.Request) *llm.Request {
	if !slices.ContainsFunc(req.Tools, isFound) {
		return req
	}
	r := *req
	r.Tools = slices.DeleteFunc(slices.Clone(req.Tools), isFound)
	return &r
}

// settleSearch resolves conflicts once all tools are known: no tool is declared
// twice, the search has a unique name, and a tool choice of the search uses it.
func settleSearch(req *llm.Request) {
	if slices.ContainsFunc(req.Tools, isFound) {
		req.Tools = oneOfEach(req.Tools)
	}
	name := freeName(req.Tools)
	for i := range req.Tools {
		if t := &req.Tools[i]; t.Kind == llm.SearchTool {
			t.Name = name
			chooseSearch(&req.ToolChoice, name)
		}
	}
	if name == searchTool {
		return
	}
	for _, t := range req.Turns {
		for _, b := range t.Blocks {
			if c, ok := b.(*llm.ToolCall); ok && c.Kind == llm.SearchTool {
				c.Name = name
			}
		}
	}
}

// oneOfEach removes found tools that are declared as well. Of tools found more
// than once it keeps the last, in the position of the first, so that an earlier
// prompt stays a prefix of a later one.
func oneOfEach(tools []llm.Tool) []llm.Tool {
	type key struct {
		kind llm.ToolKind
		name string
	}
	keyOf := func(t llm.Tool) key {
		switch t.Kind {
		case llm.HostedTool:
			return key{t.Kind, string(t.Raw)}
		case llm.SearchTool:
			return key{t.Kind, ""}
		default:
			return key{"", t.Namespace + "\x00" + t.Name}
		}
	}
	declared := map[key]bool{}
	for _, t := range tools {
		if !isFound(t) {
			declared[keyOf(t)] = true
		}
	}
	at := map[key]int{}
	kept := make([]llm.Tool, 0, len(tools))
	for _, t := range tools {
		k := keyOf(t)
		if isFound(t) && declared[k] {
			continue
		}
		if i, twice := at[k]; isFound(t) && twice {
			kept[i] = t
			continue
		}
		at[k] = len(kept)
		kept = append(kept, t)
	}
	return kept
}

// freeName returns a name for the search that no function of the client has.
func freeName(tools []llm.Tool) string {
	name := searchTool
	taken := func(t llm.Tool) bool { return t.Kind != llm.SearchTool && t.Namespace == "" && t.Name == name }
	for n := 2; slices.ContainsFunc(tools, taken); n++ {
		name = searchTool + "_" + strconv.Itoa(n)
	}
	return name
}

// chooseSearch gives a tool choice of the search the search's name.
func chooseSearch(c *llm.ToolChoice, name string) {
	ref := llm.ToolRef{Kind: llm.SearchTool, Name: name}
	if c.Mode == "hosted" && itemType([]byte(c.Raw)) == searchTool {
		c.Mode, c.Names = "named", []llm.ToolRef{ref}
	}
	for i, n := range c.Names {
		if n.Kind == llm.HostedTool && n.Name == searchTool {
			c.Names[i] = ref
		}
	}
}

// wholeItem returns the original item of a call or a result of a tool search.
func wholeItem(e llm.Ext) llm.Raw {
	if !isOwn(e) {
		return ""
	}
	return e.Get(wholeMark)
}

// searchDone decodes the call of a tool search, which comes complete.
func (d *streamDecoder) searchDone(it *readItem, raw jsontext.Value, to []llm.Event) []llm.Event {
	var w SearchItem
	if wire.UnmarshalLenient(raw, &w) != nil {
		return to
	}
	it.call = *decodeSearchCall(&w)
	it.held, it.call.Args = []byte(it.call.Args), ""
	return d.beginCall(it, true, to)
}

// searchArguments returns the arguments of a tool search as an object. Text that
// is not a JSON object stays a string.
func searchArguments(text llm.Raw) llm.Raw {
	plain, err := jsontext.AppendUnquote(nil, []byte(text))
	v := jsontext.Value(plain)
	switch {
	case err != nil:
		return text
	case len(v) == 0:
		return "{}"
	case v.Kind() != '{' || !v.IsValid() || v.Compact() != nil: // an event is one line
		return text
	}
	return llm.Raw(v)
}

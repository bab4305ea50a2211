package openairesponses

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// A client may keep most of its tools to itself and declare a search for them, which it
// runs (Codex does so with all tools of MCP servers). To other protocols the search is a
// function, and what it has found is declared beside the other tools.
const (
	searchTool   = "tool_search"
	searchCall   = "tool_search_call"
	searchOutput = "tool_search_output"

	// What the model is told where the client does not say it.
	searchText   = "Searches for further tools by what they do. The tools that are found can be called from then on."
	searchSchema = `{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`
)

func isSearch(typ string) bool { return typ == searchCall || typ == searchOutput }

// byClient reports whether a search is the client's. The vendor's own, which is what
// it is where nobody says so, is like any other tool that a vendor runs.
func byClient(raw []byte) bool {
	var head struct {
		Execution string `json:"execution"`
	}
	return json.Unmarshal(raw, &head, lenient) == nil && head.Execution == "client"
}

func decodeSearch(raw wire.Raw) ([]llm.Tool, error) {
	var w Tool
	if err := toolShape.Unmarshal(raw, &w); err != nil {
		return nil, err
	}
	t := llm.Tool{Kind: llm.SearchTool, Name: searchTool, Description: orElse(w.Description.Value(), searchText),
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

// search reads the call of a search, or what it has found.
func (r *inputReader) search(typ string, raw wire.Raw) error {
	var w SearchItem
	if err := searchShape.Unmarshal(raw, &w); err != nil {
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

// found declares the tools that a search has found.
func (r *inputReader) found(raws []wire.Raw) ([]llm.Tool, error) {
	declared := len(r.tools)
	for i, t := range raws {
		some, err := decodeTool(t, "")
		if err != nil {
			return nil, &wire.Error{Pointer: "/tools/" + strconv.Itoa(i), Message: err.Error()}
		}
		r.tools = append(r.tools, some...)
	}
	found := r.tools[declared:]
	for i := range found {
		leaveOut(&found[i].Ext, "defer_loading") // a tool that was found is to be loaded
		found[i].Ext.Members = append(found[i].Ext.Members, llm.Member{Name: foundMark, Value: "true"})
	}
	return found, nil
}

// foundText says what a search has found, by the names that tools in a namespace have
// in other protocols. All else that is known of them stands in their declarations.
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
		b.WriteString(orElse(t.Name, t.Hosted))
		if about, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n"); about != "" {
			b.WriteString(": " + about)
		}
	}
	return b.String()
}

func isFound(t llm.Tool) bool { return isOwn(t.Ext) && t.Ext.Get(foundMark) != "" }

// withoutFound is a request as it was before its items were read: what a search has
// found is in the search's item.
func withoutFound(req *llm.Request) *llm.Request {
	if !slices.ContainsFunc(req.Tools, isFound) {
		return req
	}
	r := *req
	r.Tools = slices.DeleteFunc(slices.Clone(req.Tools), isFound)
	return &r
}

// settleSearch makes the tools fit together once all are known: none is declared
// twice, the search has a name to itself, and a choice of the search names it.
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

// oneOfEach leaves out tools that were found although they are declared, and of those
// that were found more than once all but the last, in the place of the first: an
// earlier prompt stays the beginning of a later one.
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

// freeName is a name for the search that no function of the client's has.
func freeName(tools []llm.Tool) string {
	name := searchTool
	taken := func(t llm.Tool) bool { return t.Kind != llm.SearchTool && t.Namespace == "" && t.Name == name }
	for n := 2; slices.ContainsFunc(tools, taken); n++ {
		name = searchTool + "_" + strconv.Itoa(n)
	}
	return name
}

// chooseSearch makes a choice of the search, which has no name of its own here, one
// that names it.
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

// wholeItem is the item that a call or a result was, where it was one of a search.
func wholeItem(e llm.Ext) llm.Raw {
	if !isOwn(e) {
		return ""
	}
	return e.Get(wholeMark)
}

// searchDone reads the call of a search, which comes in one piece.
func (d *streamDecoder) searchDone(it *readItem, raw jsontext.Value, to []llm.Event) []llm.Event {
	var w SearchItem
	if searchShape.UnmarshalLenient(raw, &w) != nil {
		return to
	}
	it.call = *decodeSearchCall(&w)
	it.held, it.call.Args = []byte(it.call.Args), ""
	return d.beginCall(it, true, to)
}

// searchArguments makes the object that a search's arguments are of their text, which
// is a JSON string. What a model has written that is no object stays a string.
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

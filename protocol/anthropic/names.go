package anthropic

import "github.com/isogloss-gateway/isogloss/llm"

// maxName is the longest name of a tool, and the longest id that is kept.
const maxName = 128

// names gives each tool the name that it is sent under.
type names struct {
	sentAs map[llm.ToolRef]string // by name and namespace
	taken  map[string]bool
	undo   map[string]llm.ToolRef
}

func newNames() *names {
	return &names{sentAs: map[llm.ToolRef]string{}, taken: map[string]bool{}, undo: map[string]llm.ToolRef{}}
}

// take reserves a name that cannot be chosen.
func (n *names) take(name string) { n.taken[name] = true }

// fix reserves the name of a tool that is sent as it came, so that calls of it
// keep that name too.
func (n *names) fix(name string) {
	n.take(name)
	n.sentAs[llm.ToolRef{Name: name}] = name
}

// sent is the name of a tool on the wire. A name in history belongs to the tool
// that was declared under it.
func (n *names) sent(ref llm.ToolRef) string {
	key := llm.ToolRef{Name: ref.Name, Namespace: ref.Namespace}
	if s, ok := n.sentAs[key]; ok {
		return s
	}
	full := ref.Name
	if ref.Namespace != "" {
		full = ref.Namespace + "__" + ref.Name
	}
	s := llm.SafeName(full, maxName, llm.WordByte)
	for n.taken[s] {
		full += "\x00" // no name holds it, so the result has a hash of its own
		s = llm.SafeName(full, maxName, llm.WordByte)
	}
	n.sentAs[key], n.taken[s] = s, true
	if s != ref.Name || ref.Namespace != "" || ref.Kind == llm.CustomTool || ref.Kind == llm.SearchTool {
		n.undo[s] = ref
	}
	return s
}

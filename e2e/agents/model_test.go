package agents

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// A turn is what the model calls at once.
type turn []call

// A call is of one of the agent's tools, as the agent has declared it.
type call struct {
	space string // the namespace that the tool is in
	tool  string
	args  string // JSON, or the text that a custom tool takes
	free  bool   // a custom tool

	search bool // finds further tools, and is no function where there is a form for that
}

func (c call) flat() string {
	if c.space != "" {
		return c.space + "__" + c.tool
	}
	return c.tool
}

// A model plays an upstream's model. What it says follows from what is in the request,
// not from how many came before: agents also ask for titles and summaries, and some
// ask twice.
type model struct {
	turns  []turn
	answer func(results []string) string
	cut    int    // the turn whose first answer breaks off half way; 0 for none
	busy   int    // the turn for which the upstream is overloaded at first; 0 for none
	thinks bool   // before the answer too
	known  string // a tool that only requests of the job declare; default the first that is called
	// route has the dialect in which each turn is served, the last of them all further
	// turns. The others fail meanwhile. Empty serves all.
	route []string

	mu   sync.Mutex
	took []int // the turn of each request, in order; side for one beside the job
}

const side = -1

// step answers one request.
func (m *model) step(r *rig.Received) bool {
	d := dialectAt(r.Path())
	at, reply := m.reply(d.Asked(r))
	if m.fails(&m.cut, at) {
		all := d.Reply(reply).Stream().All()
		return rig.CutStream(all[:len(all)/2]...)(r)
	}
	if m.fails(&m.busy, at) {
		return rig.Whole(overloaded, d.Problem(overloaded, "Overloaded"))(r)
	}
	if by := m.servedBy(at); by != "" && by != d.Name {
		return rig.Whole(http.StatusInternalServerError, d.Problem(http.StatusInternalServerError, "Internal error"))(r)
	}
	m.mu.Lock()
	m.took = append(m.took, at)
	m.mu.Unlock()
	return d.Says(reply, 0)(r)
}

// dialectAt is the dialect that is spoken at a path of the upstream.
func dialectAt(path string) *rig.Dialect {
	all := rig.Dialects()
	return all[slices.IndexFunc(all, func(d *rig.Dialect) bool { return strings.HasPrefix(path, d.Prefix+"/") })]
}

// overloaded is the status with which Anthropic refuses what it has no capacity for.
const overloaded = 529

// fails reports whether the turn is the one that fails, which it does once.
func (m *model) fails(failing *int, at int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	fails := *failing > 0 && at == *failing
	if fails {
		*failing = 0
	}
	return fails
}

// servedBy is the dialect in which a turn is served, or "" for any.
func (m *model) servedBy(at int) string {
	if len(m.route) == 0 || at == side {
		return ""
	}
	return m.route[min(at, len(m.route)-1)]
}

// reply is what the model says, and which turn that is.
func (m *model) reply(f rig.Facts) (int, testrig.Reply) {
	if !slices.Contains(f.Tools, m.tool()) {
		return side, testrig.Reply{Words: []string{"Paint", "ing notes"}}
	}
	past := len(f.Results)
	for i, t := range m.turns {
		if past < len(t) {
			return i, testrig.Reply{Thought: []string{"Step ", fmt.Sprint(i + 1), "."}, Calls: m.calls(i, f)}
		}
		past -= len(t)
	}
	last := testrig.Reply{Words: pieces(m.answer(f.Results))}
	if m.thinks {
		last.Thought = []string{"All ", "is done."}
	}
	return len(m.turns), last
}

// tool is the one by which requests of the job are known.
func (m *model) tool() string {
	if m.known != "" {
		return m.known
	}
	return m.turns[0][0].flat()
}

// calls are those of a turn, each in the form that the tool was declared in: what was a
// custom tool may have become a function with one argument.
func (m *model) calls(i int, f rig.Facts) []testrig.ToolCall {
	var out []testrig.ToolCall
	for j, c := range m.turns[i] {
		custom := c.free && slices.Contains(f.Custom, c.flat())
		args := c.args
		if c.free && !custom {
			args = testrig.Compact(map[string]string{"input": c.args})
		}
		out = append(out, testrig.ToolCall{
			ID: fmt.Sprintf("call_%d_%d", i+1, j+1), Namespace: c.space, Name: c.tool, Custom: custom, Search: c.search, Args: pieces(args),
		})
	}
	return out
}

// unknown are the tools that a turn calls and that nobody has declared.
func (m *model) unknown(at int, f rig.Facts) []string {
	var out []string
	if at == side || at == len(m.turns) {
		return nil
	}
	for _, c := range m.turns[at] {
		if !slices.Contains(f.Tools, c.flat()) {
			out = append(out, c.flat())
		}
	}
	return out
}

// pieces cuts a text into three, as a stream would.
func pieces(s string) []string {
	r := []rune(s)
	a, b := len(r)/3, 2*len(r)/3
	return slices.DeleteFunc([]string{string(r[:a]), string(r[a:b]), string(r[b:])}, func(p string) bool { return p == "" })
}

// played are the turns of the job that were asked for, in order.
func (m *model) played() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.took), func(at int) bool { return at == side })
}

// signer finds who signed the notes in what came of reading them.
func signer(results []string) string {
	for _, r := range results {
		if _, after, ok := strings.Cut(r, "signed by "); ok {
			name, _, _ := strings.Cut(after, ".")
			return name
		}
	}
	return "nobody that I know of"
}

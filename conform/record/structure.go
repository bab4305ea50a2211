package record

import (
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/conform"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// structure redacts a value that the dialect defines.
func (w *walk) structure(n *node, at place) {
	switch n.kind {
	case '{':
		for _, m := range n.members {
			w.member(n, m, at)
		}
	case '[':
		for _, v := range n.items {
			w.structure(v, at.item(w, v))
		}
	case '"':
		w.str(n, at)
	case '0':
		if !counts(at) {
			w.maskNumber(n)
		}
	}
}

// counts reports whether a number is a setting, a position or a count of tokens.
func counts(at place) bool {
	name := strings.ToLower(at.name)
	return numbers[at.name] || at.within == "usage" || strings.HasSuffix(name, "tokens") || strings.HasSuffix(name, "tokencount") || strings.HasSuffix(name, "indices") || strings.HasSuffix(name, "index")
}

func (w *walk) member(up *node, m member, at place) {
	here := place{name: m.name, up: up, above: at.name, within: at.within, choice: at.choice, call: at.call}
	if !isField(m.name) { // it may contain content
		w.edits = append(w.edits, edit{m.start, m.end, wire.Quote(w.r.name(m.name))})
	}
	switch {
	case wholes[m.name]:
		here.within = "usage"
	case m.name == "error":
		here.within = "error"
	}
	kind := up.word("type")
	switch v := m.value; {
	case v.kind != '{' && v.kind != '[':
		w.structure(v, here)
	case schemas[m.name] && v.kind == '{':
		w.schema(v, "")
	case m.name == "bytes" && up.get("token") != nil: // of a log probability
		w.edits = append(w.edits, edit{v.start, v.end, bytesOf(conform.Mask(up.get("token").text))})
	case m.name == "response" && at.name == "functionResponse" && wraps(v, up.word("name")):
		w.free(v.get("content"))
	case m.name == "input" && strings.HasSuffix(kind, "tool_use"), m.name == "args", m.name == "response" && at.name == "functionResponse":
		w.free(v)
	case containers[m.name] || here.within == "usage":
		w.structure(v, here)
	default:
		w.free(v)
	}
}

// bytesOf returns the bytes of a text as a JSON array.
func bytesOf(s string) string {
	list := make([]string, len(s))
	for i := range len(s) {
		list[i] = strconv.Itoa(int(s[i]))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// wraps reports whether v contains a tool result beside the tool's name. Some frameworks
// write this form, and a gateway unwraps it.
func wraps(v *node, tool string) bool {
	return len(v.members) == 2 && v.get("content") != nil && v.word("name") == tool && isTool(tool)
}

// str redacts one string of a dialect.
func (w *walk) str(n *node, at place) {
	if w.fragment(n, at) {
		return
	}
	kind := at.up.word("type")
	switch name := at.name; {
	case n.text == "":
	case ids[name]:
		w.replace(n, w.r.id(n.text))
	case w.harmless(n.text, at):
	case seals[name], name == "data" && (kind == "redacted_thinking" || strings.HasPrefix(kind, "reasoning.")):
		w.replace(n, w.r.seal(n.text))
	case name == "data" || name == "file_data" || name == "b64_json":
		w.media(n, at)
	case arguments[name]:
		text, _ := w.r.text(n.text)
		w.replace(n, text)
	case at.within == "error" && (name == "message" || name == "error") || name == "message" || name == "detail":
		w.replace(n, maskError(n.text))
	default:
		w.freeText(n)
	}
}

// harmless reports whether a string is a keyword of the dialect.
func (w *walk) harmless(s string, at place) bool {
	switch at.name {
	case "model", "modelVersion":
		return isModel(s)
	case "name", "namespace", "tool_name", "allowedFunctionNames", "allowed_function_names":
		role := at.up.word("role")
		return isTool(s) && (role == "" || role == "tool" || role == "function") // the name of another role may be that of a person
	case "code", "error_code", "param", "field":
		return at.within == "error" && len(s) <= 2*most && paramPath.MatchString(s) || isWord(s) && at.up.word("type") == "error"
	case "tool_choice", "function_call":
		return isWord(s)
	case "retryDelay":
		return delay.MatchString(s)
	case "summary", "generate_summary", "detail":
		return few[s]
	}
	return words[at.name] && isWord(s)
}

// media replaces the data of a file with a small sample.
func (w *walk) media(n *node, at place) {
	if url := w.addressed(n.text); url != "" {
		w.replace(n, url)
		return
	}
	kind := ""
	for _, name := range []string{"media_type", "mimeType", "mime_type", "format"} {
		if t := at.up.word(name); t != "" {
			kind = t
		}
	}
	if kind == "" {
		w.freeText(n)
		return
	}
	w.replace(n, sample(kind))
}

package blockcodec

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// arguments are the arguments of a call in a stream. Those that begin like an object are sent as they
// come. Others are held until they are complete and can be wrapped into an object.
type arguments struct {
	direct bool // they begin like an object
	wrap   bool // they do not
	held   []byte
}

// add adds a piece and returns what can be sent now. It reads each piece once.
func (a *arguments) add(call *llm.ToolCall, text string) string {
	if a.direct {
		return text
	}
	a.held = append(a.held, text...)
	if a.wrap || call.Kind == llm.CustomTool || call.Synthetic { // a generated id means that the call came complete
		return ""
	}
	switch start := strings.TrimLeft(text, " \t\r\n"); {
	case start == "":
		return ""
	case start[0] != '{':
		a.wrap = true
		return ""
	}
	text, a.direct, a.held = string(a.held), true, nil
	return text
}

// rest returns the arguments as an object, unless add has returned them.
func (a *arguments) rest(call *llm.ToolCall) (wire.Raw, bool) {
	switch {
	case a.direct:
		return nil, false
	case call.Kind == llm.CustomTool:
		return Member("input", Quoted(string(a.held))), true
	}
	object, _ := ObjectArgs(string(a.held))
	return object, true
}

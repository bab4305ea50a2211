package conform

import (
	"slices"
	"strings"
)

const (
	searchCall   = "tool_search_call"
	searchOutput = "tool_search_output"
	searchTool   = "tool_search"
)

// responsesServerTools are the tools that the vendor runs or defines.
var responsesServerTools = strings.Fields(`web_search web_search_preview file_search code_interpreter image_generation computer_use_preview
	mcp local_shell shell apply_patch`)

// readTools reads tools, those of namespaces too.
func (v responses) readTools(tools value, space string, out *Received) {
	for _, t := range tools.list() {
		switch kind := t.at("type").str(); {
		case kind == "namespace" && space == "":
			v.readTools(t.at("tools"), t.at("name").str(), out)
		case kind == searchTool:
			out.Tools = append(out.Tools, Tool{Name: searchTool})
		case !slices.Contains(responsesServerTools, kind):
			readOpenAITools(value{[]any{t.v}, true}, space, out, func(t value) value { return t })
		}
	}
}

// readCall reads a call of a function, a custom tool or the tool search.
func (responses) readCall(item value, bad *problemList) Piece {
	kind, id := item.at("type").str(), item.at("id").str()
	if kind == searchCall {
		return readSearchCall(item, bad)
	}
	args, prefix := item.at(argsMember(kind)), "fc"
	if kind == "custom_tool_call" {
		prefix = "ctc"
	}
	p := Piece{Kind: kindCall, ID: item.at("call_id").str(), Name: item.at("name").str(), Space: item.at("namespace").str(), Args: args.str(), Custom: prefix == "ctc"}
	if p.ID == "" || len(p.ID) > 64 || !toolName.MatchString(p.Name) || !args.isString() || id != "" && !strings.HasPrefix(id, prefix) {
		bad.add("a %s that is not one: %s", kind, item.String())
	}
	return p
}

// readSearchCall reads a call of the tool search that the client runs. The call has no name,
// its arguments are an object, and a stream has no deltas of them.
func readSearchCall(item value, bad *problemList) Piece {
	args := item.at("arguments")
	p := Piece{Kind: kindCall, ID: item.at("call_id").str(), Name: searchTool, Args: args.String()}
	if args.isString() { // the model wrote invalid JSON
		p.Args = args.str()
	}
	if p.ID == "" || item.at("execution").str() != "client" || !args.isObject() && !args.isString() || !item.at("status").isString() {
		bad.add("a search for tools without call_id, execution, status or arguments: %s", item.String())
	}
	return p
}

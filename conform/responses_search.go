package conform

const searchCall = "tool_search_call"

// readSearchCall reads a call of the tool search that the client runs. The call has no name,
// its arguments are an object, and a stream has no deltas of them.
func readSearchCall(item value, bad *problemList) Piece {
	args := item.at("arguments")
	p := Piece{Kind: kindCall, ID: item.at("call_id").str(), Name: "tool_search", Args: args.String()}
	if args.isString() { // the model wrote invalid JSON
		p.Args = args.str()
	}
	if p.ID == "" || item.at("execution").str() != "client" || !args.isObject() && !args.isString() || !item.at("status").isString() {
		bad.add("a search for tools without call_id, execution, status or arguments: %s", item.String())
	}
	return p
}

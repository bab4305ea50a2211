package conform

const searchCall = "tool_search_call"

// seeSearch reads the call of a search for tools that the client runs. It has no name,
// its arguments are an object, and there are no events for pieces of them.
func seeSearch(item value, bad *complaints) Piece {
	args := item.at("arguments")
	p := Piece{Kind: kindCall, ID: item.at("call_id").str(), Name: "tool_search", Args: args.text()}
	if args.isString() { // what a model has written that is no object
		p.Args = args.str()
	}
	if p.ID == "" || item.at("execution").str() != "client" || !args.isObject() && !args.isString() || !item.at("status").isString() {
		bad.say("a search for tools without call_id, execution, status or arguments: %s", item.text())
	}
	return p
}

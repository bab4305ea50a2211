package loss

func toolTopics() []topic {
	return []topic{
		{"Tools", Request, "What the model may call.", toolEntries()},
		{"Tool choice", Request, "What the model must, may or must not call.", choiceEntries()},
		{"Calls and results", Request, "Calls of earlier answers, and what the client's tools gave.", callEntries()},
	}
}

func toolEntries() []entry {
	const (
		flat      = "namespace__name; undone in the answer"
		undone    = "made safe; undone in the answer"
		hosted    = "tools.kind tools.hosted tools.raw"
		ownTool   = "the vendor's own, without the settings of the other's"
		described = "the keyword is moved into the description"
		search    = "a function; undone in the answer"
	)
	return []entry{
		{
			"tools.kind", "function", exact("tools[].function.name"), exact("tools[].name"), exact("tools[].name"),
			renamed("tools[].functionDeclarations[].name", ""),
		},
		{
			"tools.kind", "custom", exact("tools[].custom.name"), exact("tools[].name"),
			near("custom_tool.as_function", "tools[].name", "a function with the one argument input; undone in the answer"),
			near("custom_tool.as_function", "tools[].functionDeclarations[].name", "a function with the one argument input; undone in the answer"),
		},
		{
			"tools.kind", "custom, to a server that knows only functions",
			near("custom_tool.as_function", "tools[].function.name", "a function with the one argument input; undone in the answer"), exact("tools[].name"),
			near("custom_tool.as_function", "tools[].name", "a function with the one argument input; undone in the answer"),
			near("custom_tool.as_function", "tools[].functionDeclarations[].name", "a function with the one argument input; undone in the answer"),
		},
		{
			"tools.kind", "search, which the client runs", near("tool_search.as_function", "tools[].function.name", search), exact("tools[].description"),
			near("tool_search.as_function", "tools[].name", search), near("tool_search.as_function", "tools[].functionDeclarations[].name", search),
		},
		{hosted, "hosted, of the same protocol", exact("tools[].type"), exact("tools[].type"), exact("tools[].type"), exact("tools[].type")},
		{
			hosted, "another vendor's web search", dropped("tool.hosted", "nobody would run it"), near("tool.hosted_mapped", "tools[].type", ownTool),
			near("tool.hosted_mapped", "tools[].type", ownTool), near("tool.hosted_mapped", "tools[].googleSearch", ownTool),
		},
		{
			hosted, "another vendor's web search, beside functions", dropped("tool.hosted", "nobody would run it"), near("tool.hosted_mapped", "tools[].type", ownTool),
			near("tool.hosted_mapped", "tools[].type", ownTool), dropped("tool.hosted", "refused beside functions"),
		},
		{
			hosted, "another vendor's web fetch", dropped("tool.hosted", "nobody would run it"), dropped("tool.hosted", "nobody would run it"),
			near("tool.hosted_mapped", "tools[].type", ownTool), near("tool.hosted_mapped", "tools[].urlContext", ownTool),
		},
		{
			hosted, "another vendor's code execution", dropped("tool.hosted", "nobody would run it"), near("tool.hosted_mapped", "tools[].type", ownTool),
			near("tool.hosted_mapped", "tools[].type", ownTool), near("tool.hosted_mapped", "tools[].codeExecution", ownTool),
		},
		{
			hosted, "another vendor's file search, computer, image or MCP tool", dropped("tool.hosted", "nobody would run it"),
			dropped("tool.hosted", "nobody would run it"), dropped("tool.hosted", "nobody would run it"), dropped("tool.hosted", "nobody would run it"),
		},
		{
			"tools.name", "good everywhere", exact("tools[].function.name"), exact("tools[].name"), exact("tools[].name"),
			exact("tools[].functionDeclarations[].name"),
		},
		{
			"tools.name", "out of the protocol's alphabet", renamed("tools[].function.name", undone), renamed("tools[].name", undone),
			renamed("tools[].name", undone), renamed("tools[].functionDeclarations[].name", undone),
		},
		{
			"tools.namespace", "", renamed("tools[].function.name", flat), renamed("tools[].name", "a tool of the type namespace"),
			renamed("tools[].name", flat), renamed("tools[].functionDeclarations[].name", flat),
		},
		{
			"tools.description", "", exact("tools[].function.description"), exact("tools[].description"), exact("tools[].description"),
			exact("tools[].functionDeclarations[].description"),
		},
		{
			"tools.schema", "", renamed("tools[].function.parameters", ""), renamed("tools[].parameters", ""), renamed("tools[].input_schema", ""),
			renamed("tools[].functionDeclarations[].parametersJsonSchema", ""),
		},
		{
			"tools.schema", "not of an object", refused("schema.not_object", "arguments are an object"), refused("schema.not_object", "arguments are an object"),
			refused("schema.not_object", "arguments are an object"), refused("schema.not_object", "arguments are an object"),
		},
		{
			"tools.schema", "keywords beyond the vendor's", exact("tools[].function.parameters"), exact("tools[].parameters"), exact("tools[].input_schema"),
			near("schema.keyword_moved", "tools[].functionDeclarations[].parametersJsonSchema", described),
		},
		{
			"tools.schema", "an array that does not say of what", exact("tools[].function.parameters"), exact("tools[].parameters"), exact("tools[].input_schema"),
			near("schema.items_added", "tools[].functionDeclarations[].parametersJsonSchema", "an array of strings"),
		},
		{
			"tools.strict", "true", exact("tools[].function.strict"), exact("tools[].strict"), exact("tools[].strict"),
			near("strict.best_effort", "", "schemas are followed as well as the model can"),
		},
		{
			"tools.strict", "false", exact("tools[].function.strict"), form("sent where it is unset, too"), form("what is done unasked"), form("what is done unasked"),
		},
		{
			"tools.strict", "true, with keywords beyond the vendor's", exact("tools[].function.strict"), exact("tools[].strict"),
			near("schema.keyword_moved", "tools[].input_schema", described),
			near("strict.best_effort schema.keyword_moved", "tools[].functionDeclarations[].parametersJsonSchema", described),
		},
		{
			"tools.strict", "true, with a schema that refers to itself", exact("tools[].function.strict"), exact("tools[].strict"),
			refused("schema.recursive", "the vendor refuses it"), near("strict.best_effort", "tools[].functionDeclarations[].parametersJsonSchema", "schemas are followed as well as the model can"),
		},
		{
			"tools.grammar", "regular expression", exact("tools[].custom.format"), exact("tools[].format"),
			renamed("tools[].input_schema.properties.input.pattern", ""), near("grammar.lost", "tools[].functionDeclarations[].description", "told in the description"),
		},
		{
			"tools.grammar", "other, to a server that knows only functions", near("grammar.lost", "tools[].function.description", "told in the description"), exact("tools[].format"),
			near("grammar.lost", "tools[].description", "told in the description"), near("grammar.lost", "tools[].functionDeclarations[].description", "told in the description"),
		},
		{
			"tools.grammar", "other", exact("tools[].custom.format"), exact("tools[].format"),
			near("grammar.lost", "tools[].description", "told in the description"), near("grammar.lost", "tools[].functionDeclarations[].description", "told in the description"),
		},
		{
			"tools.ext", "of the same protocol", exact("tools[].x_odd"), exact("tools[].x_odd"), exact("tools[].x_odd"),
			exact("tools[].functionDeclarations[].x_odd"),
		},
		{
			"tools.ext", "of another protocol", dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers),
			dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers),
		},
		{
			"tools", "none, but calls in earlier turns", form("none are wanted"), form("none are wanted"),
			near("tools.from_history", "tools[].name", "declared, and not to be called"), form("none are wanted"),
		},
		{
			"parallel", "false", renamed("parallel_tool_calls", ""), renamed("parallel_tool_calls", ""),
			renamed("tool_choice.disable_parallel_tool_use", ""), dropped("parallel.unsupported", "the model may call several tools at once"),
		},
		{
			"parallel", "true", renamed("parallel_tool_calls", ""), renamed("parallel_tool_calls", ""), form("what is done unasked"), form("what is done unasked"),
		},
		{
			"parallel", "without tools", form("there is nothing to call"), form("there is nothing to call"), form("there is nothing to call"),
			form("there is nothing to call"),
		},
	}
}

func choiceEntries() []entry {
	const (
		choice  = "toolConfig.functionCallingConfig"
		mayCall = "the model may call it"
		allowed = "tool_choice.mode tool_choice.names tool_choice.allowed"
	)
	return []entry{
		{"tool_choice.mode", "auto", exact("tool_choice"), exact("tool_choice"), exact("tool_choice.type"), exact(choice + ".mode")},
		{"tool_choice.mode", "none", exact("tool_choice"), exact("tool_choice"), exact("tool_choice.type"), exact(choice + ".mode")},
		{"tool_choice.mode", "required", exact("tool_choice"), exact("tool_choice"), renamed("tool_choice.type", "any"), renamed(choice+".mode", "ANY")},
		{
			"tool_choice.mode", "required, on a model that cannot be forced", near("tool_choice.forced_unsupported", "tool_choice", mayCall),
			near("tool_choice.forced_unsupported", "tool_choice", mayCall), near("tool_choice.forced_unsupported", "system", "the model is told to call it"),
			near("tool_choice.forced_unsupported", choice+".mode", mayCall),
		},
		{
			"tool_choice.mode", "required, without tools", refused("tool_choice.without_tools", "there is nothing to call"),
			refused("tool_choice.without_tools", "there is nothing to call"), refused("tool_choice.without_tools", "there is nothing to call"),
			refused("tool_choice.without_tools", "there is nothing to call"),
		},
		{
			"tool_choice.mode tool_choice.names tool_ref.kind tool_ref.name", "named", exact("tool_choice.function.name"), exact("tool_choice.name"),
			exact("tool_choice.name"), renamed(choice+".allowedFunctionNames", "ANY of one"),
		},
		{
			"tool_choice.names tool_ref.kind", "named, a custom tool", exact("tool_choice.custom.name"), exact("tool_choice.name"),
			renamed("tool_choice.name", "the function that stands for it"), renamed(choice+".allowedFunctionNames", "the function that stands for it"),
		},
		{
			"tool_ref.namespace", "", renamed("tool_choice.function.name", "namespace__name"), exact("tool_choice.namespace"),
			renamed("tool_choice.name", "namespace__name"), renamed(choice+".allowedFunctionNames", "namespace__name"),
		},
		{
			allowed, "allowed, auto", exact("tool_choice.allowed_tools"), exact("tool_choice.tools"),
			near("tool_choice.allowed_filtered", "tool_choice.type", "only those tools are sent"), renamed(choice+".allowedFunctionNames", "VALIDATED"),
		},
		{
			allowed, "allowed, required", exact("tool_choice.allowed_tools"), exact("tool_choice.tools"),
			near("tool_choice.allowed_filtered", "tool_choice.type", "only those tools are sent"), renamed(choice+".allowedFunctionNames", "ANY"),
		},
		{
			"tool_choice.mode", "validated", near("tool_choice.validated", "tool_choice", "auto"), near("tool_choice.validated", "tool_choice", "auto"),
			near("tool_choice.validated", "tool_choice.type", "auto"), exact(choice + ".mode"),
		},
		{
			"tool_choice.mode tool_choice.raw", "another vendor's hosted tool", dropped("tool_choice.hosted", "the model decides"),
			near("tool_choice.hosted", "tool_choice", "auto"), near("tool_choice.hosted", "tool_choice.type", "auto"), dropped("tool_choice.hosted", "the model decides"),
		},
	}
}

func callEntries() []entry {
	const (
		call    = "contents[].parts[].functionCall"
		result  = "contents[].parts[].functionResponse"
		unknown = "nobody else can read it"
	)
	return []entry{
		{
			"tool_call.call_id tool_result.call_id", "good everywhere", exact("messages[].tool_call_id"), exact("input[].call_id"),
			renamed("messages[].content[].tool_use_id", ""), exact(result + ".id"),
		},
		{
			"tool_call.call_id tool_result.call_id", "out of the protocol's alphabet", renamed("messages[].tool_call_id", notAGoodID), renamed("input[].call_id", notAGoodID),
			renamed("messages[].content[].tool_use_id", notAGoodID), exact(result + ".id"),
		},
		{"tool_call.synthetic", "", form("the made id is sent"), form("the made id is sent"), form("the made id is sent"), form("the made id is left out")},
		{"tool_call.kind", "function", exact("messages[].tool_calls"), exact("input[].name"), renamed("messages[].content[].input", "tool_use"), exact(call)},
		{
			"tool_call.kind tool_result.kind", "custom", exact("messages[].tool_calls[].custom.input"), exact("input[].input"),
			renamed("messages[].content[].input.input", "a call of the function that stands for it"), renamed(call+".args.input", "a call of the function that stands for it"),
		},
		{
			"tool_call.kind tool_result.kind", "search", renamed("messages[].tool_calls[].function.arguments", "a call of the function that stands for it"),
			exact("input[].arguments"), renamed("messages[].content[].input", "a call of the function that stands for it"),
			renamed(call+".args", "a call of the function that stands for it"),
		},
		{"tool_call.name", "", exact("messages[].tool_calls[].function.name"), exact("input[].name"), exact("messages[].content[].name"), exact(call + ".name")},
		{
			"tool_call.namespace", "", renamed("messages[].tool_calls[].function.name", "namespace__name"), exact("input[].namespace"),
			renamed("messages[].content[].name", "namespace__name"), renamed(call+".name", "namespace__name"),
		},
		{
			"tool_call.args", "an object", exact("messages[].tool_calls[].function.arguments"), exact("input[].arguments"),
			renamed("messages[].content[].input", "as JSON, every digit kept"), renamed(call+".args", "as JSON, every digit kept"),
		},
		{
			"tool_call.args", "empty", renamed("messages[].tool_calls[].function.arguments", "an empty object"), renamed("input[].arguments", "an empty object"),
			renamed("messages[].content[].input", "an empty object"), renamed(call+".args", "an empty object"),
		},
		{
			"tool_call.args", "JSON, but no object", exact("messages[].tool_calls[].function.arguments"), exact("input[].arguments"),
			near("args.wrapped", "messages[].content[].input", `in {"value":…}`), near("args.wrapped", call+".args", `in {"value":…}`),
		},
		{
			"tool_call.args", "no JSON", exact("messages[].tool_calls[].function.arguments"), exact("input[].arguments"),
			near("args.wrapped", "messages[].content[].input", `in {"_raw":"…"}`), near("args.wrapped", call+".args", `in {"_raw":"…"}`),
		},
		{
			"tool_result.blocks", "text", exact("messages[].content"), renamed("input[].output", ""), exact("messages[].content[].content"),
			renamed(result+".response.result", ""),
		},
		{
			"tool_result.blocks", "several texts", renamed("messages[].content", "one text of several lines"), exact("input[].output[].text"),
			exact("messages[].content[].content[].text"), renamed(result+".response.result", "one text of several lines"),
		},
		{
			"tool_result.blocks", "media", near("tool_result.media_split", "messages[].content", "in a message of the user after the results"),
			exact("input[].output[].image_url"), exact("messages[].content[].content[].source.data"),
			near("tool_result.media_split", "contents[].parts[].inlineData.data", "after the results; inside from the third generation on"),
		},
		{
			"tool_result.blocks", "another vendor's block", refused("block.unknown", unknown), refused("block.unknown", unknown),
			refused("block.unknown", unknown), refused("block.unknown", unknown),
		},
		{
			"tool_result.failed", "", near("tool_result.error_as_text", "messages[].content", "[tool error] before the text"),
			near("tool_result.error_as_text", "input[].output", "Error before the text"), renamed("messages[].content[].is_error", ""), renamed(result+".response.error", ""),
		},
		{
			"tool_result.name", "", form("the call has the name"), form("the call has the name"), form("the call has the name"), form("the call's name is sent"),
		},
		{"tool_result.listed", "", exact("messages[].content"), exact("input[].output"), exact("messages[].content[].content"), form("a response is always an object")},
		{
			"tool_result.missing", "", renamed("messages[].content", "an empty text"), renamed("input[].output", "an empty text"),
			exact("messages[].content"), renamed(result+".response.result", "an empty text"),
		},
		{
			"tool_result", "in system text", refused("tool_result.orphan", "no call before it"), refused("block.misplaced", "no result can stand there"),
			refused("tool_result.orphan", "no call before it"), refused("block.misplaced", "no result can stand there"),
		},
	}
}

package loss

// Losses that several entries share.
const (
	noOddMembers = "members that have no field go only to their own protocol"
	notAGoodID   = "the same for the call and its result"
)

func conversationTopics() []topic {
	return []topic{
		{"The request itself", Request, "What stands at the top of a request.", []entry{
			{"model", "", exact("model"), exact("model"), exact("model"), renamed("url", "the model is in the path")},
			{"stream", "", exact("stream"), exact("stream"), exact("stream"), renamed("url", "streamGenerateContent")},
			{"include_usage", "", renamed("stream_options.include_usage", ""), form("always sent"), form("always sent"), form("always sent")},
			{"ext", "of the same protocol", exact("x_odd"), exact("x_odd"), exact("x_odd"), exact("x_odd")},
			{
				"ext", "of another protocol",
				dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers),
				dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers),
			},
		}},
		{"Turns", Request, "Who speaks, and in what order.", turnEntries()},
		{"Text", Request, "What was said, by anybody.", textEntries()},
	}
}

func turnEntries() []entry {
	return []entry{
		{"turns.role", "user", exact("messages[].content"), exact("input[].content"), exact("messages[].content"), exact("contents[].parts[].text")},
		{
			"turns.role", "assistant", exact("messages[].content"), exact("input[].content"), exact("messages[].content"),
			renamed("contents[].parts[].text", "the role is called model"),
		},
		{
			"turns.role", "tool", exact("messages[].content"), renamed("input[].output", "an item of its own"),
			renamed("messages[].content", "a message of the user, with what the user says next"),
			renamed("contents[].parts[].functionResponse.response", "a content of the user"),
		},
		{
			"turns.role", "system, at the beginning", exact("messages[].content"),
			renamed("instructions", "several texts are messages"), renamed("system", ""), renamed("systemInstruction", ""),
		},
		{
			"turns.role", "developer, at the beginning", exact("messages[].content"), exact("input[].content"),
			near("turn.developer", "system", "the same as system text"), near("turn.developer", "systemInstruction", "the same as system text"),
		},
		{
			"turns.role", "system, in mid-conversation", exact("messages[].content"), exact("input[].content"),
			near("system.mid_folded", "messages[].content", "text of the user, marked <system>"),
			near("system.mid_folded", "contents[].parts[].text", "text of the user, marked <system>"),
		},
		{
			"turns.role", "system, in mid-conversation, on a model that takes it", exact("messages[].content"), exact("input[].content"),
			exact("messages[].content"), near("system.mid_folded", "contents[].parts[].text", "text of the user, marked <system>"),
		},
		{
			"turns.name", "", exact("messages[].name"), dropped("turn.name", "there is no member for it"),
			dropped("turn.name", "there is no member for it"), dropped("turn.name", "there is no member for it"),
		},
		{
			"turns.joined", "", form("a message of its own"), form("an item of its own"),
			exact("messages[].content"), form("a content of its own"),
		},
		{
			"turns.list", "", exact("messages[].content"), exact("input[].content"), exact("messages[].content"),
			form("a content is always a list"),
		},
		{"turns.ext", "of the same protocol", exact("messages[].x_odd"), exact("input[].x_odd"), exact("messages[].x_odd"), exact("contents[].x_odd")},
		{
			"turns.ext", "of another protocol", dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers),
			dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers),
		},
		{
			"turns", "the assistant speaks first", exact("messages[].content"), exact("input[].content"),
			near("turns.user_inserted", "messages[].content", "a short text of the user is put before it"),
			near("turns.user_inserted", "contents[].parts[].text", "a short text of the user is put before it"),
		},
		{
			"turns", "the assistant speaks last, with white space at its end", exact("messages[].content"), exact("input[].content"),
			near("text.trimmed", "messages[].content", "the vendor refuses white space at the end of what it is to continue"),
			exact("contents[].parts[].text"),
		},
		{
			"turns", "none but system text", exact("messages[].content"), renamed("instructions", ""),
			refused("turns.empty", "there is nothing to answer"), refused("turns.empty", "there is nothing to answer"),
		},
		{
			"turns", "white space only", exact("messages[].content"), exact("input[].content"),
			dropped("turn.empty", "the vendor refuses blank messages"), exact("contents[].parts[].text"),
		},
		{
			"turns", "a call without a result, and the conversation goes on",
			refused("tool_call.unanswered", "send a result for every call"), refused("tool_call.unanswered", "send a result for every call"),
			refused("tool_call.unanswered", "send a result for every call"), refused("tool_call.unanswered", "send a result for every call"),
		},
		{
			"turns", "a result without a call",
			refused("tool_result.orphan", "send the call that it answers"), refused("tool_result.orphan", "send the call that it answers"),
			refused("tool_result.orphan", "send the call that it answers"), refused("tool_result.orphan", "send the call that it answers"),
		},
	}
}

// citations are all the fields of a citation.
const citations = "text.citations citation.start citation.end citation.url citation.title citation.file_id citation.quote citation.protocol citation.raw"

func textEntries() []entry {
	return []entry{
		{"text.text", "", exact("messages[].content"), exact("input[].content"), exact("messages[].content"), exact("contents[].parts[].text")},
		{
			"text.text", "empty, of the assistant beside a call", exact("messages[].content"), form("says nothing and is left out"),
			form("says nothing and is left out"), form("says nothing and is left out"),
		},
		{
			citations, "of the same protocol", form("kept with the message, as annotations"), exact("input[].content[].annotations"),
			exact("messages[].content[].citations"), dropped("citation.history", "an earlier answer goes without its sources"),
		},
		{
			citations, "of another protocol", dropped("citation.history", "an earlier answer goes without its sources"),
			renamed("input[].content[].annotations", "those with an address"),
			dropped("citation.foreign", "only the vendor's own citations can be sent back"),
			dropped("citation.history", "an earlier answer goes without its sources"),
		},
		{
			"text.citations", "on the user's text, 2026-10-21", dropped("citation.history", "the user's text has no citations"),
			dropped("citation.history", "the user's text has no citations"), dropped("citations.user_text", "that version refuses them"),
			dropped("citation.history", "the text goes without its sources"),
		},
		{
			"text.logprobs refusal.logprobs", "", form("of no use in an earlier answer"), form("of no use in an earlier answer"),
			form("of no use in an earlier answer"), form("of no use in an earlier answer"),
		},
		{
			"text.phase", "", dropped("text.phase", "there is no member for it"), exact("input[].phase"),
			dropped("text.phase", "there is no member for it"), dropped("text.phase", "there is no member for it"),
		},
		{
			"refusal.text", "", exact("messages[].refusal"), exact("input[].content[].refusal"),
			near("refusal.as_text", "messages[].content", "text of the assistant"), near("refusal.as_text", "contents[].parts[].text", "text of the model"),
		},
		{
			"block.id", "", form("the source's own id; nothing refers to it"), form("the source's own id; nothing refers to it"),
			form("the source's own id; nothing refers to it"), form("the source's own id; nothing refers to it"),
		},
		{
			"block.ext", "of the same protocol", exact("messages[].content[].x_odd"), exact("input[].content[].x_odd"),
			exact("messages[].content[].x_odd"), exact("contents[].parts[].x_odd"),
		},
		{
			"block.ext", "of another protocol", dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers),
			dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers),
		},
	}
}

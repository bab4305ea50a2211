package all_test

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

func turnSamples() []requestSample {
	return []requestSample{
		{name: "model", set: func(r request) { r.Model = needle }, find: needle},
		{name: "stream", set: func(r request) { r.Stream = true }},
		{name: "include_usage", base: func(r request) { r.Stream = true },
			set: func(r request) { r.IncludeUsage = true }},
		{name: "ext: of the same protocol", base: sameProtocol, set: func(r request) { r.Ext = member(r.own) }, find: needle},
		{name: "ext: of another protocol", set: func(r request) { r.Ext = member(r.other) }},
		{name: "ext: safeguards of Messages", set: ofMessages("safeguards"), find: needle},
		{name: "ext: safeguard_results of Messages", set: ofMessages("safeguard_results"), find: needle},
		{name: "ext: billing_policy of Messages", set: ofMessages("billing_policy"), find: needle},
		{name: "ext: moderation of Responses that blocks", find: needle, set: func(r request) {
			r.Ext = llm.Ext{Protocol: string(protocol.OpenAIResponses), Members: []llm.Member{{Name: "moderation", Value: `{"model":"n33dle","policy":{"input":{"mode":"block"}}}`}}}
		}},
		{name: "ext: continuationToken of Gemini", find: needle, set: func(r request) {
			r.Ext = llm.Ext{Protocol: string(protocol.Gemini), Members: []llm.Member{{Name: "continuationToken", Value: `"n33dle"`}}}
		}},
		{name: "ext: tags of Messages", set: ofMessages("tags")},

		{name: "turns.role: user", set: func(r request) { r.userText().Text = needle }, find: needle},
		{name: "turns.role: assistant", base: withHistory, set: func(r request) { r.earlierText().Text = needle }, find: needle},
		{name: "turns.role: tool", base: withToolResult, set: func(r request) { r.result().Blocks = text(needle) }, find: needle},
		{name: "turns.role: system, at the beginning", set: insertTurn(0, llm.System, text(needle)), find: needle},
		{name: "turns.role: developer, at the beginning", set: insertTurn(0, llm.Developer, text(needle)), find: needle},
		{name: "turns.role: system, in mid-conversation", base: withHistory, set: insertTurn(2, llm.System, text(needle)), find: needle},
		{name: "turns.role: system, in mid-conversation, on a model that takes it", base: withHistory, set: insertTurn(3, llm.System, text(needle)), find: needle,
			gates: gates{MidSystem: true}},
		{name: "turns.name", set: func(r request) { r.Turns[0].Name = needle }, find: needle},
		{name: "turns.joined", base: withToolResult, set: func(r request) {
			r.Turns = append(r.Turns, llm.Turn{Role: llm.User, Blocks: text(needle), Joined: true})
		}, find: needle},
		{name: "turns.list", set: func(r request) { r.Turns[0].List = true }},
		{name: "turns.ext: of the same protocol", base: sameProtocol, set: func(r request) { r.Turns[0].Ext = member(r.own) }, find: needle},
		{name: "turns.ext: of another protocol", set: func(r request) { r.Turns[0].Ext = member(r.other) }},
		{name: "turns: the assistant speaks first", set: insertTurn(0, llm.Assistant, text(needle)), find: needle},
		{name: "turns: the assistant speaks last, with white space at its end", set: insertTurn(1, llm.Assistant, text(needle+" \n")), find: needle},
		{name: "turns: the assistant speaks last, on a model that does not continue it", set: insertTurn(1, llm.Assistant, text(needle)), find: needle, gates: gates{NoPrefill: true}},
		{name: "turns: none but system text", set: func(r request) {
			r.Turns = []llm.Turn{{Role: llm.System, Blocks: text(needle)}}
		}, find: needle},
		{name: "turns: white space only", base: insertTurn(1, llm.Assistant, text("hi")), set: insertTurn(2, llm.User, text(" "))},
		{name: "turns: a call without a result, and the conversation goes on", base: withToolResult, set: func(r request) { r.Turns[2] = llm.Turn{Role: llm.User, Blocks: text("well?")} }},
		{name: "turns: a result without a call", base: withToolResult, set: addBlock(2, &llm.ToolResult{CallID: "call_2", Blocks: text("?")})},
	}
}

// ofMessages sets a top-level member that only Messages requests have.
func ofMessages(name string) requestEdit {
	return func(r request) {
		r.Ext = llm.Ext{Protocol: string(protocol.Anthropic), Members: []llm.Member{{Name: name, Value: `"n33dle"`}}}
	}
}

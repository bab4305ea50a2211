package loss

import "github.com/isogloss-gateway/isogloss/llm"

func text(s string) []llm.Block { return []llm.Block{&llm.Text{Text: s}} }

// member is an unknown member of a protocol.
func member(protocol string) llm.Ext {
	return llm.Ext{Protocol: protocol, Members: []llm.Member{{Name: "x_odd", Value: `"` + aNeedle + `"`}}}
}

func conversationSamples() []sample {
	system := func(role llm.Role, at int) func(*llm.Request, scene) {
		return func(r *llm.Request, _ scene) {
			t := llm.Turn{Role: role, Blocks: text(aNeedle)}
			r.Turns = append(r.Turns[:at:at], append([]llm.Turn{t}, r.Turns[at:]...)...)
		}
	}
	return []sample{
		{fields: "model", set: func(r *llm.Request, _ scene) { r.Model = aNeedle }, find: aNeedle},
		{fields: "stream", set: func(r *llm.Request, _ scene) { r.Stream = true }},
		{fields: "include_usage", base: func(s scene) *llm.Request { r := hello(s); r.Stream = true; return r },
			set: func(r *llm.Request, _ scene) { r.IncludeUsage = true }},
		{fields: "ext", when: "of the same protocol", base: home, set: func(r *llm.Request, s scene) { r.Ext = member(s.own) }, find: aNeedle},
		{fields: "ext", when: "of another protocol", set: func(r *llm.Request, s scene) { r.Ext = member(s.other) }},

		{fields: "turns.role", when: "user", set: func(r *llm.Request, _ scene) { said(r).Text = aNeedle }, find: aNeedle},
		{fields: "turns.role", when: "assistant", base: dialogue, set: func(r *llm.Request, _ scene) { answered(r).Text = aNeedle }, find: aNeedle},
		{fields: "turns.role", when: "tool", base: working, set: func(r *llm.Request, _ scene) { result(r).Blocks = text(aNeedle) }, find: aNeedle},
		{fields: "turns.role", when: "system, at the beginning", set: system(llm.System, 0), find: aNeedle},
		{fields: "turns.role", when: "developer, at the beginning", set: system(llm.Developer, 0), find: aNeedle},
		{fields: "turns.role", when: "system, in mid-conversation", base: dialogue, set: system(llm.System, 2), find: aNeedle},
		{fields: "turns.role", when: "system, in mid-conversation, on a model that takes it", base: dialogue, set: system(llm.System, 3), find: aNeedle,
			gates: gates{MidSystem: true}},
		{fields: "turns.name", set: func(r *llm.Request, _ scene) { r.Turns[0].Name = aNeedle }, find: aNeedle},
		{fields: "turns.joined", base: working, set: func(r *llm.Request, _ scene) {
			r.Turns = append(r.Turns, llm.Turn{Role: llm.User, Blocks: text(aNeedle), Joined: true})
		}, find: aNeedle},
		{fields: "turns.list", set: func(r *llm.Request, _ scene) { r.Turns[0].List = true }},
		{fields: "turns.ext", when: "of the same protocol", base: home, set: func(r *llm.Request, s scene) { r.Turns[0].Ext = member(s.own) }, find: aNeedle},
		{fields: "turns.ext", when: "of another protocol", set: func(r *llm.Request, s scene) { r.Turns[0].Ext = member(s.other) }},
		{fields: "turns", when: "the assistant speaks first", set: func(r *llm.Request, _ scene) {
			r.Turns = append([]llm.Turn{{Role: llm.Assistant, Blocks: text(aNeedle)}}, r.Turns...)
		}, find: aNeedle},
		{fields: "turns", when: "the assistant speaks last, with white space at its end", set: func(r *llm.Request, _ scene) {
			r.Turns = append(r.Turns, llm.Turn{Role: llm.Assistant, Blocks: text(aNeedle + " \n")})
		}, find: aNeedle},
		{fields: "turns", when: "none but system text", set: func(r *llm.Request, _ scene) {
			r.Turns = []llm.Turn{{Role: llm.System, Blocks: text(aNeedle)}}
		}, find: aNeedle},
		{fields: "turns", when: "white space only", base: func(s scene) *llm.Request {
			r := dialogue(s)
			r.Turns = r.Turns[:2]
			return r
		}, set: func(r *llm.Request, _ scene) { r.Turns = append(r.Turns, llm.Turn{Role: llm.User, Blocks: text(" ")}) }},
		{fields: "turns", when: "a call without a result, and the conversation goes on", base: working, set: func(r *llm.Request, _ scene) {
			r.Turns[2] = llm.Turn{Role: llm.User, Blocks: text("well?")}
		}},
		{fields: "turns", when: "a result without a call", base: working, set: func(r *llm.Request, _ scene) {
			r.Turns[2].Blocks = append(r.Turns[2].Blocks, &llm.ToolResult{CallID: "call_2", Blocks: text("?")})
		}},
	}
}

package rig

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// What the vendors refuse, as they say it themselves. An upstream that takes anything
// would prove little.

// checkNames holds that the tools' names are good and that no two are the same.
func (f *Facts) checkNames(pattern string) {
	good := regexp.MustCompile(pattern)
	for i, name := range f.Tools {
		if !good.MatchString(name) {
			f.Wrong = append(f.Wrong, fmt.Sprintf("tools.%d: the name %q does not match %s", i, name, pattern))
		}
		if slices.Contains(f.Tools[:i], name) {
			f.Wrong = append(f.Wrong, "tools: Tool names must be unique: "+name)
		}
	}
}

// checkChatTurns holds that the results follow the message with their calls.
func (f *Facts) checkChatTurns(messages []testrig.Object) {
	waiting := 0
	for i, m := range messages {
		role := m.Str("role")
		if waiting > 0 && role != "tool" {
			f.Wrong = append(f.Wrong, fmt.Sprintf("messages.%d: An assistant message with 'tool_calls' must be followed by tool messages", i))
		}
		switch role {
		case "tool":
			waiting--
		case "assistant":
			waiting = len(m.List("tool_calls"))
			for j, c := range m.List("tool_calls") {
				if len(c.Str("id")) > 40 {
					f.Wrong = append(f.Wrong, fmt.Sprintf("Invalid 'messages[%d].tool_calls[%d].id': string too long. Expected a string with maximum length 40", i, j))
				}
			}
			if waiting == 0 && len(m.Texts("content")) == 0 && m.Str("refusal") == "" {
				f.Wrong = append(f.Wrong, fmt.Sprintf("messages.%d: an assistant message without content", i))
			}
		}
	}
}

// checkAnthropicTurns holds that each call's result is at the head of the message after it.
func (f *Facts) checkAnthropicTurns(messages []testrig.Object) {
	if len(messages) == 0 || messages[0].Str("role") != "user" {
		f.Wrong = append(f.Wrong, "messages: first message must use the user role")
	}
	calls := 0
	for i, m := range messages {
		blocks := m.List("content")
		results := 0
		for results < len(blocks) && blocks[results].Str("type") == "tool_result" {
			results++
		}
		if results != calls {
			f.Wrong = append(f.Wrong, fmt.Sprintf("messages.%d: %d calls before it and %d results at its head", i, calls, results))
		}
		if len(m.Texts("content")) == 0 && len(blocks) == 0 {
			f.Wrong = append(f.Wrong, fmt.Sprintf("messages.%d: all messages must have non-empty content", i))
		}
		calls = len(slices.DeleteFunc(blocks, func(b testrig.Object) bool { return b.Str("type") != "tool_use" }))
	}
}

// checkAnthropicBlocks holds that calls have ids that the vendor takes and no members of
// others, and that thinking is signed.
func (f *Facts) checkAnthropicBlocks(messages []testrig.Object) {
	id := regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	for i, m := range messages {
		for j, b := range m.List("content") {
			at := fmt.Sprintf("messages.%d.content.%d", i, j)
			switch b.Str("type") {
			case "thinking":
				if b.Str("signature") == "" {
					f.Wrong = append(f.Wrong, at+": Invalid `signature` in `thinking` block")
				}
			case "tool_use":
				if !id.MatchString(b.Str("id")) {
					f.Wrong = append(f.Wrong, at+".tool_use.id: String should match pattern "+id.String())
				}
				for name := range b {
					if !slices.Contains([]string{"type", "id", "name", "input", "cache_control", "caller"}, name) {
						f.Wrong = append(f.Wrong, at+".tool_use."+name+": Extra inputs are not permitted")
					}
				}
			}
		}
	}
}

// checkResponsesItem holds that an item's own id begins as the vendor's do, and that
// encrypted reasoning is not empty.
func (f *Facts) checkResponsesItem(i int, item testrig.Object) {
	begins := map[string]string{"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}[item.Str("type")]
	if id := item.Str("id"); begins != "" && id != "" && !strings.HasPrefix(id, begins) {
		f.Wrong = append(f.Wrong, fmt.Sprintf("Invalid 'input[%d].id': %q. Expected an ID that begins with %q.", i, id, begins))
	}
	if id := item.Str("call_id"); len(id) > 64 {
		f.Wrong = append(f.Wrong, fmt.Sprintf("Invalid 'input[%d].call_id': string too long. Expected a string with maximum length 64", i))
	}
	if v, ok := item["encrypted_content"]; ok && v == "" {
		f.Wrong = append(f.Wrong, fmt.Sprintf("Invalid 'input[%d].encrypted_content': the encrypted content could not be verified", i))
	}
}

// checkAnthropicTools holds that the client's tools take objects.
func (f *Facts) checkAnthropicTools(tools []testrig.Object) {
	for i, t := range tools {
		if kind := t.Str("type"); (kind == "" || kind == "custom") && t.Obj("input_schema").Str("type") != "object" {
			f.Wrong = append(f.Wrong, fmt.Sprintf("tools.%d.custom.input_schema.type: Field required", i))
		}
	}
}

// checkGeminiTurns holds that a turn with calls is followed by one with as many results.
func (f *Facts) checkGeminiTurns(contents []testrig.Object) {
	calls := 0
	for i, c := range contents {
		made, given := 0, 0
		for _, p := range c.List("parts") {
			if p.Has("functionCall") {
				made++
			}
			if p.Has("functionResponse") {
				given++
			}
		}
		if given != calls {
			f.Wrong = append(f.Wrong, fmt.Sprintf("contents.%d: the number of function response parts is %d, that of the function call parts is %d", i, given, calls))
		}
		calls = made
	}
}

// checkGeminiTools holds that the vendor's own tools do not stand beside functions,
// unless the client is ready for what comes of that.
func (f *Facts) checkGeminiTools(o testrig.Object) {
	functions, own := false, false
	for _, t := range o.List("tools") {
		for name := range t {
			functions = functions || name == "functionDeclarations"
			own = own || name != "functionDeclarations"
		}
	}
	if functions && own && !o.Obj("toolConfig").Flag("includeServerSideToolInvocations") {
		f.Wrong = append(f.Wrong, "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with Function calling.")
	}
}

// checkResponsesCount holds that a token count has input and only the members that are counted.
func (f *Facts) checkResponsesCount(o testrig.Object) {
	counted := []string{
		"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "personality", "reasoning", "text", "truncation", "previous_response_id", "conversation",
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(counted, name) {
			f.Wrong = append(f.Wrong, fmt.Sprintf("Unknown parameter: '%s'.", name))
		}
	}
	if !o.Has("input") {
		f.Wrong = append(f.Wrong, "Missing required parameter: 'input'.")
	}
}

// checkAnthropicCount holds that a token count has no member that only an answer has.
func (f *Facts) checkAnthropicCount(o testrig.Object) {
	for _, name := range []string{"max_tokens", "metadata", "service_tier", "stop_sequences", "stream", "temperature", "top_k", "top_p"} {
		if o.Has(name) {
			f.Wrong = append(f.Wrong, name+": Extra inputs are not permitted")
		}
	}
}

// checkGeminiCount holds that a token count of a whole request has nothing beside it, and that it names its model.
func (f *Facts) checkGeminiCount(o testrig.Object) {
	if o.Has("contents") {
		f.Wrong = append(f.Wrong, "contents and generateContentRequest are mutually exclusive")
	}
	if !strings.HasPrefix(o.Obj("generateContentRequest").Str("model"), "models/") {
		f.Wrong = append(f.Wrong, "generateContentRequest.model is not specified")
	}
}

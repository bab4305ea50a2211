package testrig

import (
	"fmt"
	"slices"
	"strings"
)

// The usage that every reply reports.
const (
	InputTokens  = 9
	OutputTokens = 20
)

// Words returns the words of a target's reply. They begin with the target's role, so that
// a client's text shows which target responded and whether two replies were mixed.
func Words(role string) []string {
	words := strings.SplitAfter(role+" says that the river rises in the hills and reaches the sea after nine days.", " ")
	return append(words, " Grüße 🌊", " \"quoted\"\n", " finish_reason: stop [DONE]") // text that looks like wire format
}

// Text returns the complete text of a target's reply.
func Text(role string) string { return strings.Join(Words(role), "") }

// Reply is a response as the vendor of a dialect sends it: reasoning, text, tool calls.
type Reply struct {
	Dialect Dialect
	Model   string     // "" means "up"
	Thought []string   // reasoning, one event for each element in a stream
	Words   []string   // the text, likewise
	Calls   []ToolCall // their arguments likewise
	Usage   bool       // a Chat stream reports usage

	// Tokens. In includes Cached, and Out includes Reasoning; all 0 means InputTokens and
	// OutputTokens.
	In, Cached, Out, Reasoning int
}

// ToolCall is a tool call of a reply.
type ToolCall struct {
	ID, Name  string
	Args      []string // JSON in pieces, or the text that a custom tool takes
	Namespace string   // of the tool
	Custom    bool     // a custom tool, which only OpenAI's dialects have
	Search    bool     // a search for tools that the client runs, which only Responses has; a function elsewhere
}

// FlatName returns the tool's name for dialects without namespaces.
func (c ToolCall) FlatName() string { return FlatName(c.Namespace, c.Name) }

// FlatName joins a namespace and the name of a tool.
func FlatName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "__" + name
}

// Arguments returns the arguments in one piece.
func (c ToolCall) Arguments() string { return strings.Join(c.Args, "") }

// Seal returns the text with which the vendor seals its reasoning. Chat has none.
func (d Dialect) Seal() string {
	return map[Dialect]string{Responses: "ZW5jcnlwdGVk", Messages: "c2lnbmF0dXJl", Gemini: "c2lnLWNhbGw="}[d]
}

// Stream is a reply as server-sent events.
type Stream struct {
	Head  []string // the events before the first word
	Words []string // one event for each word
	Tail  []string // the events after the last word
}

// All returns all events in order.
func (s Stream) All() []string { return slices.Concat(s.Head, s.Words, s.Tail) }

// FinishOffset returns the offset in a role's stream at which the event with the finish
// reason ends, without its blank line. A stream truncated before it is incomplete.
func FinishOffset(d Dialect, role string) int {
	s := Reply{Dialect: d, Words: Words(role)}.Stream()
	last := map[Dialect]int{Responses: 3, Messages: 1}[d]
	return len(strings.Join(s.Head, "")+strings.Join(s.Words, "")+strings.Join(s.Tail[:last+1], "")) - len("\n\n")
}

func (r Reply) withDefaults() Reply {
	if r.Model == "" {
		r.Model = "up"
	}
	if r.In+r.Out == 0 {
		r.In, r.Out = InputTokens, OutputTokens
	}
	return r
}

// Text returns the text in one piece.
func (r Reply) Text() string { return strings.Join(r.Words, "") }

// Finish returns the finish reason in the words of the dialect.
func (r Reply) Finish() string {
	if len(r.Calls) > 0 {
		return map[Dialect]string{Chat: "tool_calls", Responses: "completed", Messages: "tool_use", Gemini: "STOP"}[r.Dialect]
	}
	return map[Dialect]string{Chat: "stop", Responses: "completed", Messages: "end_turn", Gemini: "STOP"}[r.Dialect]
}

func data(format string, args ...any) string { return "data: " + fmt.Sprintf(format, args...) + "\n\n" }

// named frames an event whose data repeats its name as type.
func named(name, format string, args ...any) string {
	return "event: " + name + "\n" + data(`{"type":%q`+format+`}`, append([]any{name}, args...)...)
}

// Stream returns the reply as events.
func (r Reply) Stream() Stream {
	r = r.withDefaults()
	switch r.Dialect {
	case Chat:
		return r.chatStream()
	case Responses:
		return r.responsesStream()
	case Messages:
		return r.messagesStream()
	}
	return r.geminiStream()
}

// Body returns the reply as one JSON body.
func (r Reply) Body() string {
	r = r.withDefaults()
	switch r.Dialect {
	case Chat:
		return r.chatBody()
	case Responses:
		return r.response("completed", r.items())
	case Messages:
		return r.messagesBody()
	}
	var parts []string
	if len(r.Thought) > 0 {
		parts = append(parts, thoughtPart(strings.Join(r.Thought, "")))
	}
	if len(r.Words) > 0 {
		parts = append(parts, textPart(r.Text()))
	}
	return r.candidate(append(parts, r.callParts()...), true)
}

func (r Reply) chatStream() Stream {
	chunk := func(delta, finish string) string {
		return data(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1790000000,"model":%q,"choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`, r.Model, delta, finish)
	}
	s := Stream{Head: []string{chunk(`{"role":"assistant","content":""}`, "null")}}
	for _, t := range r.Thought {
		s.Head = append(s.Head, chunk(`{"reasoning_content":`+Quote(t)+`}`, "null"))
	}
	for _, w := range r.Words {
		s.Words = append(s.Words, chunk(`{"content":`+Quote(w)+`}`, "null"))
	}
	for i, c := range r.Calls {
		kind, args := c.chatKind()
		s.Tail = append(s.Tail, chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":%q,%[3]q:{"name":%q,%q:""}}]}`, i, c.ID, kind, c.FlatName(), args), "null"))
		for _, a := range c.Args {
			s.Tail = append(s.Tail, chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,%q:{%q:%s}}]}`, i, kind, args, Quote(a)), "null"))
		}
	}
	s.Tail = append(s.Tail, chunk("{}", Quote(r.Finish())))
	if r.Usage {
		s.Tail = append(s.Tail, data(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1790000000,"model":%q,"choices":[],%s}`, r.Model, r.chatUsage()))
	}
	s.Tail = append(s.Tail, data("[DONE]"))
	return s
}

// chatKind returns the type of a call in Chat and the name of its arguments.
func (c ToolCall) chatKind() (kind, args string) {
	if c.Custom {
		return "custom", "input"
	}
	return "function", "arguments"
}

func (r Reply) chatUsage() string {
	return fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}`,
		r.In, r.Out, r.In+r.Out, r.Cached, r.Reasoning)
}

func (r Reply) chatBody() string {
	message := `"role":"assistant","content":null,"refusal":null`
	if len(r.Words) > 0 {
		message = `"role":"assistant","content":` + Quote(r.Text()) + `,"refusal":null`
	}
	if len(r.Thought) > 0 {
		message += `,"reasoning_content":` + Quote(strings.Join(r.Thought, ""))
	}
	var calls []string
	for _, c := range r.Calls {
		kind, args := c.chatKind()
		calls = append(calls, fmt.Sprintf(`{"id":%q,"type":%q,%[2]q:{"name":%q,%q:%s}}`, c.ID, kind, c.FlatName(), args, Quote(c.Arguments())))
	}
	if calls != nil {
		message += `,"tool_calls":[` + strings.Join(calls, ",") + `]`
	}
	return fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","created":1790000000,"model":%q,"choices":[{"index":0,"message":{%s},"logprobs":null,"finish_reason":%q}],%s}`,
		r.Model, message, r.Finish(), r.chatUsage())
}

func (r Reply) responsesStream() Stream {
	n := -1
	event := func(name, format string, args ...any) string {
		n++
		return named(name, fmt.Sprintf(`,"sequence_number":%d,`, n)+format, args...)
	}
	s := Stream{Head: []string{
		event("response.created", `"response":%s`, r.response("in_progress", nil)),
		event("response.in_progress", `"response":%s`, r.response("in_progress", nil)),
	}}
	index := 0
	if len(r.Thought) > 0 {
		const at, part = `"item_id":"rs_1","output_index":0,"summary_index":0,`, `"part":{"type":"summary_text","text":%s}`
		text := Quote(strings.Join(r.Thought, ""))
		s.Head = append(s.Head, event("response.output_item.added", `"output_index":0,"item":%s`, reasoningItem("")),
			event("response.reasoning_summary_part.added", at+part, `""`))
		for _, t := range r.Thought {
			s.Head = append(s.Head, event("response.reasoning_summary_text.delta", at+`"delta":%s`, Quote(t)))
		}
		s.Head = append(s.Head, event("response.reasoning_summary_text.done", at+`"text":%s`, text), event("response.reasoning_summary_part.done", at+part, text),
			event("response.output_item.done", `"output_index":0,"item":%s`, reasoningItem(r.summary())))
		index++
	}
	if len(r.Words) > 0 {
		at, text := fmt.Sprintf(`"item_id":"msg_1","output_index":%d,"content_index":0,`, index), r.Text()
		s.Head = append(s.Head, event("response.output_item.added", `"output_index":%d,"item":%s`, index, item("in_progress", "")),
			event("response.content_part.added", at+`"part":%s`, part("")))
		for _, w := range r.Words {
			s.Words = append(s.Words, event("response.output_text.delta", at+`"delta":%s,"logprobs":[]`, Quote(w)))
		}
		s.Tail = []string{
			event("response.output_text.done", at+`"text":%s,"logprobs":[]`, Quote(text)),
			event("response.content_part.done", at+`"part":%s`, part(text)),
			event("response.output_item.done", `"output_index":%d,"item":%s`, index, item("completed", part(text))),
		}
		index++
	}
	for i, c := range r.Calls {
		at := fmt.Sprintf(`"item_id":%q,"output_index":%d,`, c.itemID(i), index)
		s.Tail = append(s.Tail, event("response.output_item.added", `"output_index":%d,"item":%s`, index, c.item(i, "in_progress", "")))
		name, member := "response.function_call_arguments", "arguments"
		if c.Custom {
			name, member = "response.custom_tool_call_input", "input"
		}
		if !c.Search {
			for _, a := range c.Args {
				s.Tail = append(s.Tail, event(name+".delta", at+`"delta":%s`, Quote(a)))
			}
			s.Tail = append(s.Tail, event(name+".done", at+`"name":%q,%q:%s`, c.Name, member, Quote(c.Arguments())))
		}
		s.Tail = append(s.Tail, event("response.output_item.done", `"output_index":%d,"item":%s`, index, c.item(i, "completed", c.Arguments())))
		index++
	}
	s.Tail = append(s.Tail, event("response.completed", `"response":%s`, r.response("completed", r.items())))
	return s
}

// items returns the output items of a response.
func (r Reply) items() (all []string) {
	if len(r.Thought) > 0 {
		all = append(all, reasoningItem(r.summary()))
	}
	if len(r.Words) > 0 {
		all = append(all, item("completed", part(r.Text())))
	}
	for i, c := range r.Calls {
		all = append(all, c.item(i, "completed", c.Arguments()))
	}
	return all
}

func (r Reply) summary() string {
	return `{"type":"summary_text","text":` + Quote(strings.Join(r.Thought, "")) + `}`
}

func reasoningItem(summary string) string {
	return fmt.Sprintf(`{"id":"rs_1","type":"reasoning","summary":[%s],"encrypted_content":%q}`, summary, Responses.Seal())
}

func part(text string) string {
	return `{"type":"output_text","text":` + Quote(text) + `,"annotations":[],"logprobs":[]}`
}

func item(status, content string) string {
	return fmt.Sprintf(`{"type":"message","id":"msg_1","status":%q,"role":"assistant","content":[%s]}`, status, content)
}

func (c ToolCall) itemID(i int) string {
	switch {
	case c.Search:
		return fmt.Sprintf("tsc_%d", i+1)
	case c.Custom:
		return fmt.Sprintf("ctc_%d", i+1)
	}
	return fmt.Sprintf("fc_%d", i+1)
}

// item returns the i-th call as an output item.
func (c ToolCall) item(i int, status, args string) string {
	if c.Search {
		if args == "" {
			args = "{}"
		}
		return fmt.Sprintf(`{"type":"tool_search_call","id":%q,"status":%q,"call_id":%q,"execution":"client","arguments":%s}`, c.itemID(i), status, c.ID, args)
	}
	kind, member := "function_call", "arguments"
	if c.Custom {
		kind, member = "custom_tool_call", "input"
	}
	namespace := ""
	if c.Namespace != "" {
		namespace = `,"namespace":` + Quote(c.Namespace)
	}
	return fmt.Sprintf(`{"type":%q,"id":%q,"status":%q,"call_id":%q,"name":%q,%q:%s%s}`, kind, c.itemID(i), status, c.ID, c.Name, member, Quote(args), namespace)
}

func (r Reply) response(status string, output []string) string {
	usage := "null"
	if status == "completed" {
		usage = fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":0},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}`,
			r.In, r.Cached, r.Out, r.Reasoning, r.In+r.Out)
	}
	return fmt.Sprintf(`{"id":"resp_1","object":"response","created_at":1790000000,"model":%q,"status":%q,"output":[%s],"error":null,"incomplete_details":null,"instructions":null,"metadata":{},`+
		`"parallel_tool_calls":true,"temperature":1,"tool_choice":"auto","tools":[],"top_p":1,"text":{"format":{"type":"text"}},"usage":%s}`, r.Model, status, strings.Join(output, ","), usage)
}

func (r Reply) messagesStream() Stream {
	blocks := 0
	block := func(start string, deltas ...string) []string {
		events := []string{named("content_block_start", `,"index":%d,"content_block":%s`, blocks, start)}
		for _, d := range deltas {
			events = append(events, named("content_block_delta", `,"index":%d,"delta":%s`, blocks, d))
		}
		return events
	}
	stop := func() string {
		blocks++
		return named("content_block_stop", `,"index":%d`, blocks-1)
	}
	delta := func(kind, member, text string) string {
		return fmt.Sprintf(`{"type":%q,%q:%s}`, kind, member, Quote(text))
	}
	s := Stream{Head: []string{named("message_start", `,"message":%s`, r.message("", "null", 1))}}
	if len(r.Thought) > 0 {
		var deltas []string
		for _, t := range r.Thought {
			deltas = append(deltas, delta("thinking_delta", "thinking", t))
		}
		s.Head = append(s.Head, block(`{"type":"thinking","thinking":"","signature":""}`, append(deltas, delta("signature_delta", "signature", Messages.Seal()))...)...)
		s.Head = append(s.Head, stop())
	}
	if len(r.Words) > 0 {
		s.Head = append(s.Head, block(`{"type":"text","text":""}`)...)
		for _, w := range r.Words {
			s.Words = append(s.Words, named("content_block_delta", `,"index":%d,"delta":%s`, blocks, delta("text_delta", "text", w)))
		}
		s.Tail = append(s.Tail, stop())
	}
	s.Head = append(s.Head, named("ping", ""))
	for _, c := range r.Calls {
		var deltas []string
		for _, a := range c.Args {
			deltas = append(deltas, delta("input_json_delta", "partial_json", a))
		}
		s.Tail = append(s.Tail, block(fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":{}}`, c.ID, c.FlatName()), deltas...)...)
		s.Tail = append(s.Tail, stop())
	}
	s.Tail = append(s.Tail, named("message_delta", `,"delta":{"stop_reason":%q,"stop_sequence":null},"usage":%s`, r.Finish(), r.messagesUsage(r.Out)), named("message_stop", ""))
	return s
}

func (r Reply) messagesBody() string {
	var content []string
	if len(r.Thought) > 0 {
		content = append(content, fmt.Sprintf(`{"type":"thinking","thinking":%s,"signature":%q}`, Quote(strings.Join(r.Thought, "")), Messages.Seal()))
	}
	if len(r.Words) > 0 {
		content = append(content, `{"type":"text","text":`+Quote(r.Text())+`,"citations":null}`)
	}
	for _, c := range r.Calls {
		content = append(content, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, c.ID, c.FlatName(), c.Arguments()))
	}
	return r.message(strings.Join(content, ","), Quote(r.Finish()), r.Out)
}

func (r Reply) messagesUsage(out int) string {
	return fmt.Sprintf(`{"input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":0,"output_tokens":%d,"output_tokens_details":{"thinking_tokens":%d},"service_tier":"standard"}`,
		r.In-r.Cached, r.Cached, out, min(r.Reasoning, out))
}

func (r Reply) message(content, stop string, out int) string {
	return fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":%q,"content":[%s],"stop_reason":%s,"stop_sequence":null,"usage":%s}`,
		r.Model, content, stop, r.messagesUsage(out))
}

func (r Reply) geminiStream() (s Stream) {
	event := func(part string) string { return data("%s", r.candidate([]string{part}, false)) }
	for _, t := range r.Thought {
		s.Head = append(s.Head, event(thoughtPart(t)))
	}
	for _, w := range r.Words {
		s.Words = append(s.Words, event(textPart(w)))
	}
	for _, call := range r.callParts() {
		s.Tail = append(s.Tail, event(call))
	}
	s.Tail = append(s.Tail, data("%s", r.candidate([]string{textPart("")}, true)))
	return s
}

func textPart(text string) string { return `{"text":` + Quote(text) + `}` }

func thoughtPart(text string) string { return `{"text":` + Quote(text) + `,"thought":true}` }

// callParts returns the calls as parts. The first carries the seal of the turn.
func (r Reply) callParts() (all []string) {
	seal := fmt.Sprintf(`,"thoughtSignature":%q`, Gemini.Seal())
	for _, c := range r.Calls {
		all = append(all, fmt.Sprintf(`{"functionCall":{"name":%q,"args":%s}%s}`, c.FlatName(), c.Arguments(), seal))
		seal = ""
	}
	return all
}

// candidate returns a body or an event. Gemini repeats the usage in every event.
func (r Reply) candidate(parts []string, last bool) string {
	finish := ""
	if last {
		finish = `,"finishReason":"STOP"`
	}
	return fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":[%s]}%s,"index":0}],"usageMetadata":{"promptTokenCount":%d,"cachedContentTokenCount":%d,"candidatesTokenCount":%d,`+
		`"thoughtsTokenCount":%d,"totalTokenCount":%d},"modelVersion":%q,"responseId":"r-1"}`, strings.Join(parts, ","), finish, r.In, r.Cached, r.Out-r.Reasoning, r.Reasoning, r.In+r.Out, r.Model)
}

// errorNames are the vendors' names for an error of a status.
type errorNames struct{ openAI, anthropic, gemini, code string }

func namesOf(status int) errorNames {
	switch status {
	case 400:
		return errorNames{"invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT", "null"}
	case 404:
		return errorNames{"invalid_request_error", "not_found_error", "NOT_FOUND", "null"}
	case 401:
		return errorNames{"invalid_request_error", "authentication_error", "UNAUTHENTICATED", `"invalid_api_key"`}
	case 413:
		return errorNames{"invalid_request_error", "request_too_large", "INVALID_ARGUMENT", "null"}
	case 429:
		return errorNames{"rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED", `"rate_limit_exceeded"`}
	case 503, 529:
		return errorNames{"server_error", "overloaded_error", "UNAVAILABLE", `"overloaded"`}
	}
	return errorNames{"server_error", "api_error", "INTERNAL", "null"}
}

// ErrorBody returns an error as the vendor sends it.
func (d Dialect) ErrorBody(status int, message string) string {
	n := namesOf(status)
	switch d {
	case Messages:
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%s},"request_id":"req_1"}`, n.anthropic, Quote(message))
	case Gemini:
		return fmt.Sprintf(`{"error":{"code":%d,"message":%s,"status":%q}}`, status, Quote(message), n.gemini)
	}
	return fmt.Sprintf(`{"error":{"message":%s,"type":%q,"param":null,"code":%s}}`, Quote(message), n.openAI, n.code)
}

// ErrorEvent returns an error inside a stream.
func (d Dialect) ErrorEvent(status int, message string) string {
	switch d {
	case Responses:
		return named("error", `,"code":%q,"message":%s,"param":null,"sequence_number":3`, namesOf(status).openAI, Quote(message))
	case Messages:
		return "event: error\n" + data("%s", d.ErrorBody(status, message))
	}
	return data("%s", d.ErrorBody(status, message))
}

// IdleEvent returns the event or comment with which servers of the dialect keep a stream
// alive.
func (d Dialect) IdleEvent() string {
	if d == Messages {
		return named("ping", "")
	}
	return ": processing\n\n"
}

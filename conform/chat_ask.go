package conform

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// chat is OpenAI Chat Completions.
type chat struct{}

func (chat) credential(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }

// canAsk: a tool message holds text only and no mark of failure; reasoning has no
// place in the history.
func (chat) canAsk(a Ask) Ask {
	a.Turns = mapTurns(a.Turns, func(_ string, p *Piece) bool {
		p.Sig, p.Images, p.Failed = "", nil, false
		return p.Kind != kindThink
	})
	return a
}

func (v chat) writeAsk(a Ask, model string, stream bool) []byte {
	o := object{"model": model, "messages": v.messages(a.Turns)}
	if stream {
		o["stream"], o["stream_options"] = true, object{"include_usage": true}
	}
	number(o, "max_completion_tokens", a.Max)
	number(o, "temperature", a.Temperature)
	number(o, "top_p", a.TopP)
	if len(a.Stop) > 0 {
		o["stop"] = a.Stop
	}
	if a.Reasoning != "" {
		o["reasoning_effort"] = a.Reasoning
	}
	if a.Format != nil {
		o["response_format"] = object{"type": "json_schema", "json_schema": object{"name": a.Format.Name, "schema": raw(a.Format.Schema), "strict": true}}
	}
	tools := make([]any, 0, len(a.Tools))
	for _, t := range a.Tools {
		f := object{"name": t.Name, "description": t.About}
		if t.Schema != "" {
			f["parameters"] = raw(t.Schema)
		}
		tools = append(tools, object{"type": "function", "function": f})
	}
	if len(tools) > 0 {
		o["tools"] = tools
	}
	switch a.Choice {
	case "":
	case "auto", "none", "required":
		o["tool_choice"] = a.Choice
	default:
		o["tool_choice"] = object{"type": "function", "function": object{"name": a.Choice}}
	}
	if a.Serial {
		o["parallel_tool_calls"] = false
	}
	return encode(o)
}

func number(o object, name, text string) {
	if text != "" {
		o[name] = raw(text)
	}
}

func (v chat) messages(turns []Turn) []any {
	list := []any{}
	for _, t := range turns {
		if t.echo != nil {
			list = append(list, t.echo)
			continue
		}
		pieces := named(t.Pieces, Chat)
		switch t.Role {
		case "tool":
			for _, p := range pieces {
				list = append(list, object{"role": "tool", "tool_call_id": p.ID, "content": p.Text})
			}
		case "assistant":
			list = append(list, v.assistant(pieces))
		default:
			list = append(list, object{"role": t.Role, "content": v.content(pieces)})
		}
	}
	return list
}

func (chat) content(pieces []Piece) any {
	if len(pieces) == 1 && pieces[0].Kind == kindText {
		return pieces[0].Text
	}
	var parts []any
	for _, p := range pieces {
		if p.Kind == kindImage {
			parts = append(parts, object{"type": "image_url", "image_url": object{"url": "data:" + p.Image.Type + ";base64," + p.Image.Data}})
		} else {
			parts = append(parts, object{"type": "text", "text": p.Text})
		}
	}
	return parts
}

func (chat) assistant(pieces []Piece) object {
	m := object{"role": "assistant", "content": orNull(joined(pieces, kindText))}
	if s := joined(pieces, kindRefusal); s != "" {
		m["refusal"] = s
	}
	made := ofKind(pieces, kindCall)
	calls := make([]any, 0, len(made))
	for _, p := range made {
		calls = append(calls, object{"id": p.ID, "type": "function", "function": object{"name": p.Name, "arguments": p.Args}})
	}
	if len(calls) > 0 {
		m["tool_calls"] = calls
	}
	return m
}

var chatFields = strings.Fields(`model messages stream stream_options max_completion_tokens max_tokens n temperature top_p
	frequency_penalty presence_penalty logit_bias logprobs top_logprobs seed stop tools tool_choice parallel_tool_calls functions
	function_call response_format reasoning_effort verbosity modalities audio prediction web_search_options service_tier store
	metadata moderation prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier user`)

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// complaints collects what a strict reader does not accept.
type complaints []string

func (c *complaints) say(format string, args ...any) { *c = append(*c, fmt.Sprintf(format, args...)) }

// unknown complains of members that the vendor does not know.
func (c *complaints) unknown(o value, known []string, at string) {
	for _, name := range o.names() {
		if !slices.Contains(known, name) {
			c.say("unknown member %s%s", at, name)
		}
	}
}

func (v chat) readAsk(body []byte, h http.Header, _ string) heard {
	var out heard
	var bad complaints
	o, err := parse(body)
	if err != nil || !o.isObject() {
		return heard{problems: []string{fmt.Sprintf("the body is no JSON object: %v", err)}}
	}
	bad.unknown(o, chatFields, "")
	if !strings.HasPrefix(h.Get("Authorization"), "Bearer ") {
		bad.say("no bearer credential")
	}
	out.model, out.stream = o.at("model").str(), o.at("stream").yes()
	out.want = wishes{usage: o.at("stream_options", "include_usage").yes()}
	if o.at("stream_options").here && !out.stream {
		bad.say("stream_options without stream")
	}
	out.Max, out.Temperature, out.TopP = o.at("max_completion_tokens").number(), o.at("temperature").number(), o.at("top_p").number()
	if out.Max == "" {
		out.Max = o.at("max_tokens").number()
	} else if o.at("max_tokens").here {
		bad.say("max_tokens and max_completion_tokens together")
	}
	out.Stop = oneOrMany(o.at("stop"))
	if len(out.Stop) > 4 {
		bad.say("%d stop sequences, at most 4", len(out.Stop))
	}
	out.Reasoning = o.at("reasoning_effort").str()
	if f := o.at("response_format"); f.at("type").str() == "json_schema" {
		out.Format = &Format{f.at("json_schema", "name").str(), f.at("json_schema", "schema").text()}
		if !toolName.MatchString(out.Format.Name) {
			bad.say("response_format.json_schema.name is %q", out.Format.Name)
		}
	}
	v.readTools(o, &out, &bad)
	v.readMessages(o.at("messages"), &out, &bad)
	out.problems = bad
	return out
}

func oneOrMany(x value) []string {
	if x.isString() {
		return []string{x.str()}
	}
	var out []string
	for _, s := range x.list() {
		out = append(out, s.str())
	}
	return out
}

func (chat) readTools(o value, out *heard, bad *complaints) {
	if o.at("tools").isList() && len(o.at("tools").list()) == 0 {
		bad.say("tools is an empty list")
	}
	for _, t := range o.at("tools").list() {
		f := t.at("function")
		if t.at("type").str() != "function" || !f.isObject() {
			bad.say("a tool of type %q", t.at("type").str())
		}
		tool := Tool{f.at("name").str(), f.at("description").str(), ""}
		if f.at("parameters").isObject() {
			tool.Schema = f.at("parameters").text()
		}
		checkTool(tool, toolName, bad)
		out.Tools = append(out.Tools, tool)
	}
	out.Serial = o.at("parallel_tool_calls").here && !o.at("parallel_tool_calls").yes()
	c := o.at("tool_choice")
	out.Choice = c.str()
	if c.isObject() {
		out.Choice = c.at("function", "name").str()
		if out.Choice == "" && c.at("type").str() != "allowed_tools" {
			bad.say("tool_choice names no function: %s", c.text())
		}
	}
	if len(out.Tools) == 0 && (c.here || o.at("parallel_tool_calls").here) {
		bad.say("tool_choice or parallel_tool_calls without tools")
	}
}

// checkTool refuses what all vendors refuse.
func checkTool(t Tool, name *regexp.Regexp, bad *complaints) {
	if !name.MatchString(t.Name) {
		bad.say("a tool is named %q", t.Name)
	}
	if t.Schema == "" {
		return
	}
	s, _ := parse([]byte(t.Schema))
	if kind := s.at("type"); kind.here && !strings.EqualFold(kind.str(), "object") {
		bad.say("the parameters of %s are of type %s", t.Name, kind.text())
	}
}

func (v chat) readMessages(messages value, out *heard, bad *complaints) {
	if len(messages.list()) == 0 {
		bad.say("no messages")
	}
	var open []string // calls that wait for their result
	for i, m := range messages.list() {
		role := m.at("role").str()
		if len(open) > 0 && role != "tool" {
			bad.say("messages[%d]: %s before the results of %v", i, role, open)
			open = nil
		}
		switch role {
		case "system", "developer":
			v.readContent(out, "system", m.at("content"), bad)
		case "user":
			v.readContent(out, "user", m.at("content"), bad)
		case "assistant":
			open = v.readAssistant(out, m, bad)
		case "tool":
			id := m.at("tool_call_id").str()
			at := slices.Index(open, id)
			if at < 0 {
				bad.say("messages[%d]: tool_call_id %q answers no call before it", i, id)
			} else {
				open = slices.Delete(open, at, at+1)
			}
			out.Turns = append(out.Turns, Turn{Role: "tool", Pieces: []Piece{{Kind: kindResult, ID: id, Text: v.toolText(m.at("content"), bad)}}})
		default:
			bad.say("messages[%d]: role %q", i, role)
		}
	}
	if len(open) > 0 {
		bad.say("no results for %v", open)
	}
}

func (chat) toolText(content value, bad *complaints) string {
	if content.isString() {
		return content.str()
	}
	s := ""
	for _, p := range content.list() {
		if p.at("type").str() != "text" {
			bad.say("a tool message holds a part of type %q", p.at("type").str())
		}
		s += p.at("text").str()
	}
	if !content.isList() {
		bad.say("a tool message without content")
	}
	return s
}

func (chat) readContent(out *heard, role string, content value, bad *complaints) {
	t := Turn{Role: role}
	if content.isString() {
		t.Pieces = []Piece{{Kind: kindText, Text: content.str()}}
	} else if len(content.list()) == 0 {
		bad.say("a message of the %s without content", role)
	}
	for _, p := range content.list() {
		switch kind := p.at("type").str(); {
		case kind == "text":
			t.Pieces = append(t.Pieces, Piece{Kind: kindText, Text: p.at("text").str()})
		case kind == "image_url" && role == "user":
			t.Pieces = append(t.Pieces, Piece{Kind: kindImage, Image: dataURL(p.at("image_url", "url").str())})
		case kind == "file" && role == "user":
			t.Pieces = append(t.Pieces, Piece{Kind: "document", Text: p.at("file", "file_data").str()})
		default:
			bad.say("a part of type %q in a message of the %s", kind, role)
		}
	}
	out.Turns = append(out.Turns, t)
}

// dataURL reads an image by value; one by address keeps the address.
func dataURL(s string) Image {
	head, data, ok := strings.Cut(s, ";base64,")
	if !ok {
		return Image{Data: s}
	}
	return Image{strings.TrimPrefix(head, "data:"), data}
}

func (chat) readAssistant(out *heard, m value, bad *complaints) (open []string) {
	t := Turn{Role: "assistant"}
	t.Pieces = appendText(t.Pieces, kindThink, m.at("reasoning_content").str())
	content := m.at("content")
	t.Pieces = appendText(t.Pieces, kindText, content.str())
	for _, p := range content.list() {
		t.Pieces = appendText(t.Pieces, kindText, p.at("text").str())
		t.Pieces = appendText(t.Pieces, kindRefusal, p.at("refusal").str())
	}
	t.Pieces = appendText(t.Pieces, kindRefusal, m.at("refusal").str())
	if c := m.at("tool_calls"); c.isList() && len(c.list()) == 0 {
		bad.say("tool_calls is an empty list")
	}
	for _, c := range m.at("tool_calls").list() {
		id, f := c.at("id").str(), c.at("function")
		if id == "" || c.at("type").str() != "function" || !f.at("arguments").isString() {
			bad.say("a tool call that is not one: %s", c.text())
		}
		if slices.Contains(open, id) {
			bad.say("two calls have the id %q", id)
		}
		open = append(open, id)
		t.Pieces = append(t.Pieces, Piece{Kind: kindCall, ID: id, Name: f.at("name").str(), Args: f.at("arguments").str()})
	}
	if len(t.Pieces) == 0 && !content.isString() {
		bad.say("a message of the assistant without content")
	}
	out.Turns = append(out.Turns, t)
	return open
}

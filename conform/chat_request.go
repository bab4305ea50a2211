package conform

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// chat is OpenAI Chat Completions.
type chat struct{ limits }

func (chat) credential(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }

func (v chat) writeRequest(a Request, model string, stream bool) []byte {
	o := object{"model": model, "messages": v.messages(a.Turns)}
	if stream {
		o["stream"], o["stream_options"] = true, object{"include_usage": true}
	}
	number(o, "max_completion_tokens", a.Max)
	number(o, "temperature", a.Temperature)
	number(o, "top_p", a.TopP)
	setIf(len(a.Stop) > 0, o, "stop", a.Stop)
	number(o, "seed", a.Seed)
	number(o, "frequency_penalty", a.Frequency)
	number(o, "presence_penalty", a.Presence)
	number(o, "n", a.Choices)
	setIf(a.User != "", o, "user", a.User)
	setIf(a.Reasoning != "", o, "reasoning_effort", a.Reasoning)
	if a.Format != nil {
		o["response_format"] = object{"type": "json_schema", "json_schema": object{"name": a.Format.Name, "schema": raw(a.Format.Schema), "strict": a.Format.Strict}}
	}
	tools := make([]any, 0, len(a.Tools))
	for _, t := range a.Tools {
		f := object{"name": t.Name, "description": t.About}
		setIf(t.Schema != "", f, "parameters", raw(t.Schema))
		setIf(t.Strict, f, "strict", true)
		tools = append(tools, object{"type": "function", "function": f})
	}
	setIf(len(tools) > 0, o, "tools", tools)
	setOpenAIChoice(o, a, object{"type": "function", "function": object{"name": a.Choice}})
	return encode(o)
}

// setOpenAIChoice sets the tool choice of OpenAI's dialects. If it is the name of a tool,
// its member is named.
func setOpenAIChoice(o object, a Request, named object) {
	switch a.Choice {
	case "":
	case "auto", "none", "required":
		o["tool_choice"] = a.Choice
	default:
		o["tool_choice"] = named
	}
	setIf(a.Serial, o, "parallel_tool_calls", false)
}

// setIf sets a member if set holds.
func setIf(set bool, o object, name string, v any) {
	if set {
		o[name] = v
	}
}

// number sets a member to a number, unless its text is empty.
func number(o object, name, text string) { setIf(text != "", o, name, raw(text)) }

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
				m := object{"role": "tool", "tool_call_id": p.ID, "content": p.Text}
				if p.split {
					m["content"] = v.content([]Piece{{Text: p.texts()[0]}, {Text: p.texts()[len(p.texts())-1]}}[:len(p.texts())])
				}
				list = append(list, m)
			}
		case "assistant":
			list = append(list, v.assistant(pieces))
		default:
			list = append(list, object{"role": openAIRole(t), "content": v.content(pieces)})
		}
	}
	return list
}

// openAIRole returns the role of a turn in OpenAI's dialects.
func openAIRole(t Turn) string {
	if t.Role == "system" && t.Developer {
		return "developer"
	}
	return t.Role
}

// url returns the URL of an image or a document.
func (i Image) url() string {
	if i.Type == "" {
		return i.Data
	}
	return "data:" + i.Type + ";base64," + i.Data
}

func (chat) content(pieces []Piece) any {
	if len(pieces) == 1 && pieces[0].Kind == kindText {
		return pieces[0].Text
	}
	var parts []any
	for _, p := range pieces {
		switch p.Kind {
		case kindImage:
			parts = append(parts, object{"type": "image_url", "image_url": object{"url": p.Image.url()}})
		case kindDocument:
			parts = append(parts, object{"type": "file", "file": object{"filename": p.Name, "file_data": p.Image.url()}})
		default:
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
		kind := p.callKind()
		calls = append(calls, object{"id": p.ID, "type": kind, kind: object{"name": p.Name, chatArgs(kind): p.Args}})
	}
	setIf(len(calls) > 0, m, "tool_calls", calls)
	return m
}

var chatFields = strings.Fields(`model messages stream stream_options max_completion_tokens max_tokens n temperature top_p
	frequency_penalty presence_penalty logit_bias logprobs top_logprobs seed stop tools tool_choice parallel_tool_calls functions
	function_call response_format reasoning_effort verbosity modalities audio prediction web_search_options service_tier store
	metadata moderation prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier user`)

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (v chat) readRequest(body []byte, h http.Header, _ string) Received {
	out, o := openRequest(body, chatFields, strings.HasPrefix(h.Get("Authorization"), "Bearer "))
	bad := &out.Problems
	out.Model, out.Stream = o.at("model").str(), o.at("stream").yes()
	out.options = options{usage: o.at("stream_options", "include_usage").yes()}
	bad.addIf(out.Model == "", "no model")
	bad.addIf(o.at("stream_options").here && !out.Stream, "stream_options without stream")
	out.Max, out.Temperature, out.TopP = o.at("max_completion_tokens").number(), o.at("temperature").number(), o.at("top_p").number()
	if out.Max == "" {
		out.Max = o.at("max_tokens").number()
	} else if o.at("max_tokens").here {
		bad.add("max_tokens and max_completion_tokens together")
	}
	out.Stop = oneOrMany(o.at("stop"))
	bad.addIf(len(out.Stop) > 4, "%d stop sequences, at most 4", len(out.Stop))
	out.Seed, out.Frequency, out.Presence = o.at("seed").number(), o.at("frequency_penalty").number(), o.at("presence_penalty").number()
	if out.Choices = o.at("n").number(); out.Choices == "1" {
		out.Choices = ""
	}
	out.User = o.at("user").str()
	bad.addIf(len(out.User) > 64, "user has %d characters, at most 64", len(out.User))
	out.Reasoning = o.at("reasoning_effort").str()
	if f := o.at("response_format"); f.at("type").str() == "json_schema" {
		out.Format = &Format{f.at("json_schema", "name").str(), f.at("json_schema", "schema").String(), f.at("json_schema", "strict").yes()}
		bad.addIf(out.Format.Strict && !isClosed(out.Format.Schema), "the strict response format has optional properties or open objects")
		bad.addIf(!toolName.MatchString(out.Format.Name), "response_format.json_schema.name is %q", out.Format.Name)
	}
	v.readTools(o, out, bad)
	v.readMessages(o.at("messages"), out, bad)
	return *out
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

func (chat) readTools(o value, out *Received, bad *problemList) {
	bad.addIf(o.at("tools").isList() && len(o.at("tools").list()) == 0, "tools is an empty list")
	readOpenAITools(o.at("tools"), "", out, memberOfType)
	readOpenAIChoice(o, out, memberOfType)
	c := o.at("tool_choice")
	bad.addIf(c.isObject() && out.Choice == "" && c.at("type").str() != "allowed_tools", "tool_choice names no function: %s", c)
	bad.addIf(len(out.Tools) == 0 && (c.here || o.at("parallel_tool_calls").here), "tool_choice or parallel_tool_calls without tools")
}

// memberOfType returns the member of a tool, a choice or a call that is named for its type.
// Chat has their members there.
func memberOfType(o value) value { return o.at(o.at("type").str()) }

// readOpenAITools reads functions and custom tools of OpenAI's dialects. Space is the
// namespace that they are in.
func readOpenAITools(tools value, space string, out *Received, members func(value) value) {
	for _, t := range tools.list() {
		kind, f := t.at("type").str(), members(t)
		out.Problems.addIf(kind != "function" && kind != "custom" || !f.isObject(), "a tool of type %q", kind)
		tool := Tool{Name: f.at("name").str(), About: f.at("description").str(), Strict: f.at("strict").yes(), Custom: kind == "custom", Space: space}
		if f.at("parameters").isObject() {
			tool.Schema = f.at("parameters").String()
		}
		checkTool(tool, toolName, out.Tools, &out.Problems)
		out.Problems.addIf(tool.Strict && !isClosed(tool.Schema), "the strict tool %s has optional properties or open objects", tool.Name)
		out.Tools = append(out.Tools, tool)
	}
}

// readOpenAIChoice reads the tool choice of OpenAI's dialects.
func readOpenAIChoice(o value, out *Received, members func(value) value) {
	out.Serial = o.at("parallel_tool_calls").here && !o.at("parallel_tool_calls").yes()
	c := o.at("tool_choice")
	out.Choice = c.str()
	if c.isObject() {
		out.Choice = members(c).at("name").str()
	}
}

// checkTool adds problems for tools that all vendors reject. before has the earlier tools.
func checkTool(t Tool, name *regexp.Regexp, before []Tool, bad *problemList) {
	bad.addIf(!name.MatchString(t.Name), "a tool is named %q", t.Name)
	bad.addIf(slices.ContainsFunc(before, func(b Tool) bool { return b.Name == t.Name && b.Space == t.Space }), "two tools are named %q", t.Name)
	if t.Schema == "" {
		return
	}
	s, _ := parse([]byte(t.Schema))
	if kind := s.at("type"); kind.here && !strings.EqualFold(kind.str(), "object") {
		bad.add("the parameters of %s are of type %s", t.Name, kind.String())
	}
}

func (v chat) readMessages(messages value, out *Received, bad *problemList) {
	bad.addIf(len(messages.list()) == 0, "no messages")
	var open []string // calls without a result so far
	for i, m := range messages.list() {
		role := m.at("role").str()
		if len(open) > 0 && role != "tool" {
			bad.add("messages[%d]: %s before the results of %v", i, role, open)
			open = nil
		}
		switch role {
		case "system", "developer":
			v.readContent(out, "system", m.at("content"), bad)
			out.Turns[len(out.Turns)-1].Developer = role == "developer"
		case "user":
			v.readContent(out, "user", m.at("content"), bad)
		case "assistant":
			open = v.readAssistant(out, m, bad)
		case "tool":
			id := m.at("tool_call_id").str()
			at := slices.Index(open, id)
			if at < 0 {
				bad.add("messages[%d]: tool_call_id %q answers no call before it", i, id)
			} else {
				open = slices.Delete(open, at, at+1)
			}
			out.Turns = append(out.Turns, Turn{Role: "tool", Pieces: []Piece{{Kind: kindResult, ID: id, Text: v.toolText(m.at("content"), bad)}}})
		default:
			bad.add("messages[%d]: role %q", i, role)
		}
	}
	bad.addIf(len(open) > 0, "no results for %v", open)
}

func (chat) toolText(content value, bad *problemList) string {
	if content.isString() {
		return content.str()
	}
	s := ""
	for _, p := range content.list() {
		bad.addIf(p.at("type").str() != "text", "a tool message holds a part of type %q", p.at("type").str())
		s += p.at("text").str()
	}
	bad.addIf(!content.isList(), "a tool message without content")
	return s
}

func (chat) readContent(out *Received, role string, content value, bad *problemList) {
	t := Turn{Role: role}
	if content.isString() {
		t.Pieces = []Piece{{Kind: kindText, Text: content.str()}}
	} else if len(content.list()) == 0 {
		bad.add("a message of the %s without content", role)
	}
	for _, p := range content.list() {
		switch kind := p.at("type").str(); {
		case kind == "text":
			t.Pieces = append(t.Pieces, Piece{Kind: kindText, Text: p.at("text").str()})
		case kind == "image_url" && role == "user":
			t.Pieces = append(t.Pieces, Piece{Kind: kindImage, Image: dataURL(p.at("image_url", "url").str())})
		case kind == "file" && role == "user":
			t.Pieces = append(t.Pieces, Piece{Kind: kindDocument, Name: p.at("file", "filename").str(), Image: dataURL(p.at("file", "file_data").str())})
		default:
			bad.add("a part of type %q in a message of the %s", kind, role)
		}
	}
	out.Turns = append(out.Turns, t)
}

// dataURL reads an image from a data URL. For any other URL, Data is the URL.
func dataURL(s string) Image {
	head, data, ok := strings.Cut(s, ";base64,")
	if !ok {
		return Image{Data: s}
	}
	return Image{strings.TrimPrefix(head, "data:"), data}
}

func (chat) readAssistant(out *Received, m value, bad *problemList) (open []string) {
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
		bad.add("tool_calls is an empty list")
	}
	for _, c := range m.at("tool_calls").list() {
		id, kind, f := c.at("id").str(), c.at("type").str(), memberOfType(c)
		args := f.at(chatArgs(kind))
		bad.addIf(id == "" || kind != "function" && kind != "custom" || !args.isString(), "a tool call that is not one: %s", c)
		bad.addIf(slices.Contains(open, id), "two calls have the id %q", id)
		open = append(open, id)
		t.Pieces = append(t.Pieces, Piece{Kind: kindCall, ID: id, Name: f.at("name").str(), Args: args.str(), Custom: kind == "custom"})
	}
	bad.addIf(len(t.Pieces) == 0 && !content.isString(), "a message of the assistant without content")
	out.Turns = append(out.Turns, t)
	return open
}

package conform

import (
	"net/http"
	"slices"
	"strings"
)

// responses is OpenAI Responses.
type responses struct{ limits }

func (responses) credential(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }

func (v responses) writeRequest(a Request, model string, stream bool) []byte {
	o := object{"model": model, "store": false}
	setIf(stream, o, "stream", true)
	turns := a.Turns
	if len(turns) > 0 && turns[0].Role == "system" && !turns[0].Developer {
		o["instructions"] = joined(turns[0].Pieces, kindText)
		turns = turns[1:]
	}
	o["input"] = v.items(turns)
	number(o, "max_output_tokens", a.Max)
	number(o, "temperature", a.Temperature)
	number(o, "top_p", a.TopP)
	setIf(a.User != "", o, "user", a.User)
	if a.Reasoning != "" {
		o["reasoning"] = object{"effort": a.Reasoning, "summary": "auto"}
		o["include"] = []string{"reasoning.encrypted_content"}
	}
	if a.Format != nil {
		o["text"] = object{"format": object{"type": "json_schema", "name": a.Format.Name, "schema": raw(a.Format.Schema), "strict": a.Format.Strict}}
	}
	var tools []any
	for _, t := range a.Tools {
		tool := object{"type": "function", "name": t.Name, "description": t.About, "parameters": nil, "strict": t.Strict}
		setIf(t.Schema != "", tool, "parameters", raw(t.Schema))
		tools = append(tools, tool)
	}
	if tools != nil {
		o["tools"] = tools
	}
	setOpenAIChoice(o, a, object{"type": "function", "name": a.Choice})
	return encode(o)
}

func (v responses) items(turns []Turn) []any {
	list := []any{}
	for _, t := range turns {
		if l, ok := t.echo.([]any); ok {
			list = append(list, l...)
			continue
		}
		var parts []any
		flush := func() {
			if parts != nil {
				list = append(list, object{"type": "message", "role": openAIRole(t), "content": parts})
			}
			parts = nil
		}
		for _, p := range named(t.Pieces, Responses) {
			if item := v.item(p); item != nil {
				flush()
				list = append(list, item)
			} else {
				parts = append(parts, v.part(t.Role, p))
			}
		}
		flush()
	}
	return list
}

// item returns a piece as an item, or nil if it is a part of a message.
func (v responses) item(p Piece) any {
	switch p.Kind {
	case kindThink:
		o := object{"type": "reasoning", "id": "rs_Cn1", "summary": summary(p)}
		setIf(p.Sig != "", o, "encrypted_content", p.Sig)
		return o
	case kindCall:
		return object{"type": "function_call", "call_id": p.ID, "name": p.Name, "arguments": p.Args}
	case kindResult:
		o := object{"type": "function_call_output", "call_id": p.ID, "output": p.Text}
		if len(p.Images) > 0 || p.split {
			var parts []any
			for _, s := range p.texts() {
				parts = append(parts, object{"type": "input_text", "text": s})
			}
			for _, i := range p.Images {
				parts = append(parts, v.image(i))
			}
			o["output"] = parts
		}
		return o
	}
	return nil
}

// summary returns the summary of reasoning, which is empty if there is only a seal.
func summary(p Piece) []any {
	if p.Redacted {
		return []any{}
	}
	return []any{object{"type": "summary_text", "text": p.Text}}
}

func (responses) image(i Image) object {
	return object{"type": "input_image", "detail": "auto", "image_url": i.url()}
}

func (v responses) part(role string, p Piece) any {
	switch {
	case p.Kind == kindImage:
		return v.image(p.Image)
	case p.Kind == kindDocument && p.Image.Type == "":
		return object{"type": "input_file", "file_url": p.Image.Data}
	case p.Kind == kindDocument:
		return object{"type": "input_file", "filename": p.Name, "file_data": p.Image.url()}
	case p.Kind == kindRefusal:
		return object{"type": "refusal", "refusal": p.Text}
	case role == "assistant":
		return object{"type": "output_text", "text": p.Text, "annotations": []any{}}
	default:
		return object{"type": "input_text", "text": p.Text}
	}
}

var responsesFields = strings.Fields(`model input instructions previous_response_id conversation store background stream stream_options
	max_output_tokens max_tool_calls temperature top_p top_logprobs reasoning text tools tool_choice parallel_tool_calls include
	truncation context_management prompt metadata user safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options
	moderation service_tier access_programs image client_metadata`)

// responsesCounted are the members of a request to count tokens.
var responsesCounted = strings.Fields(`model input instructions tools tool_choice parallel_tool_calls personality reasoning text
	truncation previous_response_id conversation`)

func (v responses) readRequest(body []byte, h http.Header, path string) Received {
	known, counts := responsesFields, strings.HasSuffix(path, "/input_tokens")
	if counts {
		known = responsesCounted
	}
	out, o := openRequest(body, known, strings.HasPrefix(h.Get("Authorization"), "Bearer "))
	bad := &out.Problems
	out.Counts = counts
	out.Model, out.Stream = o.at("model").str(), o.at("stream").yes()
	bad.addIf(out.Model == "", "no model")
	out.options.sealed = slices.Contains(oneOrMany(o.at("include")), "reasoning.encrypted_content")
	out.Max, out.Temperature, out.TopP = o.at("max_output_tokens").number(), o.at("temperature").number(), o.at("top_p").number()
	if n, ok := o.at("max_output_tokens").count(); ok && n < 16 {
		bad.add("max_output_tokens %d, at least 16", n)
	}
	out.User = o.at("user").str()
	bad.addIf(len(out.User) > 64, "user has %d characters, at most 64", len(out.User))
	out.Reasoning = o.at("reasoning", "effort").str()
	if f := o.at("text", "format"); f.at("type").str() == "json_schema" {
		out.Format = &Format{f.at("name").str(), f.at("schema").String(), f.at("strict").yes()}
		bad.addIf(out.Format.Strict && !isClosed(out.Format.Schema), "the strict format has optional properties or open objects")
		bad.addIf(!toolName.MatchString(out.Format.Name), "text.format.name is %q", out.Format.Name)
	}
	v.readTools(o.at("tools"), "", out)
	readOpenAIChoice(o, out, func(c value) value { return c })
	if s := o.at("instructions").str(); s != "" {
		out.Turns = append(out.Turns, Turn{Role: "system", Pieces: []Piece{{Kind: kindText, Text: s}}})
	}
	if in := o.at("input"); in.isString() {
		out.Turns = append(out.Turns, Turn{Role: "user", Pieces: []Piece{{Kind: kindText, Text: in.str()}}})
	} else {
		v.readItems(in.list(), out, bad)
	}
	return *out
}

func (v responses) readItems(list []value, out *Received, bad *problemList) {
	bad.addIf(len(list) == 0, "no input")
	var open, used []string
	referred := false // items that are not here may have calls
	for i, item := range list {
		kind := item.at("type").str()
		if kind == "" && item.at("role").here {
			kind = "message"
		}
		add := func(role string, p Piece) {
			if n := len(out.Turns); n == 0 || out.Turns[n-1].Role != role {
				out.Turns = append(out.Turns, Turn{Role: role})
			}
			t := &out.Turns[len(out.Turns)-1]
			t.Pieces = append(t.Pieces, p)
		}
		switch kind {
		case "message":
			v.readMessage(item, out, bad)
		case "reasoning":
			v.readReasoning(item, add, bad)
		case "item_reference":
			bad.addIf(item.at("id").str() == "", "input[%d]: an item_reference without id", i)
			referred = true
		case "additional_tools":
			v.readTools(item.at("tools"), "", out)
		case "function_call", "custom_tool_call", searchCall:
			p := v.readCall(item, bad)
			bad.addIf(slices.Contains(used, p.ID), "input[%d]: two calls have the call_id %q", i, p.ID)
			open, used = append(open, p.ID), append(used, p.ID)
			add("assistant", p)
		case "function_call_output", "custom_tool_call_output", searchOutput:
			id := item.at("call_id").str()
			at := slices.Index(open, id)
			if at < 0 && !referred {
				bad.add("input[%d]: call_id %q answers no call before it", i, id)
			} else if at >= 0 {
				open = slices.Delete(open, at, at+1)
			}
			if kind == searchOutput {
				v.readTools(item.at("tools"), "", out)
			}
			add("tool", v.readOutput(item, bad))
		default:
			bad.addIf(!slices.Contains(responsesServerItems, kind), "input[%d]: an item of type %q", i, kind)
		}
	}
	bad.addIf(len(open) > 0, "no function_call_output for %v", open)
}

func (responses) readReasoning(item value, add func(string, Piece), bad *problemList) {
	bad.addIf(!item.at("summary").isList(), "a reasoning item without summary (RSP-15)")
	p := Piece{Kind: kindThink, Sig: item.at("encrypted_content").str()}
	bad.addIf(item.at("encrypted_content").isString() && p.Sig == "", "a reasoning item with empty encrypted_content")
	for _, s := range item.at("summary").list() {
		p.Text += s.at("text").str()
	}
	if id := item.at("id").str(); id != "" && !strings.HasPrefix(id, "rs") {
		bad.add("a reasoning item with the id %q", id)
	}
	add("assistant", p)
}

func (v responses) readMessage(item value, out *Received, bad *problemList) {
	role := item.at("role").str()
	developer := role == "developer"
	if developer {
		role = "system"
	}
	bad.addIf(role != "system" && role != "user" && role != "assistant", "a message of role %q", role)
	if id := item.at("id").str(); id != "" && !strings.HasPrefix(id, "msg") {
		bad.add("a message with the id %q", id)
	}
	t := Turn{Role: role, Developer: developer}
	if n := len(out.Turns); n > 0 && role == "assistant" && out.Turns[n-1].Role == role {
		t, out.Turns = out.Turns[n-1], out.Turns[:n-1]
	}
	if c := item.at("content"); c.isString() {
		t.Pieces = append(t.Pieces, Piece{Kind: kindText, Text: c.str()})
	}
	for _, p := range item.at("content").list() {
		switch kind := p.at("type").str(); {
		case kind == "input_text" && role != "assistant", kind == "output_text" && role == "assistant":
			t.Pieces = append(t.Pieces, Piece{Kind: kindText, Text: p.at("text").str()})
		case kind == "input_image" && role == "user":
			t.Pieces = append(t.Pieces, Piece{Kind: kindImage, Image: dataURL(p.at("image_url").str())})
		case kind == "refusal" && role == "assistant":
			t.Pieces = append(t.Pieces, Piece{Kind: kindRefusal, Text: p.at("refusal").str()})
		case kind == "input_file" && role == "user":
			t.Pieces = append(t.Pieces, Piece{Kind: kindDocument, Name: p.at("filename").str(), Image: dataURL(p.at("file_data").str() + p.at("file_url").str())})
		default:
			bad.add("a part of type %q in a message of the %s (RSP-29)", kind, role)
		}
	}
	out.Turns = append(out.Turns, t)
}

func (v responses) readOutput(item value, bad *problemList) Piece {
	p := Piece{Kind: kindResult, ID: item.at("call_id").str(), Text: item.at("output").str()}
	for _, part := range item.at("output").list() {
		switch kind := part.at("type").str(); kind {
		case "input_text":
			p.Text += part.at("text").str()
		case "input_image":
			p.Images = append(p.Images, dataURL(part.at("image_url").str()))
		case "input_file":
		default:
			bad.add("a function_call_output holds a part of type %q", kind)
		}
	}
	if item.at("type").str() == searchOutput {
		p.Text = item.at("tools").String()
	}
	bad.addIf(!item.at("output").here && !item.at("tools").isList(), "a function_call_output without output")
	return p
}

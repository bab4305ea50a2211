package conform

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// anthropic is Anthropic Messages.
type anthropic struct{ limits }

func (anthropic) credential(h http.Header, key string) {
	h.Set("X-Api-Key", key)
	h.Set("Anthropic-Version", "2023-06-01")
}

func (v anthropic) writeRequest(a Request, model string, stream bool) []byte {
	o := object{"model": model}
	if a.Max == "" {
		a.Max = "1024"
	}
	number(o, "max_tokens", a.Max)
	number(o, "temperature", a.Temperature)
	number(o, "top_p", a.TopP)
	number(o, "top_k", a.TopK)
	setIf(a.User != "", o, "metadata", object{"user_id": a.User})
	setIf(stream, o, "stream", true)
	turns := a.Turns
	var system []any
	for len(turns) > 0 && turns[0].Role == "system" {
		b := object{"type": "text", "text": joined(turns[0].Pieces, kindText)}
		mark(b, slices.ContainsFunc(turns[0].Pieces, func(p Piece) bool { return p.Cache }))
		system = append(system, b)
		turns = turns[1:]
	}
	if system != nil {
		o["system"] = system
	}
	o["messages"] = v.messages(turns)
	setIf(len(a.Stop) > 0, o, "stop_sequences", a.Stop)
	config := object{}
	if a.Reasoning != "" {
		o["thinking"] = object{"type": "adaptive"}
		config["effort"] = a.Reasoning
	}
	if a.Format != nil {
		config["format"] = object{"type": "json_schema", "schema": raw(a.Format.Schema)}
	}
	setIf(len(config) > 0, o, "output_config", config)
	v.tools(o, a)
	return encode(o)
}

func (anthropic) tools(o object, a Request) {
	tools := make([]any, 0, len(a.Tools))
	for _, t := range a.Tools {
		schema := t.Schema
		if schema == "" {
			schema = `{"type":"object","properties":{}}`
		}
		tool := object{"name": t.Name, "description": t.About, "input_schema": raw(schema)}
		setIf(t.Strict, tool, "strict", true)
		mark(tool, t.Cache)
		tools = append(tools, tool)
	}
	setIf(len(tools) > 0, o, "tools", tools)
	choice := object{}
	switch a.Choice {
	case "":
		setIf(a.Serial, choice, "type", "auto")
	case "required":
		choice["type"] = "any"
	case "auto", "none":
		choice["type"] = a.Choice
	default:
		choice["type"], choice["name"] = "tool", a.Choice
	}
	setIf(a.Serial, choice, "disable_parallel_tool_use", true)
	setIf(len(choice) > 0, o, "tool_choice", choice)
}

func (v anthropic) messages(turns []Turn) []any {
	list := []any{}
	for i := 0; i < len(turns); i++ {
		t := turns[i]
		if t.echo != nil {
			list = append(list, object{"role": "assistant", "content": t.echo})
			continue
		}
		var blocks []any
		for _, p := range named(t.Pieces, Anthropic) {
			blocks = append(blocks, v.block(p))
		}
		role := t.Role
		if role == "tool" {
			role = "user"
			// The next text of the user belongs to the same message.
			if i+1 < len(turns) && turns[i+1].Role == "user" {
				i++
				for _, p := range turns[i].Pieces {
					blocks = append(blocks, v.block(p))
				}
			}
		}
		list = append(list, object{"role": role, "content": blocks})
	}
	return list
}

// mark sets a cache mark.
func mark(o object, set bool) { setIf(set, o, "cache_control", object{"type": "ephemeral"}) }

func (v anthropic) block(p Piece) object {
	o := v.bare(p)
	mark(o, p.Cache)
	return o
}

// bare returns the block without a cache mark.
func (v anthropic) bare(p Piece) object {
	switch p.Kind {
	case kindThink:
		if p.Redacted {
			return object{"type": "redacted_thinking", "data": p.Sig}
		}
		return object{"type": "thinking", "thinking": p.Text, "signature": p.Sig}
	case kindImage:
		return v.image(p.Image)
	case kindDocument:
		return v.document(p)
	case kindCall:
		return object{"type": "tool_use", "id": p.ID, "name": p.Name, "input": raw(p.Args)}
	case kindResult:
		o := object{"type": "tool_result", "tool_use_id": p.ID, "content": p.Text}
		if len(p.Images) > 0 || p.split {
			var parts []any
			for _, s := range p.texts() {
				parts = append(parts, object{"type": "text", "text": s})
			}
			for _, i := range p.Images {
				parts = append(parts, v.image(i))
			}
			o["content"] = parts
		}
		if p.Missing {
			delete(o, "content")
		}
		setIf(p.Failed, o, "is_error", true)
		return o
	default:
		return object{"type": "text", "text": p.Text}
	}
}

func (anthropic) document(p Piece) object {
	source := object{"type": "base64", "media_type": p.Image.Type, "data": p.Image.Data}
	switch p.Image.Type {
	case "":
		source = object{"type": "url", "url": p.Image.Data}
	case textFile:
		text, err := base64.StdEncoding.DecodeString(p.Image.Data)
		if err == nil {
			source = object{"type": "text", "media_type": textFile, "data": string(text)}
		}
	}
	o := object{"type": "document", "source": source}
	setIf(p.Name != "", o, "title", p.Name)
	return o
}

// textFile is the type of a document of plain text.
const textFile = "text/plain"

func (anthropic) readDocument(b value) Piece {
	s := b.at("source")
	p := Piece{Kind: kindDocument, Name: b.at("title").str(), Image: Image{s.at("media_type").str(), s.at("data").str()}}
	switch s.at("type").str() {
	case "url":
		p.Image = Image{Data: s.at("url").str()}
	case "text":
		p.Image.Data = base64.StdEncoding.EncodeToString([]byte(p.Image.Data))
	}
	return p
}

func (anthropic) image(i Image) object {
	if i.Type == "" {
		return object{"type": "image", "source": object{"type": "url", "url": i.Data}}
	}
	return object{"type": "image", "source": object{"type": "base64", "media_type": i.Type, "data": i.Data}}
}

var anthropicFields = strings.Fields(`model max_tokens messages system stream temperature top_p top_k stop_sequences thinking
	output_config tools tool_choice metadata service_tier speed cache_control container diagnostics inference_geo`)

// anthropicBetaFields are members by the beta feature that has them.
var anthropicBetaFields = map[string]string{"context-management-": "context_management", "mcp-client-": "mcp_servers", "structured-outputs-": "output_format"}

// anthropicUncounted are the members that a request to count tokens does not have.
var anthropicUncounted = strings.Fields("max_tokens metadata service_tier stop_sequences stream temperature top_k top_p")

var anthropicCallFields = strings.Fields("type id name input cache_control caller")

var (
	anthropicToolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
	anthropicID       = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
)

// members returns the members that a request may have.
func (anthropic) members(betas string, counts bool) []string {
	known := slices.Clone(anthropicFields)
	for beta, name := range anthropicBetaFields {
		if strings.Contains(betas, beta) {
			known = append(known, name)
		}
	}
	return slices.DeleteFunc(known, func(name string) bool { return counts && slices.Contains(anthropicUncounted, name) })
}

func (v anthropic) readRequest(body []byte, h http.Header, path string) Received {
	counts := strings.HasSuffix(path, "/count_tokens")
	out, o := openRequest(body, v.members(strings.Join(h.Values("Anthropic-Beta"), ","), counts), h.Get("X-Api-Key")+h.Get("Authorization") != "")
	bad := &out.Problems
	out.Counts = counts
	bad.addIf(h.Get("Anthropic-Version") == "", "no anthropic-version")
	out.Model, out.Stream = o.at("model").str(), o.at("stream").yes()
	out.Max, out.Temperature, out.TopP = o.at("max_tokens").number(), o.at("temperature").number(), o.at("top_p").number()
	bad.addIf(out.Max == "" && !counts, "no max_tokens")
	bad.addIf(out.Model == "", "no model")
	out.TopK, out.User = o.at("top_k").number(), o.at("metadata", "user_id").str()
	bad.addIf(strings.Count(string(body), `"cache_control":{`) > 4, "more than 4 cache marks")
	out.Stop = oneOrMany(o.at("stop_sequences"))
	for _, s := range out.Stop {
		bad.addIf(strings.TrimSpace(s) == "", "a stop sequence of whitespace only")
	}
	v.readThinking(o, out, bad)
	f := o.at("output_config", "format")
	if !f.here {
		f = o.at("output_format")
	}
	if f.isObject() {
		out.Format = &Format{Schema: f.at("schema").String(), Strict: true}
		bad.addIf(!isShut(out.Format.Schema), "the format has open objects or keywords that the vendor rejects")
	}
	v.readTools(o, out, bad)
	if s := o.at("system"); s.isString() {
		out.Turns = append(out.Turns, Turn{Role: "system", Pieces: []Piece{{Kind: kindText, Text: s.str()}}})
	}
	for _, b := range o.at("system").list() {
		bad.addIf(b.at("type").str() != "text" || b.at("text").str() == "", "a system block that is no text: %s", b)
		out.Turns = append(out.Turns, Turn{Role: "system", Pieces: []Piece{{Kind: kindText, Text: b.at("text").str(), Cache: b.at("cache_control").isObject()}}})
	}
	v.readMessages(o.at("messages").list(), out, bad)
	return *out
}

func (anthropic) readThinking(o value, out *Received, bad *problemList) {
	kind := o.at("thinking", "type").str()
	if kind == "enabled" || kind == "adaptive" {
		out.Reasoning = kind
		bad.addIf(out.Temperature != "" && out.Temperature != "1" && out.Temperature != "1.0", "temperature %s with thinking", out.Temperature)
	}
	if e := o.at("output_config", "effort").str(); e != "" && kind != "disabled" {
		out.Reasoning = e
	}
	if kind == "enabled" {
		budget, ok := o.at("thinking", "budget_tokens").count()
		most, _ := o.at("max_tokens").count()
		bad.addIf(!ok || budget < 1024 || budget >= most, "thinking budget %s with max_tokens %d", o.at("thinking", "budget_tokens"), most)
	}
	var t float64
	if _, err := fmt.Sscan(out.Temperature, &t); err == nil && (t < 0 || t > 1) {
		bad.add("temperature %s", out.Temperature)
	}
}

func (anthropic) readTools(o value, out *Received, bad *problemList) {
	for _, t := range o.at("tools").list() {
		if kind := t.at("type").str(); kind != "" && kind != "custom" {
			continue // a server tool
		}
		s := t.at("input_schema")
		bad.addIf(s.at("type").str() != "object", "input_schema of %s is not of type object", t.at("name"))
		tool := Tool{Name: t.at("name").str(), About: t.at("description").str(), Schema: s.String(), Strict: t.at("strict").yes(), Cache: t.at("cache_control").isObject()}
		checkTool(tool, anthropicToolName, out.Tools, bad)
		out.Tools = append(out.Tools, tool)
	}
	c := o.at("tool_choice")
	out.Serial = c.at("disable_parallel_tool_use").yes()
	switch kind := c.at("type").str(); kind {
	case "any":
		out.Choice = "required"
	case "tool":
		out.Choice = c.at("name").str()
	default:
		out.Choice = kind
		bad.addIf(c.isString(), "tool_choice is a string")
	}
	thinks := o.at("thinking", "type").str()
	switch forced := c.at("type").str() == "any" || c.at("type").str() == "tool"; {
	case c.here && len(out.Tools) == 0:
		bad.add("tool_choice without tools")
	case forced && (thinks == "enabled" || thinks == "adaptive"):
		bad.add("a call is forced while thinking is on (CRQ-23)")
	}
}

func (v anthropic) readMessages(list []value, out *Received, bad *problemList) {
	bad.addIf(len(list) == 0 || list[0].at("role").str() != "user", "the first message is not the user's")
	var used []string
	open := []string{}
	before := ""
	for i, m := range list {
		role := m.at("role").str()
		bad.addIf(role == "system" && before != "user" || role != "system" && role != "user" && role != "assistant", "messages[%d]: role %q after %q", i, role, before)
		before = role
		pieces := v.blocks(m.at("content"), role, bad)
		results := 0
		var tool, rest []Piece
		for _, p := range pieces {
			if p.Kind != kindResult {
				rest = append(rest, p)
				continue
			}
			bad.addIf(len(rest) > 0, "messages[%d]: a tool_result after other content", i)
			results++
			at := slices.Index(open, p.ID)
			if at < 0 {
				bad.add("messages[%d]: tool_use_id %q answers no call of the message before", i, p.ID)
			} else {
				open = slices.Delete(open, at, at+1)
			}
			tool = append(tool, p)
		}
		bad.addIf(len(open) > 0, "messages[%d]: no tool_result for %v", i, open)
		open = open[:0]
		for _, p := range ofKind(rest, kindCall) {
			bad.addIf(slices.Contains(used, p.ID), "two calls have the id %q", p.ID)
			open, used = append(open, p.ID), append(used, p.ID)
		}
		if tool != nil {
			out.Turns = append(out.Turns, Turn{Role: "tool", Pieces: tool})
		}
		if rest != nil {
			out.Turns = append(out.Turns, Turn{Role: role, Pieces: rest})
		}
	}
	bad.addIf(len(open) > 0, "no tool_result for %v", open)
	bad.addIf(len(used) > 0 && len(out.Tools) == 0, "calls in the history without tools (CRQ-31)")
}

func (v anthropic) blocks(content value, role string, bad *problemList) []Piece {
	if content.isString() {
		bad.addIf(strings.TrimSpace(content.str()) == "", "an empty message of the %s", role)
		return []Piece{{Kind: kindText, Text: content.str()}}
	}
	bad.addIf(len(content.list()) == 0, "a message of the %s without content", role)
	var out []Piece
	for _, b := range content.list() {
		kind := b.at("type").str()
		switch {
		case kind == "text":
			bad.addIf(strings.TrimSpace(b.at("text").str()) == "", "an empty text block")
			out = append(out, Piece{Kind: kindText, Text: b.at("text").str()})
		case kind == "thinking" && role == "assistant":
			bad.addIf(b.at("signature").str() == "", "a thinking block without signature")
			out = append(out, Piece{Kind: kindThink, Text: b.at("thinking").str(), Sig: b.at("signature").str()})
		case kind == "redacted_thinking" && role == "assistant":
			out = append(out, Piece{Kind: kindThink, Sig: b.at("data").str(), Redacted: true})
		case kind == "tool_use" && role == "assistant":
			bad.unknown(b, anthropicCallFields, "tool_use.")
			out = append(out, v.readCall(b, bad))
			bad.addIf(!anthropicToolName.MatchString(out[len(out)-1].Name), "a tool_use that is not one: %s", b)
		case kind == "image" && role == "user":
			out = append(out, Piece{Kind: kindImage, Image: v.readImage(b, bad)})
		case kind == "tool_result" && role == "user":
			out = append(out, v.readResult(b, bad))
		case kind == "document" && role == "user":
			out = append(out, v.readDocument(b))
		case slices.Contains(anthropicServerBlocks, kind) && role == "assistant":
			continue
		default:
			bad.add("a block of type %q in a message of the %s", kind, role)
			continue
		}
		out[len(out)-1].Cache = b.at("cache_control").isObject()
	}
	return out
}

// readCall reads a call of any name: a response has the names of its client.
func (anthropic) readCall(b value, bad *problemList) Piece {
	p := Piece{Kind: kindCall, ID: b.at("id").str(), Name: b.at("name").str(), Args: b.at("input").String()}
	bad.addIf(!anthropicID.MatchString(p.ID) || p.Name == "" || !b.at("input").isObject(), "a tool_use that is not one: %s", b)
	return p
}

func (anthropic) readImage(b value, bad *problemList) Image {
	s := b.at("source")
	i := Image{s.at("media_type").str(), s.at("data").str()}
	if s.at("type").str() == "url" {
		return Image{Data: s.at("url").str()}
	}
	if !slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, i.Type) || strings.Contains(i.Data, ",") {
		bad.add("an image of type %q", i.Type)
	}
	return i
}

func (v anthropic) readResult(b value, bad *problemList) Piece {
	p := Piece{Kind: kindResult, ID: b.at("tool_use_id").str(), Failed: b.at("is_error").yes(), Text: b.at("content").str(), Missing: !b.at("content").here}
	for _, c := range b.at("content").list() {
		switch kind := c.at("type").str(); kind {
		case "text":
			p.Text += c.at("text").str()
		case "image":
			p.Images = append(p.Images, v.readImage(c, bad))
		default:
			bad.add("a tool_result holds a block of type %q", kind)
		}
	}
	return p
}

package conform

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// converse is the Converse API of Amazon Bedrock.
type converse struct{ limits }

func (converse) credential(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }

// The last segments of the paths.
const (
	converseVerb   = "converse"
	converseStream = "converse-stream"
	converseCount  = "count-tokens"
)

func (v converse) writeRequest(a Request, _ string, _ bool) []byte {
	o := object{}
	config := object{}
	number(config, "maxTokens", a.Max)
	number(config, "temperature", a.Temperature)
	number(config, "topP", a.TopP)
	setIf(len(a.Stop) > 0, config, "stopSequences", a.Stop)
	setIf(len(config) > 0, o, "inferenceConfig", config)
	turns := a.Turns
	var system []any
	for len(turns) > 0 && turns[0].Role == "system" {
		for _, p := range turns[0].Pieces {
			system = append(system, object{"text": p.Text})
			system = v.point(system, p.Cache)
		}
		turns = turns[1:]
	}
	if system != nil {
		o["system"] = system
	}
	o["messages"] = v.messages(turns)
	output := object{}
	setIf(a.Reasoning != "", output, "effort", a.Reasoning)
	if f := a.Format; f != nil {
		schema := object{"schema": f.Schema}
		setIf(f.Name != "", schema, "name", f.Name)
		output["textFormat"] = object{"type": "json_schema", "structure": object{"jsonSchema": schema}}
	}
	setIf(len(output) > 0, o, "outputConfig", output)
	v.tools(o, a)
	return encode(o)
}

// point appends a cache point if set holds.
func (converse) point(list []any, set bool) []any {
	if set {
		list = append(list, object{"cachePoint": object{"type": "default"}})
	}
	return list
}

func (v converse) tools(o object, a Request) {
	var tools []any
	for _, t := range a.Tools {
		schema := t.Schema
		if schema == "" {
			schema = `{"type":"object","properties":{}}`
		}
		spec := object{"name": t.Name, "inputSchema": object{"json": raw(schema)}}
		setIf(t.About != "", spec, "description", t.About)
		setIf(t.Strict, spec, "strict", true)
		tools = v.point(append(tools, object{"toolSpec": spec}), t.Cache)
	}
	if tools == nil {
		return
	}
	config := object{"tools": tools}
	switch a.Choice {
	case "", "none":
	case "required":
		config["toolChoice"] = object{"any": object{}}
	case "auto":
		config["toolChoice"] = object{"auto": object{}}
	default:
		config["toolChoice"] = object{"tool": object{"name": a.Choice}}
	}
	o["toolConfig"] = config
}

// messages returns the messages. Roles alternate, so adjacent turns of a role are one message.
func (v converse) messages(turns []Turn) []any {
	list := []any{}
	last := ""
	for _, t := range turns {
		role := t.Role
		if role == "tool" || role == "system" {
			role = "user"
		}
		var blocks []any
		if t.echo != nil {
			blocks, _ = t.echo.([]any)
		} else {
			for _, p := range named(t.Pieces, Converse) {
				blocks = v.point(append(blocks, v.block(p)), p.Cache)
			}
		}
		if n := len(list); role == last {
			m := list[n-1].(object)
			m["content"] = append(slices.Clone(m["content"].([]any)), blocks...)
			continue
		}
		list = append(list, object{"role": role, "content": blocks})
		last = role
	}
	return list
}

func (v converse) block(p Piece) object {
	switch p.Kind {
	case kindThink:
		if p.Redacted {
			return object{"reasoningContent": object{"redactedContent": p.Sig}}
		}
		text := object{"text": p.Text}
		setIf(p.Sig != "", text, "signature", p.Sig)
		return object{"reasoningContent": object{"reasoningText": text}}
	case kindImage:
		return v.image(p.Image)
	case kindDocument:
		return object{"document": object{"format": converseFormats[p.Image.Type], "name": converseDocument(p.Name), "source": object{"bytes": p.Image.Data}}}
	case kindCall:
		return object{"toolUse": object{"toolUseId": p.ID, "name": p.Name, "input": raw(p.Args)}}
	case kindResult:
		content := []any{}
		for _, s := range p.texts() {
			if !p.Missing {
				content = append(content, object{"text": s})
			}
		}
		for _, i := range p.Images {
			content = append(content, v.image(i))
		}
		o := object{"toolUseId": p.ID, "content": content}
		setIf(p.Failed, o, "status", "error")
		return object{"toolResult": o}
	default:
		return object{"text": p.Text}
	}
}

// converseFormats are the formats of documents by type.
var converseFormats = map[string]string{"application/pdf": "pdf", textFile: "txt"}

// converseDocument returns the name of a document in the characters that the vendor accepts.
func converseDocument(name string) string {
	if name == "" {
		return "document"
	}
	return strings.ReplaceAll(name, ".", "-")
}

func (converse) image(i Image) object {
	return object{"image": object{"format": strings.TrimPrefix(i.Type, "image/"), "source": object{"bytes": i.Data}}}
}

var converseFields = strings.Fields(`messages system inferenceConfig toolConfig guardrailConfig additionalModelRequestFields promptVariables
	additionalModelResponseFieldPaths requestMetadata performanceConfig serviceTier outputConfig`)

var (
	converseToolName     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	converseID           = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)
	converseDocumentName = regexp.MustCompile(`^[A-Za-z0-9()\[\]-]+( [A-Za-z0-9()\[\]-]+)*$`)
)

// converseCounted are the members of a request whose tokens are counted.
var converseCounted = strings.Fields("messages system toolConfig additionalModelRequestFields")

// open parses a request and checks its members. A request to count tokens has it inside.
func (converse) open(body []byte, authorized, counts bool) (*Received, value) {
	if !counts {
		return openRequest(body, converseFields, authorized)
	}
	out, o := openRequest(body, []string{"input"}, authorized)
	out.Counts = true
	inner := o.at("input", "converse")
	out.Problems.addIf(len(o.at("input").names()) != 1 || !inner.isObject(), "an input that is no request of Converse")
	out.Problems.unknown(inner, converseCounted, "input.converse.")
	return out, inner
}

func (v converse) readRequest(body []byte, h http.Header, path string) Received {
	rest, verb := strings.TrimPrefix(path, "/model/"), ""
	if i := strings.LastIndexByte(rest, '/'); i >= 0 {
		rest, verb = rest[:i], rest[i+1:]
	}
	out, o := v.open(body, h.Get("Authorization") != "", verb == converseCount)
	bad := &out.Problems
	out.Model, out.Stream = rest, verb == converseStream
	out.options.sealed = true
	checkShape("request", "ConverseRequest", o, bad)
	c := o.at("inferenceConfig")
	out.Max, out.Temperature, out.TopP = c.at("maxTokens").number(), c.at("temperature").number(), c.at("topP").number()
	out.Stop = oneOrMany(c.at("stopSequences"))
	for _, s := range out.Stop {
		bad.addIf(s == "", "an empty stop sequence")
	}
	out.Reasoning = o.at("outputConfig", "effort").str()
	if t := o.at("additionalModelRequestFields", "thinking", "type").str(); out.Reasoning == "" && t != "disabled" {
		out.Reasoning = t
	}
	if f := o.at("outputConfig", "textFormat"); f.here {
		s := f.at("structure", "jsonSchema")
		bad.addIf(f.at("type").str() != "json_schema" || !s.at("schema").isString(), "a text format that is not one: %s", f)
		out.Format = &Format{Schema: s.at("schema").str(), Name: s.at("name").str(), Strict: true}
	}
	v.readTools(o, out, bad)
	for _, b := range o.at("system").list() {
		if v.union(b, bad) == "cachePoint" {
			markLast(out.Turns, bad)
			continue
		}
		bad.addIf(strings.TrimSpace(b.at("text").str()) == "", "a system block that is no text: %s", b)
		out.Turns = append(out.Turns, Turn{Role: "system", Pieces: []Piece{{Kind: kindText, Text: b.at("text").str()}}})
	}
	v.readMessages(o.at("messages").list(), out, bad)
	return *out
}

// union returns the only member's name of a union.
func (converse) union(b value, bad *problemList) string {
	names := b.names()
	if len(names) != 1 {
		bad.add("a union with %d members: %.120s", len(names), b)
		return ""
	}
	return names[0]
}

// markLast marks the last piece of the turns for the cache.
func markLast(turns []Turn, bad *problemList) {
	n := len(turns)
	if n == 0 || len(turns[n-1].Pieces) == 0 {
		bad.add("a cache point after nothing")
		return
	}
	pieces := turns[n-1].Pieces
	pieces[len(pieces)-1].Cache = true
}

func (v converse) readTools(o value, out *Received, bad *problemList) {
	config := o.at("toolConfig")
	bad.addIf(config.here && len(config.at("tools").list()) == 0, "toolConfig without tools")
	for _, t := range config.at("tools").list() {
		if v.union(t, bad) == "cachePoint" {
			if n := len(out.Tools); n > 0 {
				out.Tools[n-1].Cache = true
			}
			continue
		}
		s := t.at("toolSpec")
		schema := s.at("inputSchema", "json")
		bad.addIf(schema.at("type").str() != "object", "inputSchema of %s is not of type object", s.at("name"))
		bad.addIf(s.at("description").here && s.at("description").str() == "", "an empty description of %s", s.at("name"))
		tool := Tool{Name: s.at("name").str(), About: s.at("description").str(), Schema: schema.String(), Strict: s.at("strict").yes()}
		checkTool(tool, converseToolName, out.Tools, bad)
		out.Tools = append(out.Tools, tool)
	}
	if c := config.at("toolChoice"); c.here {
		switch name := v.union(c, bad); name {
		case "any":
			out.Choice = "required"
		case "tool":
			out.Choice = c.at("tool", "name").str()
		case "auto":
			out.Choice = name
		default:
			bad.add("toolChoice %s", c)
		}
	}
}

func (v converse) readMessages(list []value, out *Received, bad *problemList) {
	last, open, used := "assistant", []string{}, []string{}
	for i, m := range list {
		role := m.at("role").str()
		bad.addIf(role != "user" && role != "assistant" && role != "system" || role == last || role == "system" && last != "user", "messages[%d]: role %q after %q", i, role, last)
		last = role
		pieces := v.blocks(m.at("content"), role, bad)
		bad.addIf(len(pieces) == 0, "messages[%d] is empty", i)
		var tool, rest []Piece
		for _, p := range pieces {
			if p.Kind != kindResult {
				rest = append(rest, p)
				continue
			}
			at := slices.Index(open, p.ID)
			if at < 0 {
				bad.add("messages[%d]: toolUseId %q answers no call of the message before", i, p.ID)
			} else {
				open = slices.Delete(open, at, at+1)
			}
			tool = append(tool, p)
		}
		bad.addIf(len(open) > 0, "messages[%d]: no toolResult for %v", i, open)
		open = open[:0]
		for _, p := range ofKind(rest, kindCall) {
			bad.addIf(slices.Contains(open, p.ID), "two calls have the id %q", p.ID)
			open, used = append(open, p.ID), append(used, p.ID)
		}
		if tool != nil {
			out.Turns = append(out.Turns, Turn{Role: "tool", Pieces: tool})
		}
		if rest != nil {
			out.Turns = append(out.Turns, Turn{Role: role, Pieces: rest})
		}
	}
	bad.addIf(len(open) > 0, "no toolResult for %v", open)
	bad.addIf(len(used) > 0 && len(out.Tools) == 0, "calls in the history without toolConfig (CRQ-31)")
}

func (v converse) blocks(content value, role string, bad *problemList) []Piece {
	var out []Piece
	for _, b := range content.list() {
		kind := v.union(b, bad)
		switch {
		case kind == "cachePoint":
			markLast([]Turn{{Pieces: out}}, bad)
		case kind == "text":
			bad.addIf(strings.TrimSpace(b.at("text").str()) == "", "a blank text block")
			out = append(out, Piece{Kind: kindText, Text: b.at("text").str()})
		case kind == "reasoningContent" && role == "assistant":
			out = append(out, v.readReasoning(b.at(kind), bad))
		case kind == "toolUse" && role == "assistant":
			out = append(out, v.readCall(b.at(kind), bad))
			bad.addIf(!converseToolName.MatchString(out[len(out)-1].Name), "a toolUse that is not one: %s", b)
		case kind == "image" && role == "user":
			out = append(out, Piece{Kind: kindImage, Image: v.readImage(b.at(kind), bad)})
		case kind == "document" && role == "user":
			out = append(out, v.readDocument(b.at(kind), bad))
		case kind == "video" && role == "user":
			v.checkVideo(b.at(kind), bad)
		case kind == "toolResult" && role == "user":
			out = append(out, v.readResult(b.at(kind), bad))
		default:
			bad.add("a block %q in a message of the %s", kind, role)
		}
	}
	bad.addIf(slices.ContainsFunc(out, func(p Piece) bool { return p.Kind == kindDocument }) && len(ofKind(out, kindText)) == 0, "a document without a text")
	return out
}

var converseVideos = strings.Fields("mkv mov mp4 webm flv mpeg mpg wmv three_gp")

// checkVideo checks a video. Cases compare it as JSON: no line of a case has one.
func (v converse) checkVideo(b value, bad *problemList) {
	bad.addIf(!slices.Contains(converseVideos, b.at("format").str()), "a video of the format %q", b.at("format").str())
	if v.union(b.at("source"), bad) == "bytes" {
		_, err := base64.StdEncoding.DecodeString(b.at("source").at("bytes").str())
		bad.addIf(err != nil, "a video that is not base64")
	}
}

func (v converse) readReasoning(b value, bad *problemList) Piece {
	if v.union(b, bad) == "redactedContent" {
		_, err := base64.StdEncoding.DecodeString(b.at("redactedContent").str())
		bad.addIf(err != nil, "redactedContent is not base64")
		return Piece{Kind: kindThink, Sig: b.at("redactedContent").str(), Redacted: true}
	}
	t := b.at("reasoningText")
	bad.addIf(!t.at("text").isString(), "reasoningText without text: %s", b)
	return Piece{Kind: kindThink, Text: t.at("text").str(), Sig: t.at("signature").str()}
}

// readCall reads a call of any name: a response has the names of its client.
func (converse) readCall(b value, bad *problemList) Piece {
	p := Piece{Kind: kindCall, ID: b.at("toolUseId").str(), Name: b.at("name").str(), Args: b.at("input").String()}
	bad.addIf(!converseID.MatchString(p.ID) || p.Name == "" || !b.at("input").isObject(), "a toolUse that is not one: %s", b)
	return p
}

func (converse) readImage(b value, bad *problemList) Image {
	format := b.at("format").str()
	bad.addIf(!slices.Contains([]string{"png", "jpeg", "gif", "webp"}, format), "an image of format %q", format)
	data := b.at("source", "bytes").str()
	bad.addIf(data == "" && !b.at("source", "s3Location").here, "an image without data: %.120s", b)
	return Image{"image/" + format, data}
}

func (converse) readDocument(b value, bad *problemList) Piece {
	p := Piece{Kind: kindDocument, Name: b.at("name").str()}
	for kind, format := range converseFormats {
		if format == b.at("format").str() {
			p.Image = Image{kind, b.at("source", "bytes").str()}
		}
	}
	if text := b.at("source", "text"); text.here {
		p.Image = Image{textFile, base64.StdEncoding.EncodeToString([]byte(text.str()))}
	}
	bad.addIf(!converseDocumentName.MatchString(p.Name) || len(p.Name) > 200, "a document with the name %q", p.Name)
	bad.addIf(p.Image.Data == "", "a document without data: %.120s", b)
	return p
}

func (v converse) readResult(b value, bad *problemList) Piece {
	p := Piece{Kind: kindResult, ID: b.at("toolUseId").str(), Failed: b.at("status").str() == "error"}
	bad.addIf(!b.at("content").isList(), "a toolResult without content: %s", b)
	for _, c := range b.at("content").list() {
		switch kind := v.union(c, bad); kind {
		case "text":
			p.Text += c.at("text").str()
		case "json":
			p.Text += c.at("json").String()
		case "image":
			p.Images = append(p.Images, v.readImage(c.at("image"), bad))
		case "document":
			v.readDocument(c.at(kind), bad)
		default:
			bad.add("a toolResult holds a block %q", kind)
		}
	}
	p.Missing = len(b.at("content").list()) == 0
	return p
}

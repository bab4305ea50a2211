package openairesponses

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Members that the decoder adds to an Ext, as notes for this codec's own encoder. All other
// members of an Ext are JSON of the request.
const (
	// instructionsMark marks a turn that was the request's instructions.
	instructionsMark = codec.MarkPrefix + "is_instructions"

	// inputMark marks a turn that was an input of one string.
	inputMark = codec.MarkPrefix + "is_input"

	// itemMark is on the first block of an assistant message. It keeps that
	// message without its content.
	itemMark = codec.MarkPrefix + "item"

	// partMark distinguishes an opaque part of a message from an opaque item.
	partMark = codec.MarkPrefix + "is_part"

	// namespaceMark is on the first tool of a namespace. It keeps the namespace
	// without its tools.
	namespaceMark = codec.MarkPrefix + "of_namespace"

	// additionalMark is on each tool that an item declares. It keeps that item
	// without its tools.
	additionalMark = codec.MarkPrefix + "of_item"

	// wholeMark is on the call of a tool search and on its result. It keeps the
	// original item.
	wholeMark = codec.MarkPrefix + "whole"

	// foundMark marks a tool that a tool search found.
	foundMark = codec.MarkPrefix + "is_found"
)

// These are the prefixes of item ids. OpenAI rejects an id with another one
// (RSP-10).
const (
	messageID  = "msg_"
	thoughtID  = "rs_"
	functionID = "fc_"
	customID   = "ctc_"
	searchID   = "tsc_"
)

// itemType returns an item's type. Messages and references may come without one
// (RSP-27).
func itemType(raw []byte) string {
	var name, kind, role, id string
	depth := 0
	for t := wire.NewTokens(raw); kind == ""; {
		token, quoted := t.Next()
		if token == wire.NoToken {
			break
		}
		switch {
		case token == '{', token == '[':
			depth++
		case token == '}', token == ']':
			depth--
		case depth > 1:
		case token == wire.NameToken:
			name = wire.Unquote(quoted)
		case name == "type":
			kind = wire.Unquote(quoted)
		case name == "role":
			role = wire.Unquote(quoted)
		case name == "id":
			id = wire.Unquote(quoted)
		}
	}
	switch {
	case kind != "":
		return kind
	case role != "":
		return "message"
	case id != "":
		return "item_reference"
	}
	return ""
}

// messageBlocks decodes the parts of a message.
func messageBlocks(it *Item) []llm.Block {
	c := it.Content.Value()
	if c.Text.IsSet() {
		return []llm.Block{&llm.Text{Meta: llm.Meta{Ext: llm.Ext{Protocol: own}}, Text: c.Text.Value()}}
	}
	parts := c.Parts.Value()
	blocks := make([]llm.Block, 0, parts.Len())
	for _, p := range parts.All() {
		blocks = append(blocks, decodePart(p))
	}
	return blocks
}

// serverTools lists the items of tools that OpenAI runs itself.
var serverTools = map[string]bool{
	"web_search_call": true, "file_search_call": true, "code_interpreter_call": true, "image_generation_call": true,
	"mcp_call": true, "mcp_list_tools": true, "tool_search_call": true, "tool_search_output": true,
}

// decodeOther keeps an item that only this protocol knows.
func decodeOther(typ string, raw llm.Raw) llm.Block {
	meta := llm.Meta{Ext: llm.Ext{Protocol: own}}
	if serverTools[typ] {
		return &llm.ServerCall{Meta: meta, Protocol: own, Type: typ, Raw: raw, Digest: digest(typ, raw)}
	}
	return &llm.Opaque{Meta: meta, Protocol: own, Type: typ, Raw: raw}
}

// digest returns a text summary of a vendor-run tool's item, for protocols that
// cannot hold it.
func digest(typ string, raw llm.Raw) string {
	var call struct {
		Action struct {
			Query   string   `json:"query"`
			Queries []string `json:"queries"`
			URL     string   `json:"url"`
		} `json:"action"`
		Queries []string `json:"queries"`
		Code    string   `json:"code"`
		Name    string   `json:"name"`
		Output  string   `json:"output"`
	}
	_ = json.Unmarshal([]byte(raw), &call, wire.Lenient) // fields that cannot be decoded are left out
	words := append(append([]string{call.Name, call.Action.Query}, call.Action.Queries...), call.Action.URL)
	words = append(append(words, call.Queries...), call.Code, call.Output)
	said := strings.Builder{}
	said.WriteString("[" + strings.TrimSuffix(typ, "_call") + "]")
	for i, word := range words {
		if word != "" && (i == 0 || word != words[i-1]) {
			said.WriteString(" " + word)
		}
	}
	return said.String()
}

// decodePart decodes a part of a message or an output. It does not keep whether
// the type was input_text or output_text: clients confuse them, and the encoder
// writes the right one (RSP-29).
func decodePart(p *Part) llm.Block {
	meta := llm.Meta{Ext: extOf(p.Extra)}
	meta.Seals = unseal(&meta.Ext, value(p.ExtraContent))
	if c, ok := p.PromptCacheBreakpoint.Get(); ok {
		meta.Cache = &llm.CacheMark{TTL: c.TTL.Value(), Ext: extOf(c.Extra)}
	}
	switch typ := p.Type.Value(); {
	case typ == "refusal":
		return &llm.Refusal{Meta: meta, Text: p.Refusal.Value()}
	case strings.HasSuffix(typ, "_text"), typ == "text", typ == "" && p.Text.IsSet():
		return decodeText(p, meta)
	case typ == "input_image" && (p.ImageURL.IsSet() || p.FileID.IsSet()):
		return decodeImage(p, meta)
	case typ == "input_file" && (p.FileData.IsSet() || p.FileURL.IsSet() || p.FileID.IsSet()):
		return decodeFile(p, meta)
	case typ == "input_audio" && p.InputAudio.IsSet():
		return decodeAudio(p, meta)
	default:
		raw, _ := wire.Marshal(p) // cannot fail: it was decoded from JSON
		return &llm.Opaque{Meta: llm.Meta{Ext: llm.Ext{Protocol: own}}, Protocol: own, Type: typ, Raw: llm.Raw(raw)}
	}
}

// unseal decodes the seals in extra_content. If it has none, the member belongs
// to another vendor and is kept.
func unseal(ext *llm.Ext, carrier llm.Raw) []llm.Seal {
	seals := codec.Uncarry(carrier)
	if carrier != "" && len(seals) == 0 {
		ext.Members = append(ext.Members, llm.Member{Name: codec.CarrierMember, Value: carrier})
	}
	return seals
}

func decodeText(p *Part, meta llm.Meta) *llm.Text {
	t := &llm.Text{Meta: meta, Text: p.Text.Value(), Logprobs: value(p.Logprobs)}
	annotations := p.Annotations.Value()
	for _, a := range annotations.All() {
		if a.Kind() == '{' {
			t.Citations = append(t.Citations, decodeAnnotation(llm.Raw(*a)))
		}
	}
	if p.Annotations.IsSet() && annotations.Len() == 0 {
		t.Ext.Members = append(t.Ext.Members, llm.Member{Name: spelled("annotations"), Value: "[]"})
	}
	return t
}

// annotation holds the members of an annotation that other protocols know too.
type annotation struct {
	Start    wire.Count `json:"start_index"`
	End      wire.Count `json:"end_index"`
	URL      string     `json:"url"`
	Title    string     `json:"title"`
	FileID   string     `json:"file_id"`
	Filename string     `json:"filename"`
}

func decodeAnnotation(raw llm.Raw) llm.Citation {
	var a annotation
	_ = json.Unmarshal([]byte(raw), &a, wire.Lenient) // what cannot be decoded is still in Raw
	if a.Title == "" {
		a.Title = a.Filename
	}
	if !jsontext.Value(raw).IsValid() {
		raw = ""
	}
	return llm.Citation{Start: int(a.Start), End: int(a.End), URL: a.URL, Title: a.Title, FileID: a.FileID, Protocol: own, Raw: raw}
}

// encodeAnnotation encodes a citation of a text with so many code points. Only
// citations with a URL have a counterpart.
func encodeAnnotation(c llm.Citation, length int) (llm.Raw, bool) {
	if c.Protocol == own && c.Raw != "" {
		return c.Raw, true
	}
	if c.URL == "" {
		return "", false
	}
	if c.End == 0 {
		c.End = length
	}
	o := object{}
	o.str("type", "url_citation")
	o.num("start_index", int64(c.Start))
	o.num("end_index", int64(c.End))
	o.str("url", c.URL)
	o.str("title", c.Title)
	return o.end(), true
}

// part encodes a block as a part of a message or an output. It returns "" if the
// block cannot be encoded.
func (e *requestEncoder) part(b llm.Block, path string, assistant bool) llm.Raw {
	o := object{}
	switch b := b.(type) {
	case *llm.Text:
		e.text(&o, b, assistant)
	case *llm.Refusal:
		if !assistant {
			o.str("type", "input_text")
			o.str("text", b.Text)
			break
		}
		o.str("type", "refusal")
		o.str("refusal", b.Text)
	case *llm.Media:
		if assistant {
			e.report.Drop(path, "media.assistant", "the Responses API takes no media in an assistant's message")
			return ""
		}
		if !e.media(&o, b, path) {
			return ""
		}
	case *llm.Opaque:
		if b.Protocol == own {
			return b.Raw
		}
		e.report.Refuse(path, "block.unknown", "the Responses API has no part of the type "+b.Type)
		return ""
	default:
		e.report.Refuse(path, "block.misplaced", "a part of this kind cannot stand here in the Responses API")
		return ""
	}
	e.cacheMark(&o, b.Common().Cache)
	o.ext(b.Common().Ext)
	return o.end()
}

func (e *requestEncoder) text(o *object, t *llm.Text, assistant bool) {
	if !assistant {
		o.str("type", "input_text")
		o.str("text", t.Text)
		return
	}
	o.str("type", "output_text")
	o.str("text", t.Text)
	var notes list
	for _, c := range t.Citations {
		if raw, ok := encodeAnnotation(c, len([]rune(t.Text))); ok {
			notes.add(raw)
		}
	}
	switch {
	case len(notes) > 0:
		o.raw("annotations", notes.end())
	case !isOwn(t.Ext):
		o.raw("annotations", "[]") // OpenAI's types require it
	}
	if isOwn(t.Ext) { // log probabilities of other protocols have another form
		o.raw("logprobs", t.Logprobs)
	}
}

// cacheMark encodes a cache breakpoint of this protocol. Those of other protocols
// are reported once: most models here reject the member.
func (e *requestEncoder) cacheMark(o *object, c *llm.CacheMark) {
	if c == nil {
		return
	}
	if !isOwn(c.Ext) {
		if !e.marked {
			e.report.Drop("cache", "cache.mark", "cache marks on blocks are not sent; OpenAI caches prompts by itself")
		}
		e.marked = true
		return
	}
	mark := object{}
	mark.opt("ttl", c.TTL)
	mark.ext(c.Ext)
	o.raw("prompt_cache_breakpoint", mark.end())
}

// foreign reports what turns hold that items have no member for. Blocks that are
// dropped entirely are reported by the code that drops them.
func (e *requestEncoder) foreign(turns []llm.Turn) {
	for i := range turns {
		path := codec.At("turns", i)
		codec.DropExt(e.report, path, turns[i].Ext, protocol.OpenAIResponses)
		for j, b := range turns[i].Blocks {
			e.foreignBlock(turns[i].Role, b, path+"."+codec.At("blocks", j))
		}
	}
}

func (e *requestEncoder) foreignBlock(role llm.Role, b llm.Block, path string) {
	switch b := b.(type) {
	case *llm.Thought, *llm.ServerCall, *llm.Opaque:
		return
	case *llm.Text:
		for _, c := range b.Citations {
			if _, ok := encodeAnnotation(c, 0); role != llm.Assistant {
				e.report.Drop(path+".citations", "citation.history", "only responses have citations in the Responses API")
			} else if !ok {
				e.report.Drop(path+".citations", "citation.no_url", "a citation without an address has no place in the Responses API")
			}
		}
	case *llm.ToolResult:
		for _, inner := range b.Blocks {
			e.foreignBlock(role, inner, path)
		}
	}
	codec.DropExt(e.report, path, b.Common().Ext, protocol.OpenAIResponses)
	if len(b.Common().Seals) > 0 {
		e.report.Drop(path, "seal.foreign", "a signature that only its maker can read is left out")
	}
}

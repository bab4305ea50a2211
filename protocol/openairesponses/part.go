package openairesponses

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// decodePart reads a part of a message or of an output. What the role of its
// speaker calls for (input_text, output_text) is not kept: clients mix it up, and
// the encoder writes what is right (RSP-29).
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
		raw, _ := partShape.Marshal(p) // what has been decoded can be encoded
		return &llm.Opaque{Meta: llm.Meta{Ext: llm.Ext{Protocol: own}}, Protocol: own, Type: typ, Raw: llm.Raw(raw)}
	}
}

// unseal reads the seals that extra_content carries. Without any the member is
// somebody else's and is kept.
func unseal(ext *llm.Ext, carrier llm.Raw) []llm.Seal {
	seals := protocol.Uncarry(carrier)
	if carrier != "" && len(seals) == 0 {
		ext.Members = append(ext.Members, llm.Member{Name: protocol.CarrierMember, Value: carrier})
	}
	return seals
}

func decodeText(p *Part, meta llm.Meta) *llm.Text {
	t := &llm.Text{Meta: meta, Text: p.Text.Value(), Logprobs: value(p.Logprobs)}
	annotations := p.Annotations.Value()
	for _, a := range annotations {
		t.Citations = append(t.Citations, decodeAnnotation(llm.Raw(a)))
	}
	if p.Annotations.IsSet() && len(annotations) == 0 {
		t.Ext.Members = append(t.Ext.Members, llm.Member{Name: spelled("annotations"), Value: "[]"})
	}
	return t
}

// annotation is the part of a remark on a text that other protocols know too.
type annotation struct {
	Start    count  `json:"start_index"`
	End      count  `json:"end_index"`
	URL      string `json:"url"`
	Title    string `json:"title"`
	FileID   string `json:"file_id"`
	Filename string `json:"filename"`
}

func decodeAnnotation(raw llm.Raw) llm.Citation {
	var a annotation
	_ = json.Unmarshal([]byte(raw), &a, lenient) // what cannot be read is still carried raw
	if a.Title == "" {
		a.Title = a.Filename
	}
	if !jsontext.Value(raw).IsValid() {
		raw = ""
	}
	return llm.Citation{Start: int(a.Start), End: int(a.End), URL: a.URL, Title: a.Title, FileID: a.FileID, Protocol: own, Raw: raw}
}

// encodeAnnotation writes a citation of a text that has so many code points. Only
// what has an address can be said; there is no place for a mere quotation.
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

// part writes a block as a part: of the assistant's, or of anybody else's message
// or output. It is empty where the block cannot be written.
func (w *requestWriter) part(b llm.Block, path string, assistant bool) llm.Raw {
	o := object{}
	switch b := b.(type) {
	case *llm.Text:
		w.text(&o, b, assistant)
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
			w.report.Drop(path, "media.assistant", "the Responses API takes no media in an assistant's message")
			return ""
		}
		if !w.media(&o, b, path) {
			return ""
		}
	case *llm.Opaque:
		if b.Protocol == own {
			return b.Raw
		}
		w.report.Refuse(path, "block.unknown", "the Responses API has no part of the type "+b.Type)
		return ""
	default:
		w.report.Refuse(path, "block.misplaced", "a part of this kind cannot stand here in the Responses API")
		return ""
	}
	w.cacheMark(&o, b.Common().Cache)
	o.ext(b.Common().Ext)
	return o.end()
}

func (w *requestWriter) text(o *object, t *llm.Text, assistant bool) {
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
	if isOwn(t.Ext) { // in a foreign history they are of no use, and of a foreign form
		o.raw("logprobs", t.Logprobs)
	}
}

// cacheMark writes a breakpoint of this protocol. Those of others are reported
// once: most models here refuse the member.
func (w *requestWriter) cacheMark(o *object, c *llm.CacheMark) {
	if c == nil {
		return
	}
	if !isOwn(c.Ext) {
		if !w.marked {
			w.report.Drop("cache", "cache.mark", "cache marks on blocks are not sent; OpenAI caches prompts by itself")
		}
		w.marked = true
		return
	}
	mark := object{}
	mark.opt("ttl", c.TTL)
	mark.ext(c.Ext)
	o.raw("prompt_cache_breakpoint", mark.end())
}

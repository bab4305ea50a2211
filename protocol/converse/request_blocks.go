package converse

import (
	"errors"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// jsonMark notes that a text of a tool result is JSON. statusMark notes a result with the
// status success.
const (
	jsonMark   = "json"
	statusMark = "status"
	plainMark  = "unsigned" // reasoning without a signature
)

// decodeBlock decodes a content block of a request or a response.
func decodeBlock(raw wire.Raw) (llm.Block, error) {
	kind := unionName(raw)
	if kind == "" {
		return nil, errors.New("want an object with one member")
	}
	var w Block
	if err := wire.UnmarshalPart(raw, &w); err != nil {
		return nil, err
	}
	switch {
	case w.Text.IsSet():
		return &llm.Text{Meta: llm.Meta{Ext: kept.Ext(w.Extra)}, Text: w.Text.Value().String()}, nil
	case w.JSON != nil:
		t := &llm.Text{Text: string(w.JSON)}
		kept.Mark(&t.Ext, jsonMark, wire.Raw("true"))
		return t, nil
	case w.ToolUse.IsSet():
		return decodeCall(w.ToolUse.Value(), raw)
	case w.ToolResult.IsSet():
		return decodeResult(w.ToolResult.Value())
	case w.Reasoning.IsSet():
		return decodeReasoning(w.Reasoning.Value()), nil
	case w.Citations.IsSet():
		return decodeCited(w.Citations.Value()), nil
	case w.Image.IsSet():
		return decodeMedia(llm.Image, w.Image.Value(), kind, raw), nil
	case w.Document.IsSet():
		return decodeMedia(llm.File, w.Document.Value(), kind, raw), nil
	case w.Video.IsSet():
		return decodeMedia(llm.Video, w.Video.Value(), kind, raw), nil
	case w.Audio.IsSet():
		return decodeMedia(llm.Audio, w.Audio.Value(), kind, raw), nil
	}
	return &llm.Opaque{Protocol: own, Type: kind, Raw: llm.Raw(raw)}, nil
}

func decodeCall(w ToolUse, raw wire.Raw) (llm.Block, error) {
	if w.Type.Value() == "server_tool_use" {
		return &llm.ServerCall{Protocol: own, Type: "toolUse", Raw: llm.Raw(raw), Digest: w.Name.Value() + " " + string(w.Input)}, nil
	}
	if w.ToolUseID.Value() == "" || w.Name.Value() == "" {
		return nil, errors.New("toolUse needs a toolUseId and a name")
	}
	c := &llm.ToolCall{Meta: llm.Meta{Ext: kept.Ext(w.Extra)}, CallID: codec.UnwrapID(w.ToolUseID.Value()), Kind: llm.FunctionTool, Name: w.Name.Value(), Args: string(w.Input)}
	if typ := w.Type.Value(); typ != "" {
		kept.Keep(&c.Ext, "type", blockcodec.Quoted(typ))
	}
	if c.Seals = codec.Uncarry(llm.Raw(w.ExtraContent)); c.Seals == nil && len(w.ExtraContent) > 0 {
		kept.Keep(&c.Ext, codec.CarrierMember, w.ExtraContent)
	}
	return c, nil
}

func decodeResult(w ToolResult) (llm.Block, error) {
	r := &llm.ToolResult{Meta: llm.Meta{Ext: kept.Ext(w.Extra)}, CallID: codec.UnwrapID(w.ToolUseID.Value()), Kind: llm.FunctionTool, Failed: w.Status.Value() == "error"}
	if r.CallID == "" {
		return nil, errors.New("toolResult needs the toolUseId of its call")
	}
	if s, ok := w.Status.Get(); ok && s != "error" {
		kept.Mark(&r.Ext, statusMark, blockcodec.Quoted(s))
	}
	r.Missing = !w.Content.IsSet()
	for _, raw := range w.Content.Value().All() {
		b, err := decodeBlock(*raw)
		if err != nil {
			return nil, err
		}
		r.Blocks = append(r.Blocks, b)
	}
	return r, nil
}

func decodeReasoning(w Reasoning) *llm.Thought {
	t := &llm.Thought{Meta: llm.Meta{Ext: kept.Ext(w.Extra)}}
	if data, ok := w.RedactedContent.Get(); ok {
		t.Seals = []llm.Seal{{Form: llm.Redacted, Data: data, Origin: own}}
		return t
	}
	r := w.ReasoningText.Value()
	if text := r.Text.Value().String(); text != "" {
		t.Parts = []llm.ThoughtPart{{Form: llm.FullReasoning, Text: text}}
	}
	switch s := r.Signature.Value(); s {
	case "":
		kept.Mark(&t.Ext, plainMark, wire.Raw("true"))
	default:
		if foreign, ok := codec.Unwrap(s); ok {
			t.Seals = foreign
		} else {
			t.Seals = []llm.Seal{{Form: llm.Signature, Data: s, Origin: own}}
		}
	}
	return t
}

func decodeCited(w Citations) *llm.Text {
	t := &llm.Text{Meta: llm.Meta{Ext: kept.Ext(w.Extra)}}
	for _, part := range w.Content.Value().All() {
		t.Text += part.Text.Value().String()
	}
	for _, raw := range w.Citations.Value().All() {
		t.Citations = append(t.Citations, decodeCitation(*raw))
	}
	kept.Mark(&t.Ext, "citationsContent", wire.Raw("true")) // also without citations
	return t
}

// decodeCitation decodes a citation. It always refers to the whole block.
func decodeCitation(raw wire.Raw) llm.Citation {
	var w struct {
		Title         wire.Opt[wire.Text]            `json:"title"`
		Source        wire.Opt[wire.Text]            `json:"source"`
		SourceContent wire.Opt[wire.List[CitedText]] `json:"sourceContent"`
		Location      wire.Opt[wire.Object]          `json:"location"`
		Extra         wire.Extra                     `json:"-"`
	}
	_ = wire.UnmarshalLenient(raw, &w) // what cannot be read is still in Raw
	c := llm.Citation{Title: w.Title.Value().String(), URL: w.Source.Value().String(), Protocol: own, Raw: llm.Raw(raw)}
	for _, part := range w.SourceContent.Value().All() {
		c.Quote += part.Text.Value().String()
	}
	if web, ok := w.Location.Value().Get("web"); ok {
		var o wire.Object
		if o.UnmarshalJSON(web) == nil {
			if u, ok := o.Get("url"); ok {
				c.URL = wire.Unquote(u)
			}
		}
	}
	if !strings.Contains(c.URL, "://") {
		c.URL = "" // the name of a document
	}
	return c
}

// Turn encodes the blocks of one turn except tool results. The API rejects blank text, so it
// joins the text before or after it, or is dropped.
func (e *requestEncoder) Turn(i int) []wire.Raw {
	t := e.Req.Turns[i]
	at := codec.At("turns", i)
	blocks, alone := blockcodec.JoinBlank(t.Blocks)
	if t.Role == llm.User && slices.ContainsFunc(blocks, func(b llm.Block) bool { return !blockcodec.IsText(b, blockcodec.IsBlank) }) {
		for _, k := range alone {
			e.Report.Drop(codec.At(at+".blocks", k), "turn.empty", "a text must hold more than white space")
		}
	}
	var out []wire.Raw
	var mark *llm.CacheMark // of a blank text, which is not sent
	for k, b := range blocks {
		at := codec.At(at+".blocks", k)
		if blockcodec.IsResult(b) {
			continue
		}
		if blockcodec.IsText(b, blockcodec.IsBlank) {
			e.ForeignSeals(at, b.Common().Seals)
			if mark = b.Common().Cache; mark != nil && len(out) > 0 {
				out = append(out, e.cachePoint(at, mark))
			}
			continue
		}
		if text, ok := b.(*llm.Text); ok && k == len(blocks)-1 {
			b = e.Trim(i, text)
		}
		raws := e.block(at, t.Role, b)
		out = append(out, raws...)
		if c := b.Common().Cache; c != nil && len(raws) > 0 {
			out = append(out, e.cachePoint(at, c))
		}
	}
	return out
}

// cachePoint encodes the end of a prefix that the vendor caches.
func (e *requestEncoder) cachePoint(at string, mark *llm.CacheMark) wire.Raw {
	ttl := e.CacheTTL(at, mark)
	raw, _ := wire.Marshal(&CachePoint{Type: wire.Some("default"), TTL: wire.NonZero(ttl), Extra: kept.Extra(mark.Ext)}) // cannot fail: ttl is one of three words, or decoded from JSON
	return blockcodec.Member("cachePoint", raw)
}

// block encodes one block of a message. It may return nil.
func (e *requestEncoder) block(at string, role llm.Role, b llm.Block) []wire.Raw {
	switch b := b.(type) {
	case *llm.Text:
		e.ForeignSeals(at, b.Seals)
		return e.text(at, role, b)
	case *llm.Thought:
		return e.thought(at, b)
	case *llm.ToolCall:
		id, sent := e.Pairs.ID(b)
		if !sent {
			return nil // already reported as refused
		}
		e.ForeignSeals(at, b.Seals)
		w := ToolUse{ToolUseID: wire.Some(id), Name: wire.Some(e.Names.Sent(blockcodec.RefOf(b))), Input: blockcodec.Args(e.Report, at, b), Extra: kept.Extra(b.Ext)}
		return e.Marshal(at, &Block{ToolUse: wire.Some(w)})
	case *llm.Media:
		return e.mediaIn(at, role, b)
	}
	text, raw := e.HistoryText(at, b)
	switch {
	case raw != nil:
		return []wire.Raw{raw}
	case text == "":
		return nil
	}
	return []wire.Raw{textBlock(text)}
}

// text encodes text with the vendor's own citations.
func (e *requestEncoder) text(at string, role llm.Role, t *llm.Text) []wire.Raw {
	raws := e.Citations(at, t.Citations)
	if t.Ext.Protocol == own && t.Ext.Get(codec.MarkPrefix+jsonMark) != "" && role == llm.ToolRole {
		return []wire.Raw{blockcodec.Member("json", wire.Raw(t.Text))}
	}
	if len(raws) == 0 && t.Ext.Get(codec.MarkPrefix+"citationsContent") == "" {
		return e.Marshal(at, &Block{Text: wire.Some(wire.NewText(t.Text)), Extra: kept.Extra(withoutMarks(t.Ext))})
	}
	return e.Marshal(at, citedBlock(t, raws))
}

// citedBlock returns a text with its sources.
func citedBlock(t *llm.Text, citations []wire.Raw) *Block {
	w := Citations{Content: wire.Some(wire.ListOf(CitedText{Text: wire.Some(wire.NewText(t.Text))})), Citations: wire.Some(wire.ListOf(citations...)), Extra: kept.Extra(withoutMarks(t.Ext))}
	return &Block{Citations: wire.Some(w)}
}

// withoutMarks returns an Ext without the codec's notes.
func withoutMarks(ext llm.Ext) llm.Ext {
	out := llm.Ext{Protocol: ext.Protocol}
	for _, m := range ext.Members {
		if !strings.HasPrefix(m.Name, codec.MarkPrefix) {
			out.Members = append(out.Members, m)
		}
	}
	return out
}

// TextBlock writes text.
func (*requestEncoder) TextBlock(text string) wire.Raw { return textBlock(text) }

// textBlock writes text.
func textBlock(text string) wire.Raw {
	return append(wire.AppendQuote([]byte(`{"text":`), text), '}')
}

// thought encodes reasoning with the vendor's own seal. Models reject any other. Reasoning
// without a seal goes back only from a client of this protocol.
func (e *requestEncoder) thought(at string, t *llm.Thought) []wire.Raw {
	seal, ok := t.SealFor(own)
	if !ok && t.Ext.Get(codec.MarkPrefix+plainMark) == "" {
		e.Report.Drop(at, "reasoning.foreign", "only reasoning that the vendor's model has signed can be sent back to it")
		return nil
	}
	return e.Marshal(at, thoughtBlock(t, seal))
}

// thoughtBlock returns reasoning with the vendor's seal, or without one.
func thoughtBlock(t *llm.Thought, seal llm.Seal) *Block {
	w := Reasoning{Extra: kept.Extra(withoutMarks(t.Ext))}
	if seal.Form == llm.Redacted {
		w.RedactedContent = wire.Some(seal.Data)
	} else {
		w.ReasoningText = wire.Some(ReasoningText{Text: wire.Some(wire.NewText(blockcodec.ThoughtText(t))), Signature: wire.NonZero(seal.Data)})
	}
	return &Block{Reasoning: wire.Some(w)}
}

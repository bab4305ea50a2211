package anthropic

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// decodeBlock decodes a content block of a request or a response.
func decodeBlock(raw wire.Raw) (llm.Block, error) {
	kind := blockType(raw)
	switch kind {
	case "":
		return nil, errors.New("want an object with a type")
	case "text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document":
	case "search_result":
		return decodeSearchResult(raw), nil
	default:
		return decodeForeign(kind, raw), nil
	}
	var w Block
	if err := wire.UnmarshalPart(raw, &w); err != nil {
		return nil, err
	}
	meta := llm.Meta{Cache: decodeCache(w.CacheControl), Ext: kept.Ext(w.Extra)}
	if seals := codec.Uncarry(llm.Raw(w.ExtraContent)); seals != nil {
		meta.Seals = seals
	} else if len(w.ExtraContent) > 0 {
		kept.Keep(&meta.Ext, codec.CarrierMember, w.ExtraContent)
	}
	switch kind {
	case "text":
		return &llm.Text{Meta: meta, Text: w.Text.Value().String(), Citations: decodeCitations(w.Citations)}, nil
	case "thinking":
		return decodeThinking(meta, &w), nil
	case "redacted_thinking":
		meta.Seals = append(meta.Seals, llm.Seal{Form: llm.Redacted, Data: w.Data.Value(), Origin: own})
		return &llm.Thought{Meta: meta}, nil
	case "tool_use":
		if w.ID.Value() == "" || w.Name.Value() == "" {
			return nil, errors.New("tool_use needs an id and a name")
		}
		return &llm.ToolCall{Meta: meta, CallID: codec.UnwrapID(w.ID.Value()), Kind: llm.FunctionTool, Name: w.Name.Value(), Args: string(w.Input)}, nil
	case "tool_result":
		return decodeResult(meta, &w)
	}
	return decodeMedia(meta, kind, &w, raw)
}

// blockType returns only the type of a block, which nearly always comes first.
func blockType(raw wire.Raw) string {
	if rest, ok := bytes.CutPrefix(raw, []byte(`{"type":"`)); ok {
		if word, _, ok := bytes.Cut(rest, []byte{'"'}); ok && bytes.IndexByte(word, '\\') < 0 {
			return string(word)
		}
	}
	var b struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(raw, &b, jsontext.AllowInvalidUTF8(true)) != nil {
		return ""
	}
	return b.Type
}

// decodeForeign decodes a block that has no neutral form: of a tool that
// Anthropic runs, or of an unknown type.
func decodeForeign(kind string, raw wire.Raw) llm.Block {
	meta := llm.Meta{}
	if strings.HasSuffix(kind, "_tool_use") || strings.HasSuffix(kind, "_tool_result") {
		return &llm.ServerCall{Meta: meta, Protocol: own, Type: kind, Raw: llm.Raw(raw), Digest: digest(raw)}
	}
	return &llm.Opaque{Meta: meta, Protocol: own, Type: kind, Raw: llm.Raw(raw)}
}

// digest returns a text summary of a vendor-run tool's block, for models of other
// vendors.
func digest(raw wire.Raw) string {
	var b struct {
		Name  string         `json:"name"`
		Input jsontext.Value `json:"input"`
	}
	if json.Unmarshal(raw, &b, wire.Lenient) == nil && b.Name != "" {
		return b.Name + " " + string(b.Input)
	}
	return innerText(raw)
}

// innerText collects the titles, URLs, texts and outputs in a block, one per
// line.
func innerText(raw wire.Raw) string {
	var lines []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, name := range []string{"title", "url", "source", "text", "data", "stdout", "stderr", "error_code", "content"} {
				if s, ok := v[name].(string); ok && s != "" {
					lines = append(lines, s)
				} else if !ok {
					walk(v[name])
				}
			}
		}
	}
	var v any
	if json.Unmarshal(raw, &v, wire.Lenient) == nil {
		walk(v)
	}
	return strings.Join(lines, "\n")
}

// decodeCitations reads the citations of a text block.
func decodeCitations(raw wire.Raw) []llm.Citation {
	var list wire.List[wire.Raw]
	if raw.Kind() != '[' || wire.UnmarshalLenient(raw, &list) != nil {
		return nil
	}
	var out []llm.Citation
	for _, c := range list.All() {
		if c.Kind() == '{' {
			out = append(out, decodeCitation(*c))
		}
	}
	return out
}

// decodeCitation decodes a citation. It always refers to the whole block.
func decodeCitation(raw wire.Raw) llm.Citation {
	var c struct {
		URL           string `json:"url"`
		Title         string `json:"title"`
		DocumentTitle string `json:"document_title"`
		FileID        string `json:"file_id"`
		CitedText     string `json:"cited_text"`
	}
	_ = json.Unmarshal(raw, &c, wire.Lenient) // what cannot be read is still in Raw
	if c.Title == "" {
		c.Title = c.DocumentTitle
	}
	return llm.Citation{URL: c.URL, Title: c.Title, FileID: c.FileID, Quote: c.CitedText, Protocol: own, Raw: llm.Raw(raw)}
}

func decodeCache(c wire.Opt[CacheControl]) *llm.CacheMark {
	w, ok := c.Get()
	if !ok {
		return nil
	}
	return &llm.CacheMark{TTL: w.TTL.Value(), Ext: kept.Ext(w.Extra)}
}

// Turn encodes the blocks of one turn except tool results. The API rejects blank
// text, so it joins the text before or after it, or is dropped, and its cache mark moves to the
// previous block. CRQ-06, ANT-21
func (e *requestEncoder) Turn(i int) []wire.Raw {
	t := e.Req.Turns[i]
	at := codec.At("turns", i)
	var alone []int
	t.Blocks, alone = blockcodec.JoinBlank(t.Blocks)
	if t.Role == llm.User && slices.ContainsFunc(t.Blocks, func(b llm.Block) bool { return !blockcodec.IsText(b, blockcodec.IsBlank) }) {
		for _, k := range alone {
			e.Report.Drop(codec.At(at+".blocks", k), "turn.empty", "a text must hold more than white space")
		}
	}
	marks := make([]*llm.CacheMark, len(t.Blocks))
	last := -1
	for k, b := range t.Blocks {
		switch {
		case !blockcodec.IsText(b, blockcodec.IsBlank):
			last, marks[k] = k, b.Common().Cache
		case b.Common().Cache != nil && last >= 0 && marks[last] == nil:
			marks[last] = b.Common().Cache
		}
	}
	var out []wire.Raw
	for k, b := range t.Blocks {
		if _, result := b.(*llm.ToolResult); result || blockcodec.IsText(b, blockcodec.IsBlank) {
			e.ForeignSeals(codec.At(at+".blocks", k), b.Common().Seals)
			continue
		}
		if text, ok := b.(*llm.Text); ok && k == last {
			b = e.Trim(i, text)
		}
		out = append(out, e.block(codec.At(at+".blocks", k), t.Role, b, marks[k])...)
	}
	return out
}

// block encodes one block of a message. It may return nil.
func (e *requestEncoder) block(at string, role llm.Role, b llm.Block, mark *llm.CacheMark) []wire.Raw {
	w := Block{CacheControl: e.cache(at, mark), Extra: kept.Extra(b.Common().Ext)}
	switch b := b.(type) {
	case *llm.Text:
		e.ForeignSeals(at, b.Seals)
		if mark == nil && isPlain(b) {
			return []wire.Raw{textBlock(b.Text)}
		}
		w.Type, w.Text = wire.Some("text"), wire.Some(wire.NewText(b.Text))
		w.Citations = e.citations(at, role, b.Citations)
	case *llm.Thought:
		return e.thought(at, b)
	case *llm.ToolCall:
		id, sent := e.Pairs.ID(b)
		if !sent {
			return nil // already reported as refused
		}
		e.ForeignSeals(at, b.Seals)
		w.Type, w.ID = wire.Some("tool_use"), wire.Some(id)
		w.Name, w.Input = wire.Some(e.Names.Sent(blockcodec.RefOf(b))), blockcodec.Args(e.Report, at, b)
	case *llm.Media:
		return e.mediaIn(at, role, b, w)
	default:
		text, raw := e.HistoryText(at, b)
		switch {
		case raw != nil:
			return []wire.Raw{raw}
		case text == "":
			return nil
		}
		w.Type, w.Text = wire.Some("text"), wire.Some(wire.NewText(text))
	}
	return e.Marshal(at, &w)
}

// TextBlock writes text.
func (*requestEncoder) TextBlock(text string) wire.Raw { return textBlock(text) }

// textBlock writes text.
func textBlock(text string) wire.Raw {
	return append(wire.AppendQuote([]byte(`{"type":"text","text":`), text), '}')
}

// citations writes Anthropic's own citations if the version accepts them.
func (e *requestEncoder) citations(at string, role llm.Role, list []llm.Citation) wire.Raw {
	raws := e.Citations(at, list)
	if len(raws) == 0 {
		return nil
	}
	if role != llm.Assistant && !e.version.UserTextCitations {
		e.Report.Drop(at+".citations", "citations.user_text", "version "+e.version.Name+" refuses citations on the user's text")
		return nil
	}
	return array(raws)
}

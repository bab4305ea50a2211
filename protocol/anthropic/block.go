package anthropic

import (
	"bytes"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// decodeBlock reads a content block of a request or an answer.
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
	if err := blockShape.Unmarshal(raw, &w); err != nil {
		return nil, err
	}
	meta := llm.Meta{Cache: decodeCache(w.CacheControl), Ext: extOf(w.Extra)}
	if seals := protocol.Uncarry(llm.Raw(w.ExtraContent)); seals != nil {
		meta.Seals = seals
	} else if len(w.ExtraContent) > 0 {
		keep(&meta.Ext, protocol.CarrierMember, w.ExtraContent)
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
		return &llm.ToolCall{Meta: meta, CallID: w.ID.Value(), Kind: llm.FunctionTool, Name: w.Name.Value(), Args: string(w.Input)}, nil
	case "tool_result":
		return decodeResult(meta, &w)
	}
	return decodeMedia(meta, kind, &w, raw)
}

// blockType reads nothing but the type of a block. It nearly always comes first.
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

func decodeThinking(meta llm.Meta, w *Block) *llm.Thought {
	t := &llm.Thought{Meta: meta}
	if text := w.Thinking.Value().String(); text != "" {
		t.Parts = []llm.ThoughtPart{{Form: llm.FullReasoning, Text: text}}
	}
	if s := w.Signature.Value(); s != "" {
		if foreign, ok := protocol.Unwrap(s); ok {
			t.Seals = append(t.Seals, foreign...)
			return t
		}
		t.Seals = append(t.Seals, llm.Seal{Form: llm.Signature, Data: s, Origin: own})
	}
	return t
}

func decodeResult(meta llm.Meta, w *Block) (*llm.ToolResult, error) {
	r := &llm.ToolResult{Meta: meta, CallID: w.ToolUseID.Value(), Kind: llm.FunctionTool, Failed: w.IsError.Value()}
	if r.CallID == "" { // ANT-16
		return nil, errors.New("tool_result needs the tool_use_id of the call that it answers")
	}
	c, ok := w.Content.Get()
	if r.Missing = !ok; r.Missing {
		return r, nil
	}
	if text, ok := c.Text.Get(); ok {
		r.Blocks = []llm.Block{&llm.Text{Text: text.String()}}
		return r, nil
	}
	for _, raw := range c.Blocks.Value() {
		b, err := decodeBlock(raw)
		if err != nil {
			return nil, err
		}
		r.Blocks = append(r.Blocks, b)
	}
	r.Listed = len(r.Blocks) == 0 || len(r.Blocks) == 1 && isPlain(r.Blocks[0])
	return r, nil
}

// decodeForeign reads a block that means something to the vendor only: a tool that
// the vendor runs, or a kind that nobody here knows.
func decodeForeign(kind string, raw wire.Raw) llm.Block {
	meta := llm.Meta{}
	if strings.HasSuffix(kind, "_tool_use") || strings.HasSuffix(kind, "_tool_result") {
		return &llm.ServerCall{Meta: meta, Protocol: own, Type: kind, Raw: llm.Raw(raw), Digest: digest(raw)}
	}
	return &llm.Opaque{Meta: meta, Protocol: own, Type: kind, Raw: llm.Raw(raw)}
}

// digest is what a block of a vendor's tool amounts to, for models of others.
func digest(raw wire.Raw) string {
	var b struct {
		Name  string         `json:"name"`
		Input jsontext.Value `json:"input"`
	}
	if json.Unmarshal(raw, &b, lenient) == nil && b.Name != "" {
		return b.Name + " " + string(b.Input)
	}
	return innerText(raw)
}

// innerText gathers what can be read in a block: titles, addresses, texts and
// output, one to a line.
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
	if json.Unmarshal(raw, &v, lenient) == nil {
		walk(v)
	}
	return strings.Join(lines, "\n")
}

// decodeCitations reads the citations of a text block.
func decodeCitations(raw wire.Raw) []llm.Citation {
	var list []jsontext.Value
	if raw.Kind() != '[' || json.Unmarshal(raw, &list, lenient) != nil {
		return nil
	}
	out := make([]llm.Citation, 0, len(list))
	for _, c := range list {
		out = append(out, decodeCitation(c))
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// decodeCitation reads a citation. It always means the whole block.
func decodeCitation(raw wire.Raw) llm.Citation {
	var c struct {
		URL           string `json:"url"`
		Title         string `json:"title"`
		DocumentTitle string `json:"document_title"`
		FileID        string `json:"file_id"`
		CitedText     string `json:"cited_text"`
	}
	_ = json.Unmarshal(raw, &c, lenient) // what cannot be read is still in Raw
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
	return &llm.CacheMark{TTL: w.TTL.Value(), Ext: extOf(w.Extra)}
}

package anthropic

import (
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func decodeResult(meta llm.Meta, w *Block) (*llm.ToolResult, error) {
	r := &llm.ToolResult{Meta: meta, CallID: codec.UnwrapID(w.ToolUseID.Value()), Kind: llm.FunctionTool, Failed: w.IsError.Value()}
	if r.CallID == "" { // ANT-16
		return nil, errors.New("tool_result needs the tool_use_id of its call")
	}
	c, ok := w.Content.Get()
	if r.Missing = !ok; r.Missing {
		return r, nil
	}
	if text, ok := c.Text.Get(); ok {
		r.Blocks = []llm.Block{&llm.Text{Text: text.String()}}
		return r, nil
	}
	for _, raw := range c.Blocks.Value().All() {
		b, err := decodeBlock(*raw)
		if err != nil {
			return nil, err
		}
		r.Blocks = append(r.Blocks, b)
	}
	r.Listed = len(r.Blocks) == 0 || len(r.Blocks) == 1 && isPlain(r.Blocks[0])
	return r, nil
}

// Result encodes a tool result.
func (e *requestEncoder) Result(r blockcodec.Result) []wire.Raw {
	w := Block{Type: wire.Some("tool_result"), ToolUseID: wire.Some(r.ID), CacheControl: e.cache(r.At, r.Cache), Extra: kept.Extra(r.Ext)}
	if r.Failed {
		w.IsError = wire.Some(true)
	}
	if !r.Missing {
		w.Content = wire.Some(e.resultContent(r.At, r.ToolResult))
	}
	return e.Marshal(r.At, &w)
}

func (e *requestEncoder) resultContent(at string, r *llm.ToolResult) Content {
	if len(r.Blocks) == 0 && !r.Listed {
		return Content{Text: wire.Some(wire.NewText(""))}
	}
	if len(r.Blocks) == 1 && isPlain(r.Blocks[0]) && !r.Listed {
		return Content{Text: wire.Some(wire.NewText(r.Blocks[0].(*llm.Text).Text))}
	}
	list, alone := blockcodec.JoinBlank(r.Blocks)
	for _, k := range alone {
		e.Report.Drop(codec.At(at+".blocks", k), "turn.empty", "a text must hold more than white space")
	}
	var blocks wire.List[wire.Raw]
	for k, b := range list {
		if !blockcodec.IsText(b, blockcodec.IsBlank) {
			for _, raw := range e.block(codec.At(at+".blocks", k), llm.ToolRole, b, b.Common().Cache) {
				blocks.Append(&raw)
			}
		}
	}
	return Content{Blocks: wire.Some(blocks)}
}

// arrayItems splits an array. It returns nil for other values.
func arrayItems(raw wire.Raw) []wire.Raw {
	var items []jsontext.Value
	if raw.Kind() != '[' || json.Unmarshal(raw, &items, wire.Lenient) != nil {
		return nil
	}
	return items
}

package converse

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// maxID is the maximum length of a call's id.
const maxID = 64

// idByte reports whether an id of a call may contain a byte.
func idByte(b byte) bool { return llm.WordByte(b) || b == '.' || b == ':' }

// Result encodes a tool result, and its cache mark after it.
func (e *requestEncoder) Result(r blockcodec.Result) []wire.Raw {
	w := ToolResult{ToolUseID: wire.Some(r.ID), Content: wire.Some(e.resultContent(r.At, r.ToolResult)), Extra: kept.Extra(withoutMarks(r.Ext))}
	if r.Failed {
		w.Status = wire.Some("error")
	} else if r.Ext.Protocol == own {
		w.Status = wire.NonZero(wire.Unquote(wire.Raw(r.Ext.Get(codec.MarkPrefix + statusMark))))
	}
	out := e.Marshal(r.At, &Block{ToolResult: wire.Some(w)})
	if mark := resultMark(r.ToolResult); mark != nil && out != nil {
		out = append(out, e.cachePoint(r.At, mark))
	}
	return out
}

// resultMark returns the cache mark of a result, or the last one in its content, where the
// protocol has none.
func resultMark(r *llm.ToolResult) *llm.CacheMark {
	mark := r.Cache
	for _, b := range r.Blocks {
		if c := b.Common().Cache; c != nil && r.Cache == nil {
			mark = c
		}
	}
	return mark
}

func (e *requestEncoder) resultContent(at string, r *llm.ToolResult) wire.List[wire.Raw] {
	list, alone := blockcodec.JoinBlank(r.Blocks)
	if len(r.Blocks) > 1 { // a single blank text is an empty result
		for _, k := range alone {
			e.Report.Drop(codec.At(at+".blocks", k), "turn.empty", "a text must hold more than white space")
		}
	}
	var blocks wire.List[wire.Raw]
	for k, b := range list {
		at := codec.At(at+".blocks", k)
		if blockcodec.IsText(b, blockcodec.IsBlank) {
			continue
		}
		if m, ok := b.(*llm.Media); ok && m.Kind == llm.Audio {
			e.Report.Refuse(at, "media.unsupported", "a tool result cannot hold audio")
			continue
		}
		for _, raw := range e.block(at, llm.ToolRole, b) {
			blocks.Append(&raw)
		}
	}
	return blocks
}

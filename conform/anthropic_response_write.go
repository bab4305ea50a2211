package conform

import "strings"

func (anthropic) stopReason(r Response) string {
	return map[string]string{"end": "end_turn", "sequence": "stop_sequence", "tool": "tool_use", "length": "max_tokens", "filter": "refusal"}[r.Stop]
}

func (anthropic) usage(u *Usage) object {
	if u == nil {
		u = &Usage{}
	}
	return object{"input_tokens": u.In - u.Cached - u.Written, "cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": u.Written,
		"output_tokens": u.Out, "output_tokens_details": object{"thinking_tokens": u.Think}, "service_tier": "standard"}
}

func (anthropic) cite(c Cite) object {
	return object{"type": "web_search_result_location", "url": c.URL, "title": c.Title, "encrypted_index": "Eo8BCioIAhgB", "cited_text": c.span}
}

func (v anthropic) writeBody(r Response) []byte {
	blocks := make([]any, 0, len(r.Pieces))
	for _, p := range named(r.Pieces, Anthropic) {
		b := v.block(p)
		setIf(p.Kind == kindText, b, "citations", nil)
		if len(p.Cites) > 0 {
			var l []any
			for _, c := range p.Cites {
				l = append(l, v.cite(c))
			}
			b["citations"] = l
		}
		blocks = append(blocks, b)
	}
	return encode(object{"id": "msg_01CnKq7", "type": "message", "role": "assistant", "model": r.model, "content": blocks,
		"stop_reason": v.stopReason(r), "stop_sequence": orNull(r.Match), "usage": v.usage(r.Usage)})
}

func typed(o object) event {
	name, _ := o["type"].(string)
	return event{name: name, data: string(encode(o))}
}

func (v anthropic) writeStream(r Response) []event {
	out := v.begin(r)
	return append(out,
		typed(object{"type": "message_delta", "delta": object{"stop_reason": v.stopReason(r), "stop_sequence": orNull(r.Match)}, "usage": v.usage(r.Usage)}),
		typed(object{"type": "message_stop"}))
}

func (v anthropic) begin(r Response) []event {
	r.Pieces = named(r.Pieces, Anthropic)
	r.interleave = false // blocks are sent in sequence
	early := v.usage(r.Usage)
	early["output_tokens"] = 1
	out := []event{typed(object{"type": "message_start", "message": object{"id": "msg_01CnKq7", "type": "message", "role": "assistant",
		"model": r.model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": early}}), typed(object{"type": "ping"})}
	for _, s := range r.steps(bodyOf) {
		p := r.Pieces[s.piece]
		if s.first {
			out = append(out, typed(object{"type": "content_block_start", "index": s.piece, "content_block": v.opening(p)}))
		} else if s.text != "" {
			out = append(out, typed(object{"type": "content_block_delta", "index": s.piece, "delta": v.delta(p, s.text)}))
		}
		if s.last {
			out = append(out, v.closing(p, s.piece)...)
		}
	}
	return out
}

func (v anthropic) opening(p Piece) object {
	switch p.Kind {
	case kindThink:
		if p.Redacted {
			return object{"type": "redacted_thinking", "data": p.Sig}
		}
		return object{"type": "thinking", "thinking": "", "signature": ""}
	case kindCall:
		return object{"type": "tool_use", "id": p.ID, "name": p.Name, "input": object{}}
	default:
		return object{"type": "text", "text": ""}
	}
}

func (anthropic) delta(p Piece, text string) object {
	switch p.Kind {
	case kindThink:
		return object{"type": "thinking_delta", "thinking": text}
	case kindCall:
		return object{"type": "input_json_delta", "partial_json": text}
	default:
		return object{"type": "text_delta", "text": text}
	}
}

func (v anthropic) closing(p Piece, index int) []event {
	var out []event
	if p.Sig != "" && !p.Redacted {
		out = append(out, typed(object{"type": "content_block_delta", "index": index, "delta": object{"type": "signature_delta", "signature": p.Sig}}))
	}
	for _, c := range p.Cites {
		out = append(out, typed(object{"type": "content_block_delta", "index": index, "delta": object{"type": "citations_delta", "citation": v.cite(c)}}))
	}
	return append(out, typed(object{"type": "content_block_stop", "index": index}))
}

func (anthropic) errorBody(f APIError) object {
	return object{"type": "error", "error": object{"type": errorKinds()[f.Kind].anthropicType, "message": f.Message}, "request_id": "req_01CnKq7"}
}

func (v anthropic) writeError(f APIError) (int, []byte) {
	if f.Kind == "context" {
		f.Message = "prompt is too long: " + f.Message
	}
	return f.status(Anthropic), encode(v.errorBody(f))
}

func (v anthropic) writeStreamError(f APIError, before Response) []event {
	var out []event
	if len(before.Pieces) > 0 {
		out = v.begin(before)
		if n := len(out); strings.Contains(out[n-1].name, "block_stop") {
			out = out[:n-1] // the error interrupts a block
		}
	}
	return append(out, typed(v.errorBody(f)))
}

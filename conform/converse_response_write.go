package conform

func (converse) stopReason(r Response) string {
	return map[string]string{"end": "end_turn", "sequence": "stop_sequence", "tool": "tool_use", "length": "max_tokens", "filter": "content_filtered"}[r.Stop]
}

func (converse) usage(u *Usage) object {
	if u == nil {
		u = &Usage{}
	}
	return object{"inputTokens": u.In - u.Cached - u.Written, "outputTokens": u.Out, "totalTokens": u.In + u.Out,
		"cacheReadInputTokens": u.Cached, "cacheWriteInputTokens": u.Written}
}

// match returns the members in the model's own form.
func (converse) match(o object, r Response) object {
	setIf(r.Match != "", o, "additionalModelResponseFields", object{"stop_sequence": r.Match})
	return o
}

func (converse) cite(c Cite) object {
	return object{"title": c.Title, "sourceContent": []any{object{"text": c.span}}, "location": object{"web": object{"url": c.URL}}}
}

func (v converse) writeBody(r Response) []byte {
	blocks := []any{}
	for _, p := range named(r.Pieces, Converse) {
		b := v.block(p)
		if len(p.Cites) > 0 {
			var list []any
			for _, c := range p.Cites {
				list = append(list, v.cite(c))
			}
			b = object{"citationsContent": object{"content": []any{object{"text": p.Text}}, "citations": list}}
		}
		blocks = append(blocks, b)
	}
	return encode(v.match(object{"output": object{"message": object{"role": "assistant", "content": blocks}}, "stopReason": v.stopReason(r),
		"usage": v.usage(r.Usage), "metrics": object{"latencyMs": 7}}, r))
}

func frameEvent(name string, o object) event { return event{name: name, data: string(encode(o))} }

func (v converse) writeStream(r Response) []event {
	return append(v.begin(r), frameEvent("messageStop", v.match(object{"stopReason": v.stopReason(r)}, r)),
		frameEvent("metadata", object{"usage": v.usage(r.Usage), "metrics": object{"latencyMs": 7}}))
}

func (v converse) begin(r Response) []event {
	r.Pieces = named(r.Pieces, Converse)
	r.interleave = false // blocks are sent in sequence
	out := []event{frameEvent("messageStart", object{"role": "assistant"})}
	for _, s := range r.steps(bodyOf) {
		p := r.Pieces[s.piece]
		delta := func(o object) {
			out = append(out, frameEvent("contentBlockDelta", object{"contentBlockIndex": s.piece, "delta": o}))
		}
		switch {
		case s.first && p.Kind == kindCall:
			out = append(out, frameEvent("contentBlockStart", object{"contentBlockIndex": s.piece, "start": object{"toolUse": object{"toolUseId": p.ID, "name": p.Name}}}))
		case s.first && p.Redacted:
			delta(object{"reasoningContent": object{"redactedContent": p.Sig}})
		case s.text != "":
			delta(v.delta(p, s.text))
		}
		if !s.last {
			continue
		}
		if p.Kind == kindThink && p.Sig != "" && !p.Redacted {
			delta(object{"reasoningContent": object{"signature": p.Sig}})
		}
		for _, c := range p.Cites {
			delta(object{"citation": v.cite(c)})
		}
		out = append(out, frameEvent("contentBlockStop", object{"contentBlockIndex": s.piece}))
	}
	return out
}

func (converse) delta(p Piece, text string) object {
	switch p.Kind {
	case kindThink:
		return object{"reasoningContent": object{"text": text}}
	case kindCall:
		return object{"toolUse": object{"input": text}}
	default:
		return object{"text": text}
	}
}

func (converse) writeError(f APIError) (int, []byte) {
	if f.Kind == "context" {
		f.Message = "Input is too long. " + f.Message
	}
	return f.status(Converse), encode(object{"__type": errorKinds()[f.Kind].exception, "message": f.Message})
}

func (v converse) writeStreamError(f APIError, before Response) []event {
	var out []event
	if len(before.Pieces) > 0 {
		out = v.begin(before)
		if n := len(out); out[n-1].name == "contentBlockStop" {
			out = out[:n-1] // the error interrupts a block
		}
	}
	name := map[string]string{"invalid": "validationException", "context": "validationException", "rate_limit": "throttlingException", "overloaded": "serviceUnavailableException"}[f.Kind]
	if name == "" {
		name = "internalServerException"
	}
	return append(out, frameEvent(name, object{"message": f.Message}))
}

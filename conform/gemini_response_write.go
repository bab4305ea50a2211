package conform

func (gemini) finish(r Response) string {
	return map[string]string{"end": "STOP", "tool": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"}[r.Stop]
}

func (gemini) usage(u *Usage) object {
	o := object{"promptTokenCount": u.In, "candidatesTokenCount": u.Out - u.Think, "totalTokenCount": u.In + u.Out}
	setIf(u.Cached > 0, o, "cachedContentTokenCount", u.Cached)
	setIf(u.Think > 0, o, "thoughtsTokenCount", u.Think)
	return o
}

// grounding returns the citations as spans of a part, in bytes. Adjacent texts are one part.
func (gemini) grounding(pieces []Piece) object {
	var chunks, supports []any
	at, part := 0, 0
	for i, p := range pieces {
		if p.Kind != kindText {
			at, part = 0, i+1
			continue
		}
		for _, c := range p.Cites {
			chunks = append(chunks, object{"web": object{"uri": c.URL, "title": c.Title}})
			supports = append(supports, object{"segment": object{"partIndex": part, "startIndex": at, "endIndex": at + len(p.Text), "text": p.Text},
				"groundingChunkIndices": []int{len(chunks) - 1}})
		}
		at += len(p.Text)
	}
	if chunks == nil {
		return nil
	}
	return object{"groundingChunks": chunks, "groundingSupports": supports}
}

func (v gemini) response(r Response, parts []any, last bool) object {
	c := object{"index": r.index}
	if parts != nil {
		c["content"] = object{"role": "model", "parts": parts}
	}
	o := object{"candidates": []any{c}, "modelVersion": r.model, "responseId": "CnKq7XvTb2"}
	if last {
		c["finishReason"] = v.finish(r)
		if g := v.grounding(r.Pieces); g != nil {
			c["groundingMetadata"] = g
		}
	}
	if r.Usage != nil {
		o["usageMetadata"] = v.usage(r.Usage)
	}
	return o
}

func (v gemini) writeBody(r Response) []byte {
	o := v.response(r, v.joinedParts(r), true)
	for i, other := range r.others {
		other.index = i + 1
		list, _ := v.response(other, v.joinedParts(other), true)["candidates"].([]any)
		first, _ := o["candidates"].([]any)
		o["candidates"] = append(first, list...)
	}
	return encode(o)
}

// joinedParts returns the parts, in which adjacent texts are one.
func (v gemini) joinedParts(r Response) []any {
	parts := []any{}
	for i, p := range r.Pieces {
		if n := len(parts); i > 0 && p.Kind == kindText && r.Pieces[i-1].Kind == kindText && p.Sig == "" {
			last, _ := parts[n-1].(object)
			last["text"] = merge(last["text"], p.Text)
			continue
		}
		parts = append(parts, v.part(p))
	}
	return parts
}

func (v gemini) writeStream(r Response) []event {
	out := append(v.begin(r), event{data: string(encode(v.response(r, []any{object{"text": ""}}, true)))})
	for i, o := range r.others {
		o.index, o.model, o.Usage = i+1, r.model, r.Usage
		out = append(append(out, v.begin(o)...), event{data: string(encode(v.response(o, []any{object{"text": ""}}, true)))})
	}
	return out
}

// begin returns the events up to the end of the pieces. A call is one event.
func (v gemini) begin(r Response) []event {
	var out []event
	for _, p := range r.Pieces {
		cut := []string{""}
		if p.Kind != kindCall {
			cut = p.fragments(p.Text, r.grain)
		}
		for i, f := range cut {
			q := p
			if p.Kind != kindCall {
				q.Text = f
			}
			if i != r.sealed(len(cut)) {
				q.Sig = ""
			}
			out = append(out, event{data: string(encode(v.response(r, []any{v.part(q)}, false)))})
		}
	}
	return out
}

// sealed returns which of n fragments has the signature: the first, or the last for some sizes
// of fragments.
func (r Response) sealed(n int) int {
	if len(r.grain) > 1 && n > 0 {
		return n - 1
	}
	return 0
}

func (gemini) errorBody(f APIError) object {
	e := object{"code": f.status(Gemini), "message": f.Message, "status": errorKinds()[f.Kind].geminiStatus}
	setIf(f.Retry != "", e, "details", []any{object{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f.Retry + "s"}})
	return object{"error": e}
}

func (v gemini) writeError(f APIError) (int, []byte) { return f.status(Gemini), encode(v.errorBody(f)) }

func (v gemini) writeStreamError(f APIError, before Response) []event {
	return append(v.begin(before), event{data: string(encode(v.errorBody(f)))})
}

package conform

func (chat) finish(r Response) string {
	if r.has(kindRefusal) {
		return "stop" // a refusal has its own member
	}
	return map[string]string{"end": "stop", "sequence": "stop", "tool": "tool_calls", "length": "length", "filter": "content_filter"}[r.Stop]
}

func (chat) usage(u *Usage) any {
	if u == nil {
		return nil
	}
	return object{"prompt_tokens": u.In, "completion_tokens": u.Out, "total_tokens": u.In + u.Out,
		"prompt_tokens_details":     object{"cached_tokens": u.Cached, "cache_write_tokens": u.Written, "audio_tokens": 0},
		"completion_tokens_details": object{"reasoning_tokens": u.Think, "audio_tokens": 0}}
}

// annotations returns the citations as spans of the whole text, in characters.
func (chat) annotations(pieces []Piece) []any {
	list := []any{}
	at := 0
	for _, p := range pieces {
		if p.Kind != kindText {
			continue
		}
		end := at + len([]rune(p.Text))
		for _, c := range p.Cites {
			list = append(list, object{"type": "url_citation", "url_citation": object{"start_index": at, "end_index": end, "title": c.Title, "url": c.URL}})
		}
		at = end
	}
	return list
}

func (v chat) writeBody(r Response) []byte {
	choices := []any{v.wholeChoice(r, 0)}
	for i, o := range r.others {
		choices = append(choices, v.wholeChoice(o, i+1))
	}
	return encode(object{"id": "chatcmpl-Cn1", "object": "chat.completion", "created": 1790000000, "model": r.model,
		"choices": choices, "usage": v.usage(r.Usage)})
}

func (v chat) wholeChoice(r Response, index int) object {
	pieces := named(r.Pieces, Chat)
	m := v.assistant(pieces)
	m["refusal"] = orNull(joined(pieces, kindRefusal))
	if s := joined(pieces, kindThink); s != "" {
		m["reasoning_content"] = s
	}
	m["annotations"] = v.annotations(pieces)
	return object{"index": index, "message": m, "logprobs": nil, "finish_reason": v.finish(r)}
}

func (v chat) chunk(r Response, choices []any, usage any) event {
	o := object{"id": "chatcmpl-Cn1", "object": "chat.completion.chunk", "created": 1790000000, "model": r.model, "choices": choices}
	setIf(r.options.usage, o, "usage", usage)
	return event{data: string(encode(o))}
}

func (v chat) delta(r Response, d object, finish any) event {
	return v.chunk(r, []any{object{"index": r.index, "delta": d, "logprobs": nil, "finish_reason": finish}}, nil)
}

func (v chat) writeStream(r Response) []event {
	out := v.begin(r)
	out = append(out, v.delta(r, object{}, v.finish(r)))
	for i, o := range r.others {
		o.index, o.options, o.model = i+1, r.options, r.model
		out = append(out, v.begin(o)...)
		out = append(out, v.delta(o, object{}, v.finish(o)))
	}
	if r.options.usage && r.Usage != nil {
		out = append(out, v.chunk(r, []any{}, v.usage(r.Usage)))
	}
	return append(out, event{data: "[DONE]"})
}

// begin returns the events up to the end of the pieces.
func (v chat) begin(r Response) []event {
	r.Pieces = named(r.Pieces, Chat)
	out := []event{v.delta(r, object{"role": "assistant", "content": "", "refusal": nil}, nil)}
	index := map[int]int{}
	for _, s := range r.steps(bodyOf) {
		p := r.Pieces[s.piece]
		switch {
		case p.Kind == kindCall:
			out = append(out, v.delta(r, v.callDelta(p, s, index), nil))
		case s.text == "":
		default:
			member := map[string]string{kindText: "content", kindThink: "reasoning_content", kindRefusal: "refusal"}[p.Kind]
			out = append(out, v.delta(r, object{member: s.text}, nil))
		}
	}
	if a := v.annotations(r.Pieces); len(a) > 0 {
		out = append(out, v.delta(r, object{"annotations": a}, nil))
	}
	return out
}

// bodyOf returns the text that a stream sends in fragments.
func bodyOf(p Piece) string {
	if p.Kind == kindCall {
		return p.Args
	}
	return p.Text
}

// callKind returns the type of a call.
func (p Piece) callKind() string {
	if p.Custom {
		return "custom"
	}
	return "function"
}

func (chat) callDelta(p Piece, s step, index map[int]int) object {
	kind := p.callKind()
	if s.first {
		index[s.piece] = len(index)
		return object{"tool_calls": []any{object{"index": index[s.piece], "id": p.ID, "type": kind, kind: object{"name": p.Name, chatArgs(kind): ""}}}}
	}
	return object{"tool_calls": []any{object{"index": index[s.piece], kind: object{chatArgs(kind): s.text}}}}
}

func openAIError(f APIError) object {
	k := errorKinds()[f.Kind]
	return object{"error": object{"message": f.Message, "type": k.typ, "param": nil, "code": orNull(k.code)}}
}

func (chat) writeError(f APIError) (int, []byte) { return f.status(Chat), encode(openAIError(f)) }

func (v chat) writeStreamError(f APIError, before Response) []event {
	var out []event
	if len(before.Pieces) > 0 {
		out = v.begin(before)
	}
	return append(out, event{data: string(encode(openAIError(f)))})
}

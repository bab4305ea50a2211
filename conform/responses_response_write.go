package conform

import "fmt"

// output is one item of a response. Adjacent texts share a message.
type output struct {
	kind   string // message, reasoning, function_call
	id     string
	pieces []Piece
	at     []int // positions of the pieces in the response
}

func (responses) outputs(r Response) []output {
	var out []output
	for i, p := range named(r.Pieces, Responses) {
		kind := "message"
		switch {
		case p.Kind == kindThink:
			kind = "reasoning"
		case p.Search:
			kind = searchCall
		case p.Custom:
			kind = "custom_tool_call"
		case p.Kind == kindCall:
			kind = "function_call"
		default:
			if n := len(out); n > 0 && out[n-1].kind == kind && out[n-1].pieces[0].Kind == p.Kind {
				out[n-1].pieces, out[n-1].at = append(out[n-1].pieces, p), append(out[n-1].at, i)
				continue
			}
		}
		id := fmt.Sprintf("%s_Cn%02dKq7", map[string]string{"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc", searchCall: "tsc"}[kind], len(out))
		out = append(out, output{kind, id, []Piece{p}, []int{i}})
	}
	return out
}

func (v responses) annotations(pieces []Piece) []any {
	nested := chat{}.annotations(pieces)
	list := make([]any, 0, len(nested))
	for _, a := range nested {
		o, _ := a.(object)["url_citation"].(object)
		o["type"] = "url_citation"
		list = append(list, o)
	}
	return list
}

// messagePart returns the content part of a message.
func (v responses) messagePart(o output) object {
	if o.pieces[0].Kind == kindRefusal {
		return object{"type": "refusal", "refusal": joined(o.pieces, kindRefusal)}
	}
	return object{"type": "output_text", "text": joined(o.pieces, kindText), "annotations": v.annotations(o.pieces), "logprobs": []any{}}
}

func (v responses) outputItem(o output, r Response, status string) object {
	item := object{"type": o.kind, "id": o.id, "status": status}
	p := o.pieces[0]
	switch o.kind {
	case "message":
		item["role"], item["content"] = "assistant", []any{v.messagePart(o)}
	case "reasoning":
		delete(item, "status")
		item["summary"] = summary(p)
		setIf(r.options.sealed && p.Sig != "", item, "encrypted_content", p.Sig)
	case searchCall:
		item["call_id"], item["execution"], item["arguments"] = p.ID, "client", raw(orEmpty(p.Args))
	default:
		item["call_id"], item["name"], item[argsMember(o.kind)] = p.ID, p.Name, p.Args
		setIf(p.Space != "", item, "namespace", p.Space)
	}
	return item
}

func (v responses) response(r Response, status string, output []any) object {
	o := object{"id": "resp_CnKq7XvT", "object": "response", "created_at": 1790000000, "model": r.model, "status": status, "output": output,
		"error": nil, "incomplete_details": nil, "usage": nil, "parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}}
	if status == "incomplete" {
		reason := "max_output_tokens"
		if r.Stop == "filter" {
			reason = "content_filter"
		}
		o["incomplete_details"] = object{"reason": reason}
	}
	if u := r.Usage; u != nil && status != "in_progress" {
		o["usage"] = object{"input_tokens": u.In, "input_tokens_details": object{"cached_tokens": u.Cached, "cache_write_tokens": u.Written},
			"output_tokens": u.Out, "output_tokens_details": object{"reasoning_tokens": u.Think}, "total_tokens": u.In + u.Out}
	}
	return o
}

func (responses) status(r Response) string {
	if r.Stop == "length" || r.Stop == "filter" && !r.has(kindRefusal) {
		return "incomplete"
	}
	return "completed"
}

func (v responses) outputItems(r Response) []any {
	status := v.status(r)
	outputs := v.outputs(r)
	list := make([]any, 0, len(outputs))
	for i, o := range outputs {
		s := "completed"
		if i == len(outputs)-1 {
			s = status
		}
		list = append(list, v.outputItem(o, r, s))
	}
	return list
}

func (v responses) writeBody(r Response) []byte {
	return encode(v.response(r, v.status(r), v.outputItems(r)))
}

func (v responses) writeStream(r Response) []event {
	w := v.begin(r, len(r.Pieces))
	status := v.status(r)
	w.event("response."+status, object{"response": v.response(r, status, v.outputItems(r))})
	return w.events
}

// responsesWriter numbers its events.
type responsesWriter struct {
	codec  responses
	reply  Response
	events []event
}

func (w *responsesWriter) event(kind string, o object) {
	o["type"], o["sequence_number"] = kind, len(w.events)
	w.events = append(w.events, typed(o))
}

// begin writes the events of all pieces and closes the first closed of them.
func (v responses) begin(r Response, closed int) *responsesWriter {
	w := &responsesWriter{codec: v, reply: r}
	w.event("response.created", object{"response": v.response(r, "in_progress", []any{})})
	w.event("response.in_progress", object{"response": v.response(r, "in_progress", []any{})})
	outputs := v.outputs(r)
	where := map[int]int{}
	for i, o := range outputs {
		for _, at := range o.at {
			where[at] = i
		}
	}
	for _, s := range r.steps(bodyOf) {
		i := where[s.piece]
		o := outputs[i]
		if s.first && s.piece == o.at[0] {
			w.open(i, o)
		}
		if s.text != "" && o.kind != searchCall {
			w.delta(i, o, s.text)
		}
		if s.last && s.piece == o.at[len(o.at)-1] && s.piece < closed {
			w.close(i, o, i == len(outputs)-1)
		}
	}
	return w
}

func (w *responsesWriter) open(i int, o output) {
	item := w.codec.outputItem(o, w.reply, "in_progress")
	switch o.kind {
	case "message":
		item["content"] = []any{}
	case "reasoning":
		item["summary"] = []any{}
	case searchCall:
		item["arguments"] = object{}
	default:
		item[argsMember(o.kind)] = ""
	}
	w.event("response.output_item.added", object{"output_index": i, "item": item})
	switch o.kind {
	case "message":
		part := object{"type": "output_text", "text": "", "annotations": []any{}, "logprobs": []any{}}
		if o.pieces[0].Kind == kindRefusal {
			part = object{"type": "refusal", "refusal": ""}
		}
		w.event("response.content_part.added", object{"item_id": o.id, "output_index": i, "content_index": 0, "part": part})
	case "reasoning":
		if o.pieces[0].Redacted {
			return
		}
		w.event("response.reasoning_summary_part.added", object{"item_id": o.id, "output_index": i, "summary_index": 0, "part": object{"type": "summary_text", "text": ""}})
	}
}

func (w *responsesWriter) names(o output) (kind, index, member string) {
	switch {
	case o.kind == "reasoning":
		return "response.reasoning_summary_text", "summary_index", "text"
	case o.kind == "function_call":
		return "response.function_call_arguments", "", "arguments"
	case o.kind == "custom_tool_call":
		return "response.custom_tool_call_input", "", "input"
	case o.pieces[0].Kind == kindRefusal:
		return "response.refusal", "content_index", "refusal"
	default:
		return "response.output_text", "content_index", "text"
	}
}

func (w *responsesWriter) delta(i int, o output, text string) {
	kind, index, _ := w.names(o)
	e := object{"item_id": o.id, "output_index": i, "delta": text}
	if index != "" {
		e[index] = 0
	}
	setIf(o.kind == "message" && o.pieces[0].Kind == kindText, e, "logprobs", []any{})
	w.event(kind+".delta", e)
}

func (w *responsesWriter) close(i int, o output, last bool) {
	kind, index, member := w.names(o)
	place := func() object {
		e := object{"item_id": o.id, "output_index": i}
		if index != "" {
			e[index] = 0
		}
		return e
	}
	body := ""
	for _, p := range o.pieces {
		body += bodyOf(p)
	}
	for n, a := range w.codec.annotations(o.pieces) {
		e := place()
		e["annotation_index"], e["annotation"] = n, a
		w.event("response.output_text.annotation.added", e)
	}
	if !o.pieces[0].Redacted && o.kind != searchCall {
		e := place()
		e[member] = body
		w.event(kind+".done", e)
	}
	switch o.kind {
	case "message":
		e := place()
		e["part"] = w.codec.messagePart(o)
		w.event("response.content_part.done", e)
	case "reasoning":
		if o.pieces[0].Redacted {
			break
		}
		e := place()
		e["part"] = object{"type": "summary_text", "text": body}
		w.event("response.reasoning_summary_part.done", e)
	}
	status := "completed"
	if last {
		status = w.codec.status(w.reply)
	}
	w.event("response.output_item.done", object{"output_index": i, "item": w.codec.outputItem(o, w.reply, status)})
}

func (responses) writeError(f APIError) (int, []byte) {
	return f.status(Responses), encode(openAIError(f))
}

func (v responses) writeStreamError(f APIError, before Response) []event {
	w := v.begin(before, len(before.Pieces)-1) // the last item stays open
	code := errorKinds()[f.Kind].code
	if code == "" {
		code = "server_error"
	}
	r := v.response(before, "failed", []any{})
	r["error"] = object{"code": code, "message": f.Message}
	w.event("response.failed", object{"response": r})
	return w.events
}

package conform

import (
	"fmt"
	"strings"
)

var converseStops = map[string]string{"end_turn": "end", "stop_sequence": "sequence", "tool_use": "tool", "max_tokens": "length",
	"content_filtered": "filter", "guardrail_intervened": "filter", "model_context_window_exceeded": "length"}

func (v converse) readBody(body []byte) Reading {
	s, o := openResponse(body)
	bad := &s.Problems
	m := o.at("output", "message")
	bad.addIf(m.at("role").str() != "assistant" || !m.at("content").isList(), "no message of the assistant: %.120s", o)
	bad.addIf(!o.at("metrics", "latencyMs").here, "no metrics")
	for _, b := range m.at("content").list() {
		v.readBlock(s, b, bad)
	}
	s.Echo = m.at("content").v
	s.Match = o.at("additionalModelResponseFields", "stop_sequence").str()
	v.stop(s, o.at("stopReason").str(), bad)
	s.Usage = v.readUsage(o.at("usage"), bad, &s.Values)
	s.Ended = s.Stop != ""
	return *s
}

func (converse) readUsage(o value, bad, sums *problemList) *Usage {
	fresh, ok1 := o.at("inputTokens").count()
	out, ok2 := o.at("outputTokens").count()
	total, ok3 := o.at("totalTokens").count()
	bad.addIf(!ok1 || !ok2 || !ok3, "usage without inputTokens, outputTokens or totalTokens: %s", o)
	u := Usage{Cached: o.at("cacheReadInputTokens").amount(), Written: o.at("cacheWriteInputTokens").amount(), Out: out}
	u.In = fresh + u.Cached + u.Written
	sums.addIf(total != u.In+u.Out, "totalTokens is %d, want %d", total, u.In+u.Out)
	return &u
}

// readBlock reads a finished block.
func (v converse) readBlock(s *Reading, b value, bad *problemList) {
	before := len(s.Pieces)
	defer func() { s.markForeignSeal(before, hasForeignSeal(b.at("toolUse"))) }()
	switch kind := v.union(b, bad); kind {
	case "text":
		s.Pieces = appendText(s.Pieces, kindText, b.at("text").str())
	case "citationsContent":
		p := Piece{Kind: kindText}
		for _, c := range b.at(kind, "content").list() {
			p.Text += c.at("text").str()
		}
		for _, c := range b.at(kind, "citations").list() {
			p.Cites = append(p.Cites, Cite{c.at("location", "web", "url").str(), c.at("title").str(), p.Text})
		}
		s.Pieces = append(s.Pieces, p)
	case "reasoningContent":
		s.Pieces = append(s.Pieces, v.readReasoning(b.at(kind), bad))
	case "toolResult", "image": // of the vendor's tools
	case "toolUse":
		if b.at(kind, "type").here {
			break // the vendor runs it
		}
		p := v.readCall(b.at(kind), bad)
		for _, other := range s.calls() {
			bad.addIf(other.ID == p.ID, "two calls have the id %q", p.ID)
		}
		s.Pieces = append(s.Pieces, p)
	default:
		bad.add("a block %q", kind)
	}
}

func (converse) stop(s *Reading, reason string, bad *problemList) {
	if s.Stop = converseStops[reason]; s.Stop == "" && reason != "" {
		s.Stop = otherStop + reason
	}
	if calls := len(s.calls()); (s.Stop == "tool") != (calls > 0) && s.Stop != "length" && s.Stop != "filter" {
		bad.add("stopReason %s with %d calls (INV-12)", reason, calls)
	}
}

// converseReader assembles blocks and checks the order of events.
type converseReader struct {
	seen   Reading
	bad    *problemList
	blocks []any
	open   object // nil: none
	json   string // the arguments of its call
	broken string // arguments that are not an object; allowed if the output limit was reached
	reason string
	state  string // "", started, stopped, over
}

func (v converse) readStream(events []event) Reading {
	r := converseReader{blocks: []any{}}
	r.bad = &r.seen.Problems
	for _, e := range events {
		o, err := parse([]byte(e.data))
		if err != nil || !o.isObject() {
			r.bad.add("not a JSON object: %.80q", e.data)
			continue
		}
		if r.state == "over" || r.seen.Err != nil {
			r.bad.add("%s after the end (INV-3)", e.name)
			break
		}
		r.event(e.name, o)
	}
	if r.open != nil && r.seen.Err != nil {
		r.json = "" // the text before the error
		r.close()
	}
	for _, b := range r.blocks {
		v.readBlock(&r.seen, value{b, true}, r.bad)
	}
	r.seen.Echo = r.blocks
	if r.reason != "" && r.seen.Err == nil {
		v.stop(&r.seen, r.reason, r.bad)
	}
	r.bad.addIf(r.broken != "" && r.seen.Stop != "length", "the input adds up to %.120q (INV-8)", r.broken)
	r.seen.Ended = r.state == "stopped" || r.state == "over"
	return r.seen
}

func (r *converseReader) event(name string, o value) {
	switch name {
	case "messageStart":
		r.bad.addIf(r.state != "" || o.at("role").str() != "assistant", "messageStart in state %q: %s", r.state, o)
		r.state = "started"
	case "contentBlockStart", "contentBlockDelta", "contentBlockStop":
		r.bad.addIf(r.state != "started", "%s in state %q (INV-7)", name, r.state)
		r.block(name, o)
	case "messageStop":
		r.bad.addIf(r.state != "started" || r.open != nil, "messageStop in state %q, block open: %v (INV-7)", r.state, r.open != nil)
		r.state, r.reason = "stopped", o.at("stopReason").str()
		r.bad.addIf(r.reason == "", "messageStop without stopReason")
		r.seen.Match = o.at("additionalModelResponseFields", "stop_sequence").str()
	case "metadata":
		r.bad.addIf(r.state != "stopped" || !o.at("metrics", "latencyMs").here, "metadata in state %q: %s", r.state, o)
		r.state = "over"
		r.seen.Usage = converse{}.readUsage(o.at("usage"), r.bad, &r.seen.Values)
	default:
		if !strings.HasSuffix(name, "Exception") {
			r.bad.add("an event %q", name)
			return
		}
		f, err := converse{}.readError(0, encode(object{"__type": name, "message": o.at("message").v}))
		r.bad.addIf(err != nil, "%v", err)
		r.seen.Err = &f
	}
}

func (r *converseReader) block(name string, o value) {
	index, ok := o.at("contentBlockIndex").count()
	if want := len(r.blocks); !ok || index != want {
		r.bad.add("%s has index %s, want %d (INV-7)", name, o.at("contentBlockIndex"), want)
	}
	switch name {
	case "contentBlockStart":
		r.bad.addIf(r.open != nil, "a block begins in a block (INV-7)")
		call := o.at("start", "toolUse")
		kind := converse{}.union(o.at("start"), r.bad)
		if r.json = ""; kind == "image" || kind == "toolResult" { // of the vendor's tools
			r.open = object{kind: o.at("start", kind).v}
			return
		}
		r.bad.addIf(kind != "toolUse" || call.at("input").here, "a block opens as %s (INV-8)", o)
		members := object{}
		for _, name := range call.names() {
			members[name] = call.at(name).v
		}
		r.open = object{"toolUse": members}
	case "contentBlockDelta":
		r.delta(o.at("delta"))
	default:
		if r.open == nil {
			r.open = object{"text": ""}
		}
		r.close()
	}
}

func (r *converseReader) close() {
	if call, ok := r.open["toolUse"].(object); ok {
		input, err := parse([]byte(orEmpty(r.json)))
		if err != nil || !input.isObject() {
			r.broken, input.v = r.json, object{}
		}
		call["input"] = input.v
	}
	r.blocks, r.open = append(r.blocks, r.open), nil
}

// delta adds a part to the open block. Text and reasoning have no event that opens them.
func (r *converseReader) delta(d value) {
	kind := converse{}.union(d, r.bad)
	if _, own := r.open[kind]; own && (kind == "image" || kind == "toolResult") {
		return
	}
	home := map[string]string{"text": "text", "citation": "citationsContent", "toolUse": "toolUse", "reasoningContent": "reasoningContent"}[kind]
	switch {
	case home == "":
		r.bad.add("a delta %q", kind)
		return
	case r.open == nil && kind == "toolUse":
		r.bad.add("a call without contentBlockStart (INV-8)")
		return
	case r.open == nil:
		r.open = object{}
	}
	switch kind {
	case "text":
		r.bad.addIf(r.open["toolUse"] != nil || r.open["reasoningContent"] != nil, "a text in another block")
		r.open["text"] = merge(r.open["text"], d.at("text").v)
	case "citation":
		text := r.open["text"]
		cited, _ := r.open["citationsContent"].(object)
		if cited == nil {
			cited = object{"content": []any{object{"text": text}}, "citations": []any{}}
		}
		delete(r.open, "text")
		list, _ := cited["citations"].([]any)
		cited["citations"] = append(list, d.at("citation").v)
		r.open["citationsContent"] = cited
	case "toolUse":
		r.bad.addIf(r.open["toolUse"] == nil, "arguments in another block")
		r.json += d.at("toolUse", "input").str()
	default:
		r.reasoning(d.at(kind))
	}
}

func (r *converseReader) reasoning(d value) {
	kind := converse{}.union(d, r.bad)
	if kind == "redactedContent" {
		r.open["reasoningContent"] = object{kind: d.at(kind).v}
		return
	}
	outer, _ := r.open["reasoningContent"].(object)
	text, _ := outer["reasoningText"].(object)
	if text == nil {
		text = object{"text": ""}
		r.open["reasoningContent"] = object{"reasoningText": text}
	}
	switch kind {
	case "text":
		text["text"] = merge(text["text"], d.at(kind).v)
	case "signature":
		text[kind] = d.at(kind).v
	default:
		r.bad.add("a delta of reasoning %q", kind)
	}
}

func (converse) readError(status int, body []byte) (APIError, error) {
	o, err := parse(body)
	typ := o.at("__type").str()
	f := APIError{Status: status, Message: o.at("message").str(), detail: typ}
	if err != nil || typ == "" || f.Message == "" {
		return f, fmt.Errorf("not an exception of Bedrock: %.200s", body)
	}
	for name, k := range errorKinds() {
		if strings.EqualFold(k.exception, typ) && name != "context" {
			f.Kind = name
		}
	}
	if f.Kind == "" && (strings.EqualFold(typ, "modelErrorException") || strings.EqualFold(typ, "modelStreamErrorException")) {
		f.Kind = "server"
	}
	if f.Kind == "" && typ == "ServiceQuotaExceededException" {
		f.Kind = "rate_limit"
	}
	if f.Kind == "" {
		return f, fmt.Errorf("%q is none of Bedrock's exceptions", typ)
	}
	return f, nil
}

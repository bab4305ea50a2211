package conform

import (
	"fmt"
	"slices"
	"strings"
)

var anthropicStops = map[string]string{"end_turn": "end", "stop_sequence": "sequence", "tool_use": "tool", "max_tokens": "length",
	"refusal": "filter", "model_context_window_exceeded": "length"}

// anthropicServerBlocks are the blocks of tools that the vendor runs.
var anthropicServerBlocks = strings.Fields(`server_tool_use mcp_tool_use mcp_tool_result web_search_tool_result web_fetch_tool_result
	code_execution_tool_result bash_code_execution_tool_result text_editor_code_execution_tool_result tool_search_tool_result
	container_upload compaction`)

func (v anthropic) readBody(body []byte) Reading {
	s, o := openResponse(body)
	bad := &s.Problems
	v.envelope(o, bad)
	bad.addIf(!o.at("content").isList(), "content is no list")
	for _, b := range o.at("content").list() {
		v.readBlock(s, b, bad)
	}
	s.Echo = o.at("content").v
	v.stop(s, o, bad)
	s.Usage = v.readUsage(Usage{}, o.at("usage"), &s.Values)
	s.Ended = s.Stop != ""
	return *s
}

func (anthropic) envelope(o value, bad *problemList) {
	if o.at("id").str() == "" || o.at("type").str() != "message" || o.at("role").str() != "assistant" || !o.at("model").isString() {
		bad.add("id, type, role or model of the message is missing: %.120s", o.String())
	}
	bad.addIf(!o.at("usage", "input_tokens").here || !o.at("usage", "output_tokens").here, "usage without input_tokens or output_tokens")
	bad.addIf(!o.at("stop_reason").here || !o.at("stop_sequence").here, "stop_reason or stop_sequence is not even null")
}

// readBlock reads a finished block.
func (v anthropic) readBlock(s *Reading, b value, bad *problemList) {
	before := len(s.Pieces)
	defer func() { s.markForeignSeal(before, hasForeignSeal(b)) }()
	switch kind := b.at("type").str(); kind {
	case "text":
		p := Piece{Kind: kindText, Text: b.at("text").str()}
		for _, c := range b.at("citations").list() {
			cite := Cite{c.at("url").str(), c.at("title").str(), p.Text}
			s.Values.addIf(c.at("type").str() == "web_search_result_location" && c.at("encrypted_index").str() == "", "a web citation without encrypted_index: %s", c)
			p.Cites = append(p.Cites, cite)
		}
		if p.Cites == nil {
			s.Pieces = appendText(s.Pieces, kindText, p.Text)
		} else {
			s.Pieces = append(s.Pieces, p)
		}
	case "thinking":
		bad.addIf(!b.at("signature").isString(), "a thinking block without the member signature (ANT-09)")
		s.Pieces = append(s.Pieces, Piece{Kind: kindThink, Text: b.at("thinking").str(), Sig: b.at("signature").str()})
	case "redacted_thinking":
		s.Pieces = append(s.Pieces, Piece{Kind: kindThink, Sig: b.at("data").str(), Redacted: true})
	case "tool_use":
		p := v.readCall(b, bad)
		for _, other := range s.calls() {
			bad.addIf(other.ID == p.ID, "two calls have the id %q", p.ID)
		}
		s.Pieces = append(s.Pieces, p)
	default:
		bad.addIf(!slices.Contains(anthropicServerBlocks, kind), "a block of type %q", kind)
	}
}

func (anthropic) stop(s *Reading, o value, bad *problemList) {
	reason := o.at("stop_reason").str()
	s.Stop, s.Match = anthropicStops[reason], o.at("stop_sequence").str()
	if s.Stop == "" && reason != "" {
		s.Stop = otherStop + reason
	}
	if calls := len(s.calls()); (s.Stop == "tool") != (calls > 0) && s.Stop != "length" && s.Stop != "filter" {
		bad.add("stop_reason %s with %d calls (INV-12)", reason, calls)
	}
}

// readUsage returns the usage u with the counts of o. A count that o lacks stays.
func (anthropic) readUsage(u Usage, o value, bad *problemList) *Usage {
	fresh := u.In - u.Cached - u.Written
	for name, to := range map[string]*int{"input_tokens": &fresh, "cache_read_input_tokens": &u.Cached, "cache_creation_input_tokens": &u.Written, "output_tokens": &u.Out} {
		if x := o.at(name); !x.null() {
			n, ok := x.count()
			bad.addIf(!ok || n < 0, "%s is %s", name, x)
			*to = n
		}
	}
	if x := o.at("output_tokens_details", "thinking_tokens"); x.number() != "" {
		u.Think = x.amount()
	}
	u.In = fresh + u.Cached + u.Written
	return &u
}

// anthropicStream assembles blocks and checks INV-7 and INV-8.
type anthropicStream struct {
	seen   Reading
	bad    *problemList
	blocks []any
	open   object // the block that deltas go to
	json   string // its arguments so far
	broken string // arguments that are not an object; allowed if the output limit was reached
	state  string // "", started, stopping, stopped
}

func (v anthropic) readStream(events []event) Reading {
	a := anthropicStream{blocks: []any{}}
	a.bad = &a.seen.Problems
	for _, e := range events {
		o, err := parse([]byte(e.data))
		if err != nil || !o.isObject() {
			a.bad.add("not a JSON object: %.80q", e.data)
			continue
		}
		kind := o.at("type").str()
		a.bad.addIf(e.name != kind, "event %q with data of type %q (INV-8)", e.name, kind)
		if a.state == "stopped" || a.seen.Err != nil {
			a.bad.add("%s after the end (INV-3)", kind)
			break
		}
		a.event(kind, o)
	}
	if a.open != nil && a.seen.Err != nil {
		a.blocks = append(a.blocks, a.open) // the text before the error
		a.open["input"] = object{}
	}
	for _, b := range a.blocks {
		v.readBlock(&a.seen, value{b, true}, a.bad)
	}
	a.seen.Echo = a.blocks
	if a.seen.Stop != "" && a.seen.Err == nil {
		v.stop(&a.seen, value{object{"stop_reason": a.seen.Stop, "stop_sequence": a.seen.Match}, true}, a.bad)
	}
	a.bad.addIf(a.broken != "" && a.seen.Stop != "length", "partial_json adds up to %.120q (INV-8)", a.broken)
	a.seen.Ended = a.state == "stopped"
	return a.seen
}

func (a *anthropicStream) event(kind string, o value) {
	switch kind {
	case "ping":
	case "error":
		f, err := anthropic{}.readError(0, encode(o.v))
		a.bad.addIf(err != nil, "%v", err)
		a.seen.Err = &f
	case "message_start":
		a.bad.addIf(a.state != "", "a second message_start")
		a.state = "started"
		m := o.at("message")
		anthropic{}.envelope(m, a.bad)
		a.bad.addIf(!m.at("content").isList() || len(m.at("content").list()) != 0 || !m.at("stop_reason").null(), "message_start with content or stop_reason")
		a.seen.Usage = anthropic{}.readUsage(Usage{}, m.at("usage"), &a.seen.Values)
	case "content_block_start", "content_block_delta", "content_block_stop":
		a.bad.addIf(a.state != "started", "%s in state %q (INV-7)", kind, a.state)
		a.block(kind, o)
	case "message_delta":
		a.messageDelta(o)
	case "message_stop":
		a.bad.addIf(a.state != "stopping", "message_stop in state %q (INV-7)", a.state)
		a.state = "stopped"
	default:
		a.bad.add("an event of type %q", kind)
	}
}

func (a *anthropicStream) messageDelta(o value) {
	a.bad.addIf(a.state != "started" || a.open != nil, "message_delta in state %q, block open: %v (INV-7)", a.state, a.open != nil)
	a.state = "stopping"
	reason := o.at("delta", "stop_reason").str()
	a.bad.addIf(reason == "" || !o.at("usage", "output_tokens").here, "message_delta without stop_reason or output_tokens: %s", o)
	a.seen.Stop, a.seen.Match = reason, o.at("delta", "stop_sequence").str()
	before := Usage{}
	if a.seen.Usage != nil {
		before = *a.seen.Usage
	}
	a.seen.Usage = anthropic{}.readUsage(before, o.at("usage"), &a.seen.Values)
}

func (a *anthropicStream) block(kind string, o value) {
	index, ok := o.at("index").count()
	if want := len(a.blocks); !ok || index != want {
		a.bad.add("%s has index %s, want %d (INV-7)", kind, o.at("index").String(), want)
	}
	if (kind == "content_block_start") != (a.open == nil) {
		a.bad.add("%s, block open: %v (INV-7)", kind, a.open != nil)
		return
	}
	switch kind {
	case "content_block_start":
		b := o.at("content_block")
		a.open, _ = b.v.(object)
		if a.open == nil {
			a.open = object{}
		}
		a.json = ""
		a.checkOpening(b)
	case "content_block_delta":
		a.delta(o.at("delta"))
	default:
		if a.open["type"] == "tool_use" {
			input, err := parse([]byte(orEmpty(a.json)))
			if err != nil || !input.isObject() {
				a.broken, input.v = a.json, object{}
			}
			a.open["input"] = input.v
		}
		a.blocks, a.open = append(a.blocks, a.open), nil
	}
}

func orEmpty(s string) string {
	if s == "" {
		return "{}"
	}
	return s
}

func (a *anthropicStream) checkOpening(b value) {
	ok := true
	switch b.at("type").str() {
	case "text":
		ok = b.at("text").isString()
	case "thinking":
		ok = b.at("thinking").isString() && b.at("signature").isString()
	case "tool_use":
		ok = b.at("input").isObject() && len(b.at("input").names()) == 0
	}
	a.bad.addIf(!ok, "a block opens as %s (INV-8)", b)
}

func (a *anthropicStream) delta(d value) {
	kind := d.at("type").str()
	home := map[string]string{"text_delta": "text", "citations_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking", "input_json_delta": "tool_use"}[kind]
	if own, _ := a.open["type"].(string); kind == "input_json_delta" && slices.Contains(anthropicServerBlocks, own) {
		home = own
	}
	if a.open["type"] != home {
		a.bad.add("%s in a block of type %v", kind, a.open["type"])
	}
	switch kind {
	case "text_delta":
		a.open["text"] = merge(a.open["text"], d.at("text").v)
	case "thinking_delta":
		a.open["thinking"] = merge(a.open["thinking"], d.at("thinking").v)
	case "signature_delta":
		a.open["signature"] = d.at("signature").v
	case "citations_delta":
		l, _ := a.open["citations"].([]any)
		a.open["citations"] = append(l, d.at("citation").v)
	case "input_json_delta":
		a.json += d.at("partial_json").str()
	}
}

func (anthropic) readError(status int, body []byte) (APIError, error) {
	o, err := parse(body)
	e := o.at("error")
	f := APIError{Status: status, Message: e.at("message").str(), detail: e.at("type").str() + " " + e.at("details").String()}
	if err != nil || o.at("type").str() != "error" || e.at("type").str() == "" || f.Message == "" {
		return f, fmt.Errorf("not the error envelope of Anthropic: %.200s", body)
	}
	for name, k := range errorKinds() {
		if k.anthropicType == e.at("type").str() && name != "context" {
			f.Kind = name
		}
	}
	if e.at("type").str() == "billing_error" {
		f.Kind = "rate_limit"
	}
	if f.Kind == "" {
		return f, fmt.Errorf("error.type %q is none of Anthropic's", e.at("type").str())
	}
	return f, nil
}

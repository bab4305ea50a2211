package conform

import (
	"fmt"
	"slices"
)

// otherStop begins a reason that the dialect does not have. SDKs let it pass; only
// a case that asks for no clean end is content with it.
const otherStop = "other: "

var chatStops = map[string]string{"stop": "end", "tool_calls": "tool", "length": "length", "content_filter": "filter"}

func (v chat) readWhole(body []byte) Seen {
	var s Seen
	bad := (*complaints)(&s.Problems)
	o, err := parse(body)
	if err != nil {
		bad.say("not JSON: %v", err)
		return s
	}
	if o.at("object").str() != "chat.completion" || o.at("id").str() == "" || !o.at("model").isString() || o.at("created").number() == "" {
		bad.say("object, id, model or created is missing")
	}
	if len(o.at("choices").list()) != 1 {
		bad.say("%d choices", len(o.at("choices").list()))
		return s
	}
	c := o.at("choices").list()[0]
	m := c.at("message")
	if m.at("role").str() != "assistant" || !m.at("content").here {
		bad.say("message without role or content")
	}
	s.Echo = m.v
	v.message(&s, m)
	v.stop(&s, c.at("finish_reason").str(), bad)
	v.readUsage(&s, o.at("usage"), bad)
	s.Ended = s.Stop != ""
	return s
}

// message reads a whole message, or one that was put together from deltas.
func (v chat) message(s *Seen, m value) {
	bad := (*complaints)(&s.Problems)
	think := m.at("reasoning_content").str()
	if think == "" {
		think = m.at("reasoning").str()
	}
	s.Pieces = appendText(s.Pieces, kindThink, think)
	if carries(m) && think != "" {
		s.Pieces[0].Sig = "carried"
	}
	text := m.at("content").str()
	s.Pieces = append(s.Pieces, citedText(text, v.spans(text, m.at("annotations"), bad))...)
	s.Pieces = appendText(s.Pieces, kindRefusal, m.at("refusal").str())
	if c := m.at("tool_calls"); c.isList() && len(c.list()) == 0 {
		bad.say("tool_calls is an empty list")
	}
	ids := map[string]bool{}
	for _, c := range m.at("tool_calls").list() {
		p := Piece{Kind: kindCall, ID: c.at("id").str(), Name: c.at("function", "name").str(), Args: c.at("function", "arguments").str()}
		if carries(c) {
			p.Sig = "carried"
		}
		if p.ID == "" || ids[p.ID] || c.at("type").str() != "function" || p.Name == "" || !c.at("function", "arguments").isString() {
			bad.say("a tool call without its own id, type, name or arguments: %s", c.text())
		}
		ids[p.ID] = true
		s.Pieces = append(s.Pieces, p)
	}
}

// carries says whether a message, a block or a part has a member that is known to
// hold what other vendors have sealed.
func carries(x value) bool {
	return x.at("reasoning_details").isList() || x.at("thinking_blocks").isList() || x.at("extra_content").isObject()
}

// carry marks the piece that was read at a place as one with a foreign seal. An
// empty text leaves no piece, but may be there for the seal alone.
func (s *Seen) carry(at int, sealed bool) {
	if !sealed {
		return
	}
	if len(s.Pieces) == at {
		s.Pieces = append(s.Pieces, Piece{Kind: kindText})
	}
	if s.Pieces[at].Sig == "" {
		s.Pieces[at].Sig = "carried"
	}
}

func (chat) spans(text string, annotations value, bad *complaints) []Cite {
	var out []Cite
	for _, a := range annotations.list() {
		u := a.at("url_citation")
		from, ok1 := u.at("start_index").count()
		to, ok2 := u.at("end_index").count()
		if a.at("type").str() != "url_citation" || !ok1 || !ok2 || u.at("url").str() == "" {
			bad.say("an annotation that is not one: %s", a.text())
			continue
		}
		out = append(out, Cite{u.at("url").str(), u.at("title").str(), runes(text, from, to)})
	}
	return out
}

// citedText is one piece with all its sources; the comparison goes by their spans.
func citedText(text string, cites []Cite) []Piece {
	if text == "" {
		return nil
	}
	return []Piece{{Kind: kindText, Text: text, Cites: cites}}
}

func (chat) stop(s *Seen, finish string, bad *complaints) {
	s.Stop = chatStops[finish]
	calls := len(s.calls())
	switch {
	case s.Stop == "" && finish != "":
		s.Stop = otherStop + finish
	case (s.Stop == "tool") != (calls > 0) && s.Stop != "length" && s.Stop != "filter":
		bad.say("finish_reason %s with %d calls (INV-12)", finish, calls)
	case s.Stop == "end" && len(ofKind(s.Pieces, kindRefusal)) > 0:
		s.Stop = "filter"
	}
}

func (chat) readUsage(s *Seen, u value, bad *complaints) {
	if u.null() {
		return
	}
	in, ok1 := u.at("prompt_tokens").count()
	out, ok2 := u.at("completion_tokens").count()
	total, ok3 := u.at("total_tokens").count()
	if !ok1 || !ok2 || !ok3 || total != in+out {
		bad.say("usage does not add up: %s", u.text())
	}
	s.Usage = &Usage{In: in, Out: out, Cached: u.at("prompt_tokens_details", "cached_tokens").amount(),
		Written: u.at("prompt_tokens_details", "cache_write_tokens").amount(), Think: u.at("completion_tokens_details", "reasoning_tokens").amount()}
}

// chatStream puts a message together from chunks and holds INV-3 to INV-6.
type chatStream struct {
	seen    Seen
	bad     *complaints
	first   value
	message object
	finish  string
	done    bool
}

func (v chat) readStream(events []event) Seen {
	c := chatStream{message: object{}}
	c.bad = (*complaints)(&c.seen.Problems)
	for _, e := range events {
		if c.done || c.seen.Fault != nil {
			c.bad.say("an event after the end: %.80s", e.data)
			break
		}
		c.event(e)
	}
	m := value{c.message, true}
	v.message(&c.seen, m)
	c.seen.Echo = c.message
	if c.finish != "" && c.seen.Fault == nil {
		v.stop(&c.seen, c.finish, c.bad)
		if !c.done {
			c.bad.say("no [DONE] (INV-6)")
		}
	}
	if c.seen.Fault != nil && c.finish != "" {
		c.bad.say("finish_reason %s before an error", c.finish)
	}
	c.seen.Ended = c.done && c.finish != ""
	if c.done && c.finish == "" {
		c.bad.say("[DONE] without finish_reason (INV-4)")
	}
	return c.seen
}

func (c *chatStream) event(e event) {
	if e.data == "[DONE]" {
		c.done = true
		return
	}
	o, err := parse([]byte(e.data))
	if err != nil || !o.isObject() {
		c.bad.say("not a JSON object: %.80q", e.data)
		return
	}
	if o.at("error").isObject() {
		f, err := chat{}.readFault(0, []byte(e.data))
		if err != nil {
			c.bad.say("%v", err)
		}
		c.seen.Fault = &f
		return
	}
	if !c.first.here {
		c.first = o
	}
	for _, name := range []string{"id", "created", "model"} {
		if o.at(name).null() || o.at(name).v != c.first.at(name).v || o.at(name).v == "" {
			c.bad.say("%s is %v, not %v (INV-4)", name, o.at(name).v, c.first.at(name).v)
		}
	}
	if o.at("object").str() != "chat.completion.chunk" || !o.at("choices").isList() {
		c.bad.say("a chunk without object or choices: %.120s", e.data)
	}
	for _, choice := range o.at("choices").list() {
		c.choice(choice)
	}
	chat{}.readUsage(&c.seen, o.at("usage"), c.bad)
}

func (c *chatStream) choice(choice value) {
	d := choice.at("delta")
	if !d.isObject() {
		c.bad.say("a choice without delta")
		return
	}
	if c.finish != "" {
		c.bad.say("a choice after its finish_reason (INV-4)")
	}
	_, begun := c.message["role"]
	if role := d.at("role"); !role.null() == begun {
		c.bad.say("role %s, begun %v (INV-4)", role.text(), begun)
	}
	if f := choice.at("finish_reason"); !f.null() {
		c.finish = f.str()
		if c.finish == "" {
			c.bad.say("finish_reason is an empty string")
		}
	}
	c.toolDeltas(d)
	for _, name := range d.names() {
		if name != "tool_calls" {
			c.message[name] = merge(c.message[name], d.at(name).v)
		}
	}
}

// merge adds a delta's member as the vendor's SDKs do: strings and lists grow.
func merge(have, more any) any {
	switch m := more.(type) {
	case string:
		if s, ok := have.(string); ok {
			return s + m
		}
	case []any:
		if l, ok := have.([]any); ok {
			return append(slices.Clone(l), m...)
		}
	case object:
		if o, ok := have.(object); ok {
			for k, v := range m {
				o[k] = merge(o[k], v)
			}
			return o
		}
	case nil:
		return have
	}
	return more
}

func (c *chatStream) toolDeltas(d value) {
	for _, t := range d.at("tool_calls").list() {
		i, ok := t.at("index").count()
		f := t.at("function")
		list, _ := c.message["tool_calls"].([]any)
		switch {
		case !ok || i > len(list):
			c.bad.say("tool call index %s after %d calls (INV-5)", t.at("index").text(), len(list))
		case i == len(list):
			if t.at("id").str() == "" || t.at("type").str() != "function" || f.at("name").str() == "" {
				c.bad.say("a tool call begins without id, type or name (INV-5): %s", t.text())
			}
			o, _ := t.v.(object)
			delete(o, "index")
			fn, _ := o["function"].(object)
			if fn != nil && fn["arguments"] == nil {
				fn["arguments"] = ""
			}
			c.message["tool_calls"] = append(list, any(o))
		default:
			if !f.at("name").null() || !t.at("id").null() && t.at("id").str() != (value{list[i], true}).at("id").str() {
				c.bad.say("a later delta of a tool call has a name or another id (INV-5): %s", t.text())
			}
			o, _ := list[i].(object)
			for _, name := range t.names() {
				if name != "index" && name != "id" && name != "type" {
					o[name] = merge(o[name], t.at(name).v)
				}
			}
		}
	}
}

func (chat) readFault(status int, body []byte) (Fault, error) { return openAIReadFault(status, body) }

func openAIReadFault(status int, body []byte) (Fault, error) {
	o, err := parse(body)
	e := o.at("error")
	f := Fault{Status: status, Message: e.at("message").str(), detail: e.at("type").str() + " " + e.at("code").text() + " " + e.at("param").text()}
	if err != nil || !e.isObject() || f.Message == "" || e.at("type").str() == "" {
		return f, fmt.Errorf("not the error envelope of OpenAI: %.200s", body)
	}
	if c := e.at("code"); c.number() != "" {
		return f, fmt.Errorf("error.code is the number %s, not a string or null", c.number())
	}
	f.Kind = kindByStatus(status, e.at("code").str())
	return f, nil
}

// kindByStatus is how OpenAI's and Google's clients tell errors apart.
func kindByStatus(status int, code string) string {
	if code == "context_length_exceeded" {
		return "context"
	}
	for name, k := range faultKinds() {
		if name != "context" && (status == k.openAI || status == k.anthropic) {
			return name
		}
	}
	return "server"
}

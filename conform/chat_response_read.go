package conform

import (
	"fmt"
	"reflect"
	"slices"
)

// otherStop is the prefix of a stop reason that the dialect does not define. SDKs accept it,
// but only a case with the stop reason unclean does.
const otherStop = "other: "

var chatStops = map[string]string{"stop": "end", "tool_calls": "tool", "length": "length", "content_filter": "filter"}

func (v chat) readBody(body []byte) Reading {
	s, o := openResponse(body)
	bad := &s.Problems
	if o.at("object").str() != "chat.completion" || o.at("id").str() == "" || !o.at("model").isString() || o.at("created").number() == "" {
		bad.add("object, id, model or created is missing")
	}
	bad.addIf(!o.at("error").null(), "an error in a response with status 200")
	list := o.at("choices").list()
	if len(list) == 0 {
		bad.add("%d choices", len(list))
		return *s
	}
	v.wholeChoiceOf(s, list[0])
	v.readUsage(s, o.at("usage"))
	s.Ended = s.Stop != ""
	for i, c := range list[1:] {
		other := Reading{}
		v.wholeChoiceOf(&other, c)
		bad.addIf(c.at("index").amount() != i+1, "choice %d has index %s", i+1, c.at("index"))
		*bad = append(*bad, other.Problems...)
		s.Values = append(s.Values, other.Values...)
		s.others = append(s.others, other)
	}
	return *s
}

func (v chat) wholeChoiceOf(s *Reading, c value) {
	bad := &s.Problems
	m := c.at("message")
	bad.addIf(m.at("role").str() != "assistant" || !m.at("content").here, "message without role or content")
	s.Echo = m.v
	v.message(s, m)
	v.stop(s, c.at("finish_reason").str(), bad)
}

// message reads a message, which may be assembled from deltas.
func (v chat) message(s *Reading, m value) {
	bad := &s.Problems
	think := m.at("reasoning_content").str()
	if think == "" {
		think = m.at("reasoning").str()
	}
	s.legacy = m.at("function_call").isObject()
	s.Pieces = appendText(s.Pieces, kindThink, think)
	if hasForeignSeal(m) {
		if think == "" {
			s.Pieces = append(s.Pieces, Piece{Kind: kindThink, Redacted: true})
		}
		s.Pieces[0].Sig = "carried"
	}
	text := m.at("content").str()
	s.Pieces = append(s.Pieces, citedText(text, v.spans(text, m.at("annotations"), &s.Values))...)
	s.Pieces = appendText(s.Pieces, kindRefusal, m.at("refusal").str())
	if c := m.at("tool_calls"); c.isList() && len(c.list()) == 0 {
		bad.add("tool_calls is an empty list")
	}
	ids := map[string]bool{}
	for _, c := range m.at("tool_calls").list() {
		kind := c.at("type").str()
		args := c.at(kind, chatArgs(kind))
		p := Piece{Kind: kindCall, ID: c.at("id").str(), Name: c.at(kind, "name").str(), Args: args.str(), Custom: kind == "custom"}
		if hasForeignSeal(c) {
			p.Sig = "carried"
		}
		if p.ID == "" || ids[p.ID] || p.Name == "" || !args.isString() {
			bad.add("a tool call without its own id, type, name or arguments: %s", c.String())
		}
		ids[p.ID] = true
		s.Pieces = append(s.Pieces, p)
	}
}

// chatArgs returns the member with the arguments of a kind of call.
func chatArgs(kind string) string {
	if kind == "custom" {
		return "input"
	}
	return "arguments"
}

// hasForeignSeal reports whether a message, a block or a part has a member for the sealed
// reasoning of other vendors.
func hasForeignSeal(x value) bool {
	return x.at("reasoning_details").isList() || x.at("thinking_blocks").isList() || x.at("extra_content").isObject()
}

// markForeignSeal sets the signature of the piece at a position if sealed is true. It adds a
// piece for an empty text, which may contain only the seal.
func (s *Reading) markForeignSeal(at int, sealed bool) {
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

func (chat) spans(text string, annotations value, bad *problemList) []Cite {
	var out []Cite
	for _, a := range annotations.list() {
		u := a.at("url_citation")
		from, ok1 := u.at("start_index").count()
		to, ok2 := u.at("end_index").count()
		if a.at("type").str() != "url_citation" || !ok1 || !ok2 || u.at("url").str() == "" {
			bad.add("an annotation that is not one: %s", a.String())
			continue
		}
		out = append(out, Cite{u.at("url").str(), u.at("title").str(), runes(text, from, to)})
	}
	return out
}

// citedText returns a text with its sources as one piece, or nothing if the text is empty.
func citedText(text string, cites []Cite) []Piece {
	if text == "" {
		return nil
	}
	return []Piece{{Kind: kindText, Text: text, Cites: cites}}
}

func (chat) stop(s *Reading, finish string, bad *problemList) {
	s.Stop = chatStops[finish]
	calls := len(s.calls())
	if finish == "function_call" && s.legacy {
		s.Stop = "tool"
		return
	}
	switch {
	case s.Stop == "" && finish != "":
		s.Stop = otherStop + finish
	case (s.Stop == "tool") != (calls > 0) && s.Stop != "length" && s.Stop != "filter":
		bad.add("finish_reason %s with %d calls (INV-12)", finish, calls)
	case s.Stop == "end" && len(ofKind(s.Pieces, kindRefusal)) > 0:
		s.Stop = "filter"
	}
}

func (chat) readUsage(s *Reading, u value) {
	if u.null() {
		return
	}
	in, ok1 := u.at("prompt_tokens").count()
	out, ok2 := u.at("completion_tokens").count()
	total, ok3 := u.at("total_tokens").count()
	s.Values.addIf(!ok1 || !ok2 || !ok3 || total != in+out, "usage does not add up: %s", u)
	s.Usage = &Usage{In: in, Out: out, Cached: u.at("prompt_tokens_details", "cached_tokens").amount(),
		Written: u.at("prompt_tokens_details", "cache_write_tokens").amount(), Think: u.at("completion_tokens_details", "reasoning_tokens").amount()}
}

// chatStream assembles a message from chunks and checks INV-3 to INV-6.
type chatStream struct {
	seen    Reading
	bad     *problemList
	first   value
	message object
	finish  string
	done    bool
	others  []*chatStream // further choices
}

func (v chat) readStream(events []event) Reading {
	c := chatStream{message: object{}}
	c.bad = &c.seen.Problems
	for _, e := range events {
		if c.done || c.seen.Err != nil {
			c.bad.add("an event after the end: %.80s", e.data)
			break
		}
		c.event(e)
	}
	for _, other := range c.others {
		v.message(&other.seen, value{other.message, true})
		if c.seen.Err == nil {
			v.stop(&other.seen, other.finish, c.bad)
			c.bad.addIf(other.finish == "", "a choice without finish_reason (INV-4)")
		}
		*c.bad = append(*c.bad, other.seen.Problems...)
		c.seen.Values = append(c.seen.Values, other.seen.Values...)
		c.seen.others = append(c.seen.others, other.seen)
	}
	m := value{c.message, true}
	v.message(&c.seen, m)
	c.seen.Echo = c.message
	if c.finish != "" {
		v.stop(&c.seen, c.finish, c.bad)
		c.bad.addIf(!c.done && c.seen.Err == nil, "no [DONE] (INV-6)")
	}
	c.seen.Ended = c.done && c.finish != ""
	c.bad.addIf(c.done && c.finish == "", "[DONE] without finish_reason (INV-4)")
	return c.seen
}

func (c *chatStream) event(e event) {
	c.bad.addIf(e.name != "", "an event name %q (INV-2)", e.name)
	if e.data == "[DONE]" {
		c.done = true
		return
	}
	o, err := parse([]byte(e.data))
	if err != nil || !o.isObject() {
		c.bad.add("not a JSON object: %.80q", e.data)
		return
	}
	if o.at("error").isObject() {
		f, err := chat{}.readError(0, []byte(e.data))
		c.bad.addIf(err != nil, "%v", err)
		c.seen.Err = &f
		return
	}
	if !c.first.here {
		c.first = o
	}
	for _, name := range []string{"id", "created", "model"} {
		got, first := o.at(name), c.first.at(name)
		c.bad.addIf(got.null() || !reflect.DeepEqual(got.v, first.v), "%s is %v, not %v (INV-4)", name, got, first)
		c.seen.Values.addIf(got.v == "", "a chunk with an empty %s", name)
	}
	c.bad.addIf(o.at("object").str() != "chat.completion.chunk" || !o.at("choices").isList(), "a chunk without object or choices: %.120s", e.data)
	for _, choice := range o.at("choices").list() {
		c.of(choice.at("index").amount()).choice(choice)
	}
	full, before := len(o.at("choices").list()) > 0, c.seen.Usage != nil
	chat{}.readUsage(&c.seen, o.at("usage"))
	switch counted := !o.at("usage").null(); {
	case counted && (full || before):
		c.bad.add("usage beside choices, or again (USE-07)")
	case !counted && !full:
		c.bad.add("an empty chunk (USE-07)")
	}
}

// of returns the choice with an index.
func (c *chatStream) of(index int) *chatStream {
	if index <= 0 || index > len(c.others)+1 {
		return c
	}
	if index == len(c.others)+1 {
		other := &chatStream{message: object{}}
		other.bad = &other.seen.Problems
		c.others = append(c.others, other)
	}
	return c.others[index-1]
}

func (c *chatStream) choice(choice value) {
	d := choice.at("delta")
	if !d.isObject() {
		c.bad.add("a choice without delta")
		return
	}
	c.bad.addIf(c.finish != "", "a choice after its finish_reason (INV-4)")
	_, begun := c.message["role"]
	if role := d.at("role"); !role.null() == begun {
		c.bad.add("role %s, begun %v (INV-4)", role.String(), begun)
	}
	if f := choice.at("finish_reason"); !f.null() {
		c.finish = f.str()
		c.bad.addIf(c.finish == "", "finish_reason is an empty string")
	}
	c.toolDeltas(d)
	for _, name := range d.names() {
		if name != "tool_calls" {
			c.message[name] = merge(c.message[name], d.at(name).v)
		}
	}
}

// merge adds a delta to a member as the vendor's SDKs do: it concatenates strings and lists.
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
		kind := t.at("type").str()
		f := t.at("function")
		if t.at("custom").here {
			f = t.at("custom")
		}
		list, _ := c.message["tool_calls"].([]any)
		switch {
		case !ok || i > len(list):
			c.bad.add("tool call index %s after %d calls (INV-5)", t.at("index").String(), len(list))
		case i == len(list):
			if t.at("id").str() == "" || kind != "function" && kind != "custom" || !t.at(kind).here || f.at("name").str() == "" {
				c.bad.add("a tool call begins without id, type or name (INV-5): %s", t.String())
			}
			o, _ := t.v.(object)
			delete(o, "index")
			fn, _ := o[kind].(object)
			if args := chatArgs(kind); fn != nil && fn[args] == nil {
				fn[args] = ""
			}
			c.message["tool_calls"] = append(list, any(o))
		default:
			if !f.at("name").null() || !t.at("id").null() || !t.at("type").null() {
				c.bad.add("a later delta of a tool call has a name, a type or an id (INV-5): %s", t.String())
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

func (chat) readError(status int, body []byte) (APIError, error) {
	return readOpenAIError(status, body)
}

func readOpenAIError(status int, body []byte) (APIError, error) {
	o, err := parse(body)
	e := o.at("error")
	f := APIError{Status: status, Message: e.at("message").str(), detail: e.at("type").str() + " " + e.at("code").String() + " " + e.at("param").String()}
	if err != nil || !e.isObject() || f.Message == "" || e.at("type").str() == "" {
		return f, fmt.Errorf("not the error envelope of OpenAI: %.200s", body)
	}
	if c := e.at("code"); c.number() != "" {
		return f, fmt.Errorf("error.code is the number %s, not a string or null", c.number())
	}
	f.Code = e.at("code").str()
	f.Kind = kindByStatus(status, f.Code)
	return f, nil
}

// kindByStatus returns the kind of an error of OpenAI or Google.
func kindByStatus(status int, code string) string {
	if code == "context_length_exceeded" {
		return "context"
	}
	for name, k := range errorKinds() {
		if name != "context" && (status == k.openAI || status == k.anthropic) {
			return name
		}
	}
	return "server"
}

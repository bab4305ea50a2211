package conform

import (
	"reflect"
	"slices"
	"strings"
)

func (v responses) readBody(body []byte) Reading {
	s, o := openResponse(body)
	bad := &s.Problems
	v.snapshot(s, o, bad)
	bad.addIf(!o.at("error").null() && s.Err == nil, "an error in a response that did not fail")
	s.Ended = s.Stop != ""
	return *s
}

// snapshot reads a response object.
func (v responses) snapshot(s *Reading, o value, bad *problemList) {
	if o.at("object").str() != "response" || o.at("id").str() == "" || !o.at("model").isString() || o.at("created_at").number() == "" {
		bad.add("object, id, model or created_at of the response is missing")
	}
	bad.addIf(!o.at("output").isList(), "output is no list (INV-10)")
	s.Echo, _ = o.at("output").v.([]any)
	ids := map[string]bool{}
	for _, item := range o.at("output").list() {
		id := item.at("id").str()
		bad.addIf(id == "" || ids[id], "an item without an id of its own: %.120s", item)
		ids[id] = true
		v.readItem(s, item, bad)
	}
	switch status := o.at("status").str(); status {
	case "completed":
		s.Stop = "end"
		if len(s.calls()) > 0 {
			s.Stop = "tool"
		} else if len(ofKind(s.Pieces, kindRefusal)) > 0 {
			s.Stop = "filter"
		}
	case "incomplete":
		reason := o.at("incomplete_details", "reason").str()
		s.Stop = map[string]string{"max_output_tokens": "length", "content_filter": "filter"}[reason]
		bad.addIf(s.Stop == "", "incomplete because of %q", reason)
	case "failed":
		s.Err = &APIError{Kind: "server", Message: o.at("error", "message").str(), detail: o.at("error", "code").str(), Code: o.at("error", "code").str()}
		bad.addIf(s.Err.Message == "" || s.Err.detail == "", "failed without error.code and error.message")
	default:
		bad.add("status %q", status)
	}
	v.readUsage(s, o.at("usage"))
}

func (responses) readUsage(s *Reading, u value) {
	if u.null() {
		return
	}
	in, ok1 := u.at("input_tokens").count()
	out, ok2 := u.at("output_tokens").count()
	total, ok3 := u.at("total_tokens").count()
	cached, ok4 := u.at("input_tokens_details", "cached_tokens").count()
	think, ok5 := u.at("output_tokens_details", "reasoning_tokens").count()
	s.Values.addIf(!ok1 || !ok2 || !ok3 || !ok4 || !ok5 || total != in+out, "usage is not whole or does not add up (RSP-37): %s", u)
	s.Usage = &Usage{In: in, Out: out, Cached: cached, Think: think, Written: u.at("input_tokens_details", "cache_write_tokens").amount()}
}

func (v responses) readItem(s *Reading, item value, bad *problemList) {
	before := len(s.Pieces)
	defer func() { s.markForeignSeal(before, hasForeignSeal(item)) }()
	switch kind := item.at("type").str(); kind {
	case "message":
		if item.at("role").str() != "assistant" || !item.at("content").isList() || !item.at("status").isString() {
			bad.add("a message without role, content or status: %.120s", item.String())
		}
		for _, p := range item.at("content").list() {
			at := len(s.Pieces)
			v.readPart(s, p, bad)
			s.markForeignSeal(at, hasForeignSeal(p))
		}
	case "reasoning":
		bad.addIf(!item.at("summary").isList(), "a reasoning item without summary (RSP-15)")
		p := Piece{Kind: kindThink, Sig: item.at("encrypted_content").str()}
		for _, t := range append(item.at("summary").list(), item.at("content").list()...) {
			p.Text += t.at("text").str()
		}
		s.Pieces = append(s.Pieces, p)
	case "function_call", "custom_tool_call":
		args := item.at(argsMember(kind))
		p := Piece{Kind: kindCall, ID: item.at("call_id").str(), Name: item.at("name").str(), Args: args.str()}
		bad.addIf(p.ID == "" || p.Name == "" || !args.isString(), "a %s without call_id, name or arguments: %s", kind, item)
		for _, other := range s.calls() {
			bad.addIf(other.ID == p.ID, "two calls have the call_id %q", p.ID)
		}
		s.Pieces = append(s.Pieces, p)
	case searchCall:
		if item.at("execution").str() == "server" {
			break // the vendor runs it
		}
		s.Pieces = append(s.Pieces, readSearchCall(item, bad))
	default:
		bad.addIf(!slices.Contains(responsesServerItems, kind), "an item of type %q", kind)
	}
}

// responsesServerItems are the items of tools that the vendor runs or defines.
var responsesServerItems = strings.Fields(`web_search_call file_search_call code_interpreter_call image_generation_call computer_call
	mcp_call mcp_list_tools mcp_approval_request local_shell_call shell_call shell_call_output apply_patch_call apply_patch_call_output
	tool_search_output compaction`)

// argsMember returns the member with the arguments of a call, in items and done events.
func argsMember(kind string) string {
	if strings.HasPrefix(kind, "custom_tool_call") {
		return "input"
	}
	return "arguments"
}

func (responses) readPart(s *Reading, p value, bad *problemList) {
	switch kind := p.at("type").str(); kind {
	case "output_text":
		text := p.at("text").str()
		bad.addIf(!p.at("text").isString() || !p.at("annotations").isList(), "an output_text without text or annotations: %.120s", p)
		annotations := p.at("annotations").list()
		cites := make([]Cite, 0, len(annotations))
		for _, a := range annotations {
			from, ok1 := a.at("start_index").count()
			to, ok2 := a.at("end_index").count()
			s.Values.addIf(a.at("type").str() != "url_citation" || !ok1 || !ok2, "an annotation that is not one: %s", a)
			cites = append(cites, Cite{a.at("url").str(), a.at("title").str(), runes(text, from, to)})
		}
		s.Pieces = append(s.Pieces, citedText(text, cites)...)
	case "refusal":
		s.Pieces = appendText(s.Pieces, kindRefusal, p.at("refusal").str())
	default:
		bad.add("a part of type %q", kind)
	}
}

// liveItem is an item of a stream.
type liveItem struct {
	id, kind, callID string
	parts            map[int]*livePart // by content_index
	summary          map[int]*livePart // by summary_index
	args             string
	argsDone, done   bool
	final            any
}

func (i *liveItem) isCall() bool { return i.kind == "function_call" || i.kind == "custom_tool_call" }

// inOrder returns the parts of the content and then of the summary.
func (i *liveItem) inOrder() (all []*livePart) {
	for _, parts := range []map[int]*livePart{i.parts, i.summary} {
		for n := range len(parts) {
			all = append(all, parts[n])
		}
	}
	return all
}

type livePart struct {
	text               string
	textDone, partDone bool
}

// responsesStream checks INV-9 and INV-10.
type responsesStream struct {
	seen  Reading
	bad   *problemList
	id    string
	seq   int
	items []*liveItem
	ended bool
}

func (v responses) readStream(events []event) Reading {
	r := responsesStream{}
	r.bad = &r.seen.Problems
	for _, e := range events {
		if e.data == "[DONE]" {
			r.bad.add("a [DONE] that the dialect does not have")
			continue
		}
		o, err := parse([]byte(e.data))
		if err != nil || !o.isObject() {
			r.bad.add("not a JSON object: %.80q", e.data)
			continue
		}
		if r.ended {
			r.bad.add("%s after the terminal event (INV-3)", e.name)
			break
		}
		r.event(e.name, o)
	}
	r.bad.addIf(r.seen.Err != nil && !r.ended && r.id != "", "an error event without response.failed (RSP-04)")
	if r.seen.Err != nil && len(r.seen.Pieces) == 0 {
		r.partial()
	}
	r.seen.Ended = r.ended && r.seen.Err == nil
	return r.seen
}

// partial sets the output before an error.
func (r *responsesStream) partial() {
	for _, i := range r.items {
		for _, p := range i.inOrder() {
			if p != nil {
				r.seen.Pieces = appendText(r.seen.Pieces, map[string]string{"reasoning": kindThink}[i.kind]+map[string]string{"message": kindText}[i.kind], p.text)
			}
		}
	}
}

func (r *responsesStream) event(name string, o value) {
	kind := o.at("type").str()
	r.bad.addIf(kind != name, "event %q with data of type %q", name, kind)
	if n, ok := o.at("sequence_number").count(); !ok || n != r.seq {
		r.bad.add("%s has sequence_number %s, want %d (INV-9)", kind, o.at("sequence_number").String(), r.seq)
	}
	r.seq++
	r.bad.addIf(r.seq == 1 && kind != "response.created" && kind != "response.failed" && kind != "error", "the first event is %s, not response.created", kind)
	if x := o.at("response"); x.here {
		id := x.at("id").str()
		r.bad.addIf(id == "" || r.id != "" && id != r.id, "%s has response.id %q, not %q (INV-9)", kind, id, r.id)
		r.id = id
	}
	switch kind {
	case "response.created", "response.in_progress", "response.queued":
	case "error":
		r.seen.Err = &APIError{Kind: "server", Message: o.at("message").str()}
	case "response.completed", "response.incomplete", "response.failed":
		r.terminal(strings.TrimPrefix(kind, "response."), o.at("response"))
	case "response.output_item.added":
		r.added(o)
	default:
		r.inItem(kind, o)
	}
}

func (r *responsesStream) added(o value) {
	item := o.at("item")
	if n, ok := o.at("output_index").count(); !ok || n != len(r.items) {
		r.bad.add("output_index %s, want %d", o.at("output_index").String(), len(r.items))
	}
	i := &liveItem{id: item.at("id").str(), kind: item.at("type").str(), callID: item.at("call_id").str(), parts: map[int]*livePart{}, summary: map[int]*livePart{}}
	switch {
	case i.id == "":
		r.bad.add("an item without id: %s", item.String())
	case i.kind == "message" && !item.at("content").isList(), i.kind == "reasoning" && !item.at("summary").isList():
		r.bad.add("an item opens without its empty list: %s", item.String())
	case i.isCall() && (!item.at(argsMember(i.kind)).isString() || i.callID == "" || item.at("name").str() == ""):
		r.bad.add("a call opens without call_id, name or arguments: %s", item.String())
	case i.kind == searchCall && item.at("execution").str() != "server":
		readSearchCall(item, r.bad)
	}
	r.items = append(r.items, i)
}

func (r *responsesStream) inItem(kind string, o value) {
	n, ok := o.at("output_index").count()
	if !ok || n < 0 || n >= len(r.items) {
		r.bad.add("%s has output_index %s, but there are %d items (RSP-06)", kind, o.at("output_index").String(), len(r.items))
		return
	}
	i := r.items[n]
	r.bad.addIf(i.done, "%s after output_item.done", kind)
	if kind == "response.output_item.done" {
		r.itemDone(i, o.at("item"))
		return
	}
	if id := o.at("item_id").str(); id != i.id {
		r.bad.add("%s has item_id %q, its item is %q (INV-9)", kind, id, i.id)
	}
	r.inPart(i, strings.TrimPrefix(kind, "response."), o)
}

func (r *responsesStream) inPart(i *liveItem, kind string, o value) {
	switch kind {
	case "function_call_arguments.delta", "custom_tool_call_input.delta":
		r.bad.addIf(!i.isCall(), "%s for an item of type %q", kind, i.kind)
		i.args += o.at("delta").str()
		return
	case "function_call_arguments.done", "custom_tool_call_input.done":
		if args := o.at(argsMember(kind)).str(); args != i.args || i.argsDone {
			r.bad.add("%s says %q, the deltas %q", kind, args, i.args)
		}
		i.argsDone = true
		return
	}
	at, parts := o.at("content_index"), i.parts
	if strings.HasPrefix(kind, "reasoning_summary") {
		at, parts = o.at("summary_index"), i.summary
	}
	n, ok := at.count()
	if !ok {
		r.bad.add("%s without its index (RSP-06)", kind)
		return
	}
	if strings.HasSuffix(kind, "part.added") {
		r.bad.addIf(n != len(parts), "%s has index %d, want %d", kind, n, len(parts))
		parts[n] = &livePart{}
		return
	}
	p := parts[n]
	if p == nil {
		r.bad.add("%s without its part.added (RSP-01)", kind)
		return
	}
	r.text(p, kind, o)
}

func (r *responsesStream) text(p *livePart, kind string, o value) {
	switch {
	case strings.HasSuffix(kind, ".delta"):
		r.bad.addIf(p.textDone, "%s after its done", kind)
		p.text += o.at("delta").str()
	case strings.HasSuffix(kind, "part.done"):
		part := o.at("part")
		if text := part.at("text").str() + part.at("refusal").str(); text != p.text || !p.textDone {
			r.bad.add("%s says %q, the deltas %q", kind, text, p.text)
		}
		p.partDone = true
	case strings.HasSuffix(kind, ".done"):
		if text := o.at("text").str() + o.at("refusal").str(); text != p.text {
			r.bad.add("%s says %q, the deltas %q", kind, text, p.text)
		}
		p.textDone = true
	}
}

func (r *responsesStream) itemDone(i *liveItem, item value) {
	i.done, i.final = true, item.v
	if item.at("id").str() != i.id || item.at("type").str() != i.kind || item.at("call_id").str() != i.callID {
		r.bad.add("output_item.done is not the item that was added: %s", item.String())
	}
	if args := item.at(argsMember(i.kind)).str(); i.isCall() && (args != i.args || !i.argsDone) {
		r.bad.add("output_item.done has arguments %q, the deltas %q", args, i.args)
	}
	text := ""
	for _, p := range slices.Concat(item.at("content").list(), item.at("summary").list()) {
		text += p.at("text").str() + p.at("refusal").str()
	}
	live := ""
	for _, p := range i.inOrder() {
		if p != nil {
			live += p.text
			r.bad.addIf(!p.partDone, "output_item.done before part.done (INV-9)")
		}
	}
	r.bad.addIf(text != live, "output_item.done says %q, the deltas %q", text, live)
}

func (r *responsesStream) terminal(kind string, x value) {
	r.ended = true
	r.bad.addIf(r.seen.Err != nil && kind != "failed", "response.%s after an error", kind)
	r.bad.addIf(x.at("status").str() != kind, "response.%s has status %q", kind, x.at("status").str())
	responses{}.snapshot(&r.seen, x, r.bad)
	if kind == "failed" {
		return
	}
	var finals []any
	for n, i := range r.items {
		r.bad.addIf(!i.done, "item %d has no output_item.done (INV-9)", n)
		finals = append(finals, i.final)
	}
	if list, _ := x.at("output").v.([]any); !reflect.DeepEqual(list, finals) && len(list)+len(finals) > 0 {
		r.bad.add("response.output is not what was streamed (INV-10): %s and %s", encode(list), encode(finals))
	}
}

func (responses) readError(status int, body []byte) (APIError, error) {
	return readOpenAIError(status, body)
}

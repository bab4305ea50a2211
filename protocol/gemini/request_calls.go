package gemini

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func sealedCall(b llm.Block) bool {
	call, ok := b.(*llm.ToolCall)
	if !ok {
		return false
	}
	_, sealed := call.SealFor(own)
	return sealed
}

// results encodes the results of calls as one content, in the order of the calls
// (CRQ-02).
func (e *requestEncoder) results(calls []*llm.ToolCall, from, to int) {
	c := content{results: true, role: roleUser}
	media := content{role: roleUser}
	found := e.resultsIn(from, to)
	for _, call := range calls {
		of := found[call.CallID]
		if len(of) == 0 {
			if from < len(e.req.Turns) {
				e.report.Refuse("turns", "tool_call.unanswered", "the call "+strconv.Quote(call.CallID)+" of "+call.Name+" has no result")
			}
			continue
		}
		found[call.CallID] = of[1:]
		if e.answered == nil {
			e.answered = map[*llm.ToolResult]bool{}
		}
		e.answered[of[0].ToolResult] = true
		c.add(e.result(of[0].ToolResult, call, codec.At("turns", of[0].turn), &media))
		if ext := e.req.Turns[of[0].turn].Ext; ext.Protocol == own {
			c.own, c.extra = true, extra(ext, "")
		}
	}
	if c.parts.Len() > 0 {
		e.contents = append(e.contents, c)
	}
	if media.parts.Len() > 0 {
		e.contents = append(e.contents, media)
	}
}

// answer is a result and the index of its turn.
type answer struct {
	*llm.ToolResult
	turn int
}

// resultsIn collects the results between two turns by call id.
func (e *requestEncoder) resultsIn(from, to int) map[string][]answer {
	found := map[string][]answer{}
	for i := from; i < to; i++ {
		for _, b := range e.req.Turns[i].Blocks {
			if res, ok := b.(*llm.ToolResult); ok {
				found[res.CallID] = append(found[res.CallID], answer{res, i})
			}
		}
	}
	return found
}

// call decodes a call. Most have no id, and equal calls need different ids
// (GEM-01), so the id is derived from the call's position.
func (d *requestDecoder) call(p *Part) *llm.ToolCall {
	f := p.FunctionCall.Ptr()
	c := &llm.ToolCall{Meta: readMeta(p), CallID: f.ID.Value(), Kind: llm.FunctionTool, Name: f.Name.Value(), Args: readArgs(f.Args)}
	keep(&c.Ext, atCall, f.Extra.All())
	if c.CallID == "" {
		c.Synthetic = true
		c.CallID = llm.MintID("call_", "history", strconv.Itoa(d.count), c.Name, c.Args)
	}
	d.count++
	d.calls.add(c)
	return c
}

// readArgs returns arguments as JSON text, and an empty object if there are none.
func readArgs(raw wire.Raw) string {
	if len(raw) == 0 || raw.Kind() == 'n' {
		return "{}"
	}
	return string(raw)
}

// result decodes a function response and finds its call: by id, or the first call
// of that name without a result.
func (d *requestDecoder) result(p *Part) *llm.ToolResult {
	f := p.FunctionResponse.Ptr()
	res := &llm.ToolResult{Meta: readMeta(p), Name: f.Name.Value(), Kind: llm.FunctionTool}
	keep(&res.Ext, atResponse, f.Extra.All())
	if res.CallID = d.answers(f.ID.Value(), res.Name); f.ID.Value() != "" && res.CallID != f.ID.Value() {
		note(&res.Ext, atResponse+"id", quote(f.ID.Value())) // the call has none
	}
	var text string
	text, res.Failed = readOutput(res.Name, f.Response)
	res.Missing = len(f.Response) == 0
	if !res.Missing {
		res.Blocks = []llm.Block{&llm.Text{Text: text}}
	}
	for _, m := range f.Parts.Value().All() {
		switch {
		case m.InlineData.IsSet():
			res.Blocks = append(res.Blocks, readBlob(m.InlineData.Ptr(), llm.Meta{Ext: llm.Ext{Protocol: own}}))
		case m.FileData.IsSet():
			res.Blocks = append(res.Blocks, readFile(m.FileData.Ptr(), llm.Meta{Ext: llm.Ext{Protocol: own}}))
		}
	}
	// Encoding must return the same object.
	if !res.Missing && string(writeOutput(text, res.Failed)) != string(f.Response) {
		note(&res.Ext, atResponse+"response", f.Response)
	}
	return res
}

func (d *requestDecoder) answers(id, name string) string {
	if c := d.calls.take(id, name); c != nil {
		return c.CallID
	}
	if id != "" {
		return id
	}
	d.count++
	return llm.MintID("call_", "orphan", strconv.Itoa(d.count), name)
}

// openCalls are the calls of the latest model turn without a result, in order, by
// id and by name.
type openCalls struct {
	byID, byName map[string][]*llm.ToolCall
	taken        map[*llm.ToolCall]bool
}

func (o *openCalls) add(c *llm.ToolCall) {
	if o.byID == nil {
		o.byID, o.byName, o.taken = map[string][]*llm.ToolCall{}, map[string][]*llm.ToolCall{}, map[*llm.ToolCall]bool{}
	}
	o.byID[c.CallID] = append(o.byID[c.CallID], c)
	o.byName[c.Name] = append(o.byName[c.Name], c)
}

// take returns the call of a result and removes it from the open calls; nil if
// there is none. A result with an id matches a call without one only by name.
func (o *openCalls) take(id, name string) *llm.ToolCall {
	c := o.next(o.byID, id, func(*llm.ToolCall) bool { return true })
	if c == nil {
		c = o.next(o.byName, name, func(c *llm.ToolCall) bool { return id == "" || c.Synthetic })
	}
	if c != nil {
		o.taken[c] = true
	}
	return c
}

// next returns the first open call of a queue that matches.
func (o *openCalls) next(queues map[string][]*llm.ToolCall, key string, ok func(*llm.ToolCall) bool) *llm.ToolCall {
	queue := queues[key]
	for len(queue) > 0 && o.taken[queue[0]] {
		queue = queue[1:]
	}
	if queues != nil {
		queues[key] = queue
	}
	if len(queue) == 0 || !ok(queue[0]) {
		return nil
	}
	return queue[0]
}

// readOutput returns the output in a function response: what unwrapped finds in the
// object, or else the whole value. A string counts as its text, anything else as JSON.
func readOutput(tool string, raw wire.Raw) (text string, failed bool) {
	var o wire.Object
	if o.UnmarshalJSON(raw) == nil {
		if inner, wasError, ok := unwrapped(tool, o); ok {
			raw, failed = inner, wasError
		}
	}
	if raw.Kind() == '"' {
		return wire.Unquote(raw), failed
	}
	return string(raw), failed
}

// unwrapped returns the inner value: of an object whose only member is "output" or
// "error", which Google documents, or "result", which its SDKs write; or of one with the
// tool's name and content, as the AI SDK writes it.
func unwrapped(tool string, o wire.Object) (inner wire.Raw, failed, ok bool) {
	switch len(o) {
	case 1:
		failed = o[0].Name == "error"
		return o[0].Value, failed, failed || o[0].Name == "result" || o[0].Name == "output"
	case 2:
		name, _ := o.Get("name")
		content, ok := o.Get("content")
		return content, false, ok && string(name) == string(quote(tool))
	}
	return nil, false, false
}

// writeOutput returns the object of a function response (GEM-06). An object
// stays; everything else is wrapped as text.
func writeOutput(text string, failed bool) wire.Raw {
	if !failed {
		if raw := wire.Raw(text); raw.Kind() == '{' && raw.IsValid(jsontext.AllowDuplicateNames(false)) {
			return raw
		}
		return wire.Raw(`{"result":` + string(quote(text)) + `}`)
	}
	return wire.Raw(`{"error":` + string(quote(text)) + `}`)
}

// call encodes a call, with an id that no other call of the conversation uses.
func (e *requestEncoder) call(c *llm.ToolCall, path string) Part {
	f := FunctionCall{
		Name:  wire.Some(e.send(llm.ToolRef{Kind: c.Kind, Name: c.Name, Namespace: c.Namespace})),
		Extra: extra(c.Ext, atCall),
	}
	if c.Kind == llm.CustomTool {
		f.Args = wire.Raw(`{"input":` + string(quote(c.Args)) + `}`)
	} else {
		f.Args = e.args(c.Args, path)
	}
	if e.sent == nil {
		e.sent, e.ids = map[*llm.ToolCall]string{}, map[string]int{}
	}
	if !c.Synthetic && c.CallID != "" {
		id := c.CallID
		if e.ids[c.CallID]++; e.ids[c.CallID] > 1 {
			id += "_" + strconv.Itoa(e.ids[c.CallID])
		}
		f.ID = wire.Some(id)
		e.sent[c] = id
	}
	p := Part{FunctionCall: wire.Some(f), Extra: extra(c.Ext, "")}
	if s, ok := c.SealFor(own); ok {
		p.ThoughtSignature = wire.Some(s.Data)
	}
	return p
}

// args encodes a call's arguments as an object, and reports arguments that were
// not one.
func (e *requestEncoder) args(args, path string) wire.Raw {
	raw, wrapped := objectArgs(args)
	if wrapped {
		e.report.Approximate(path+".args", "args.wrapped", "the arguments are no JSON object and are sent inside one")
	}
	return raw
}

// objectArgs returns a call's arguments as a JSON object, and whether they had to
// be wrapped. A valid object keeps its text, including that of numbers.
func objectArgs(args string) (raw wire.Raw, wrapped bool) {
	raw = wire.WholeText(wire.Raw(strings.TrimSpace(args)))
	valid := raw.IsValid(jsontext.AllowDuplicateNames(true))
	switch {
	case len(raw) == 0, string(raw) == "null":
		return wire.Raw("{}"), false
	case valid && raw.Kind() == '{':
		return raw, false
	case valid && raw.Kind() == '"':
		if s, err := unquote(raw); err == nil {
			if inner := wire.Raw(s); inner.Kind() == '{' && inner.IsValid() {
				return inner, false
			}
		}
	}
	if valid {
		return wire.Raw(`{"value":` + string(raw) + `}`), true
	}
	return wire.Raw(`{"_raw":` + string(quote(args)) + `}`), true
}

// result encodes a tool result. It adds media that the model does not accept inside the
// response to a content of their own.
func (e *requestEncoder) result(r *llm.ToolResult, call *llm.ToolCall, path string, media *content) *Part {
	if r.Cache != nil {
		e.cached = true
	}
	f := FunctionResponse{Name: wire.Some(toolName(llm.ToolRef{Kind: call.Kind, Name: call.Name, Namespace: call.Namespace}))}
	if id := e.sent[call]; id != "" {
		f.ID = wire.Some(id)
	}
	var texts []string
	var inside wire.List[FunctionOutput]
	outside := false
	for _, b := range r.Blocks {
		switch b := b.(type) {
		case *llm.Text:
			texts = append(texts, b.Text)
		case *llm.Media:
			part := Part{Extra: extra(b.Ext, "")}
			if !e.media(b, &part, path) {
				continue
			}
			if r.Ext.Protocol == own || generation(e.target.Model) >= 3 {
				inside.Append(&FunctionOutput{InlineData: part.InlineData, FileData: part.FileData})
				continue
			}
			if !outside {
				outside = true
				media.add(&Part{Text: wire.Some(wire.NewText("from the call of " + call.Name + ":"))})
			}
			media.add(&part)
		default:
			e.report.Refuse(path, "block.unknown", "a result holds text and media only")
		}
	}
	text := strings.Join(texts, "\n")
	if outside {
		e.report.Approximate(path, "tool_result.media_split", "media in a result follow it as the user's")
		if text != "" {
			text += " "
		}
		text += "[the media follow]"
	}
	f.Response = writeOutput(text, r.Failed)
	members := kept(r.Ext, atResponse)
	if raw, ok := members.Get("response"); ok {
		f.Response = raw
	} else if r.Ext.Protocol == own && r.Missing {
		f.Response = nil
	}
	f.Extra = wire.NewExtra(members)
	f.Extra.Delete("response")
	if inside.Len() > 0 {
		f.Parts = wire.Some(inside)
	}
	p := &Part{FunctionResponse: wire.Some(f), Extra: extra(r.Ext, "")}
	if s, ok := r.SealFor(own); ok {
		p.ThoughtSignature = wire.Some(s.Data)
	}
	return p
}

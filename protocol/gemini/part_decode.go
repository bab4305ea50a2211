package gemini

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// block reads any part but a function's response.
func (r *reader) block(p *Part) llm.Block {
	if p.FunctionCall.IsSet() {
		return r.call(p)
	}
	return readPart(p)
}

// readPart reads a part that has no place in the pairing of calls and results.
func readPart(p *Part) llm.Block {
	meta := readMeta(p)
	switch {
	case p.InlineData.IsSet():
		return readBlob(p.InlineData.Ptr(), meta)
	case p.FileData.IsSet():
		return readFile(p.FileData.Ptr(), meta)
	case serverPart(p) != "":
		return &llm.ServerCall{Meta: meta, Protocol: own, Type: serverPart(p), Raw: rawPart(p), Digest: digest(p)}
	case p.Thought.Value(): // Google's Go SDK leaves an empty text out
		t := &llm.Thought{Meta: meta}
		if s := textOf(p.Text.Value()); s != "" {
			t.Parts = []llm.ThoughtPart{{Form: llm.SummaryReasoning, Text: s}}
		}
		return t
	case p.Text.IsSet():
		return &llm.Text{Meta: meta, Text: textOf(p.Text.Value())}
	}
	unknown := p.Extra.All()
	if len(unknown) == 0 { // Google's Go SDK writes an empty text so
		return &llm.Text{Meta: meta}
	}
	kind := unknown[0].Name
	return &llm.Opaque{Meta: llm.Meta{Ext: llm.Ext{Protocol: own}}, Protocol: own, Type: kind, Raw: rawPart(p)}
}

// textOf gives the characters of a text that is no fragment.
func textOf(t wire.Text) string { return t.Whole().String() }

func rawPart(p *Part) llm.Raw {
	raw, _ := partShape.Marshal(p) // what was decoded can be encoded
	return llm.Raw(raw)
}

func readMeta(p *Part) llm.Meta {
	m := llm.Meta{Seals: readSeals(p.ThoughtSignature.Value(), p.ExtraContent)}
	keep(&m.Ext, "", p.Extra.All())
	for _, known := range []wire.Member{
		{Name: "videoMetadata", Value: p.VideoMetadata}, {Name: "mediaResolution", Value: p.MediaResolution},
		{Name: "partMetadata", Value: p.PartMetadata}, {Name: "mediaProcessing", Value: p.MediaProcessing},
		{Name: "speechMetadata", Value: p.SpeechMetadata},
	} {
		keepRaw(&m.Ext, known.Name, known.Value)
	}
	return m
}

// serverPart names the part if it is one of the vendor's own tools at work.
func serverPart(p *Part) string {
	for _, m := range []wire.Member{
		{Name: "executableCode", Value: p.ExecutableCode}, {Name: "codeExecutionResult", Value: p.CodeExecutionResult},
		{Name: "toolCall", Value: p.ToolCall}, {Name: "toolResponse", Value: p.ToolResponse},
	} {
		if len(m.Value) > 0 && m.Value.Kind() != 'n' {
			return m.Name
		}
	}
	return ""
}

// digest says in words what the vendor's own tool has done.
func digest(p *Part) string {
	var code struct {
		Language string `json:"language"`
		Code     string `json:"code"`
	}
	if json.Unmarshal(p.ExecutableCode, &code, lenient) == nil && code.Code != "" {
		return "```" + strings.ToLower(code.Language) + "\n" + code.Code + "\n```"
	}
	var result struct {
		Outcome string `json:"outcome"`
		Output  string `json:"output"`
	}
	if json.Unmarshal(p.CodeExecutionResult, &result, lenient) == nil && result.Output != "" {
		return "```\n" + result.Output + "\n```"
	}
	return ""
}

func readBlob(b *Blob, meta llm.Meta) *llm.Media {
	keep(&meta.Ext, atBlob, b.Extra.All())
	mime := b.MIMEType.Value()
	return &llm.Media{Meta: meta, Kind: mediaKind(mime), MIME: mime, Data: standardBase64(b.Data.Value()), Name: displayName(b.Extra)}
}

func readFile(f *FileData, meta llm.Meta) *llm.Media {
	keep(&meta.Ext, atFile, f.Extra.All())
	mime, uri := f.MIMEType.Value(), f.FileURI.Value()
	m := &llm.Media{Meta: meta, Kind: mediaKind(mime), MIME: mime, Name: displayName(f.Extra)}
	if u, err := url.Parse(uri); err == nil && (u.Scheme == "http" || u.Scheme == "https") && !vendorURI(uri) {
		m.URL = uri
	} else {
		m.FileID = uri
	}
	return m
}

// vendorURI reports whether an address means something to Google alone.
func vendorURI(uri string) bool {
	return strings.HasPrefix(uri, "gs://") || strings.HasPrefix(uri, "files/") ||
		strings.HasPrefix(uri, "https://generativelanguage.googleapis.com/")
}

func displayName(e wire.Extra) string {
	raw, _ := e.Get("displayName")
	name, err := unquote(raw)
	if err != nil {
		return ""
	}
	return name
}

func mediaKind(mime string) llm.MediaKind {
	family, _, _ := strings.Cut(mime, "/")
	switch kind := llm.MediaKind(family); kind {
	case llm.Image, llm.Audio, llm.Video:
		return kind
	default:
		return llm.File
	}
}

// call reads a call. Most have no id, and equal calls must not get equal ids
// (GEM-01): where in the conversation it stands is a part of the id.
func (r *reader) call(p *Part) *llm.ToolCall {
	f := p.FunctionCall.Ptr()
	c := &llm.ToolCall{Meta: readMeta(p), CallID: f.ID.Value(), Kind: llm.FunctionTool, Name: f.Name.Value(), Args: readArgs(f.Args)}
	keep(&c.Ext, atCall, f.Extra.All())
	if c.CallID == "" {
		c.Synthetic = true
		c.CallID = llm.MintID("call_", "history", strconv.Itoa(r.count), c.Name, c.Args)
	}
	r.count++
	r.calls.add(c)
	return c
}

// readArgs gives arguments as text; without any there is still an object.
func readArgs(raw wire.Raw) string {
	if len(raw) == 0 || raw.Kind() == 'n' {
		return "{}"
	}
	return string(raw)
}

// result reads what a function gave, and finds the call that it answers: by its
// id, or the first without a result that has its name.
func (r *reader) result(p *Part) *llm.ToolResult {
	f := p.FunctionResponse.Ptr()
	res := &llm.ToolResult{Meta: readMeta(p), Name: f.Name.Value(), Kind: llm.FunctionTool}
	keep(&res.Ext, atResponse, f.Extra.All())
	if res.CallID = r.answers(f.ID.Value(), res.Name); f.ID.Value() != "" && res.CallID != f.ID.Value() {
		note(&res.Ext, atResponse+"id", quote(f.ID.Value())) // the call has none
	}
	var text string
	text, res.Failed = readOutput(res.Name, f.Response)
	res.Missing = len(f.Response) == 0
	if !res.Missing {
		res.Blocks = []llm.Block{&llm.Text{Text: text}}
	}
	for _, m := range f.Parts.Value() {
		switch {
		case m.InlineData.IsSet():
			res.Blocks = append(res.Blocks, readBlob(m.InlineData.Ptr(), llm.Meta{Ext: llm.Ext{Protocol: own}}))
		case m.FileData.IsSet():
			res.Blocks = append(res.Blocks, readFile(m.FileData.Ptr(), llm.Meta{Ext: llm.Ext{Protocol: own}}))
		}
	}
	// The way home has to bring the same object again.
	if !res.Missing && string(writeOutput(text, res.Failed)) != string(f.Response) {
		note(&res.Ext, atResponse+"response", f.Response)
	}
	return res
}

func (r *reader) answers(id, name string) string {
	if c := r.calls.take(id, name); c != nil {
		return c.CallID
	}
	if id != "" {
		return id
	}
	r.count++
	return llm.MintID("call_", "orphan", strconv.Itoa(r.count), name)
}

// openCalls are the calls of the latest answer that have no result so far, in
// order, by their id and by their name.
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

// take finds the call that a result answers, once; nil if there is none. A result
// with an id answers a call without one by name only.
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

// next gives the first call of a queue if it will do, past those that are taken.
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

// readOutput undoes the wrapping that the object of a response usually is.
func readOutput(tool string, raw wire.Raw) (text string, failed bool) {
	var o wire.Object
	if o.UnmarshalJSON(raw) != nil {
		return string(raw), false
	}
	inner, failed, ok := unwrapped(tool, o)
	if !ok {
		return string(raw), false
	}
	if s, err := unquote(inner); err == nil && inner.Kind() == '"' {
		return s, failed
	}
	return string(inner), failed
}

// unwrapped is what is inside: of one member, or of the tool's name and content, which
// is what the AI SDK writes.
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

// writeOutput makes the object that a response has to be (GEM-06): an object is
// one, everything else is wrapped, as the text that it is.
func writeOutput(text string, failed bool) wire.Raw {
	if !failed {
		if raw := wire.Raw(text); raw.Kind() == '{' && raw.IsValid(jsontext.AllowDuplicateNames(false)) {
			return raw
		}
		return wire.Raw(`{"result":` + string(quote(text)) + `}`)
	}
	return wire.Raw(`{"error":` + string(quote(text)) + `}`)
}

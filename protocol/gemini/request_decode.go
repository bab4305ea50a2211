package gemini

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeRequest decodes a generateContent request. The model and the stream flag
// are in the path.
func (Codec) DecodeRequest(in protocol.Incoming) (*llm.Request, *llm.Error) {
	var body Request
	if err := unmarshalRequest(in.Body, &body); err != nil {
		return nil, badBody(err)
	}
	req, err := readRequest(&body)
	if err != nil {
		return nil, err
	}
	req.Stream = in.Stream
	if a, found, bad := ParsePath(http.MethodPost, in.Path); found {
		if bad != nil {
			return nil, bad
		}
		req.Model, req.Stream = a.Model, in.Stream || a.Verb == StreamGenerate
	}
	return req, nil
}

// badBody returns an error that says where a body is invalid.
func badBody(err error) *llm.Error {
	e := &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_json", Message: err.Error()}
	if at, ok := errors.AsType[*wire.Error](err); ok {
		e.Param = at.Pointer
	}
	return e
}

func invalid(param, message string) *llm.Error {
	return &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_value", Param: param, Message: param + ": " + message}
}

// requestDecoder decodes a body into a neutral request.
type requestDecoder struct {
	req    *llm.Request
	calls  openCalls
	count  int                    // number of calls so far, for ids that have to be made
	pieces map[llm.Block][]string // texts of blocks that are spread over several contents
	err    *llm.Error
}

func readRequest(body *Request) (*llm.Request, *llm.Error) {
	req := &llm.Request{Model: body.Model.Value(), IncludeUsage: true}
	r := requestDecoder{req: req}
	keep(&req.Ext, "", body.Extra.All())
	for _, m := range []wire.Member{
		{Name: "safetySettings", Value: body.SafetySettings},
		{Name: "continuationToken", Value: body.ContinuationToken}, {Name: "labels", Value: body.Labels},
		{Name: "modelArmorConfig", Value: body.ModelArmorConfig},
	} {
		keepRaw(&req.Ext, m.Name, m.Value)
	}
	if s := body.SystemInstruction.Ptr(); s != nil {
		r.system(s)
	}
	contents := body.Contents.Value()
	for i, c := range contents.All() {
		r.content(i, c)
	}
	r.settle()
	tools := body.Tools.Value()
	for _, t := range tools.All() {
		r.tool(t)
	}
	r.toolConfig(body.ToolConfig.Ptr())
	r.generation(body.GenerationConfig.Ptr())
	req.Service.Tier = readTier(body.ServiceTier.Value())
	if body.CachedContent.Kind() != 'n' {
		req.State.CachedPrompt = llm.Raw(body.CachedContent)
	}
	if v, ok := body.Store.Get(); ok {
		req.State.Store = &v
	}
	return req, r.err
}

func (d *requestDecoder) fail(err *llm.Error) {
	if d.err == nil {
		d.err = err
	}
}

// system decodes the system instruction. SDKs give it a role, which has no
// meaning.
func (d *requestDecoder) system(c *Content) {
	t := llm.Turn{Role: llm.System}
	keep(&t.Ext, "", c.Extra.All())
	if role, ok := c.Role.Get(); ok {
		note(&t.Ext, "role", quote(role))
	}
	parts := c.Parts.Value()
	for _, p := range parts.All() {
		t.Blocks = append(t.Blocks, d.block(p))
	}
	d.req.Turns = append(d.req.Turns, t)
}

var roles = map[string]llm.Role{
	"": llm.User, "user": llm.User, "model": llm.Assistant, "function": llm.User, "tool": llm.User,
	"assistant": llm.Assistant, "system": llm.System, "developer": llm.Developer,
}

// content decodes one content. Function responses become a turn of their own,
// before the rest of the content.
func (d *requestDecoder) content(i int, c *Content) {
	role, ok := roles[c.Role.Value()]
	if !ok {
		d.fail(invalid("contents["+strconv.Itoa(i)+"].role", "write user or model"))
		return
	}
	said := llm.Turn{Role: role}
	keep(&said.Ext, "", c.Extra.All())
	results := llm.Turn{Role: llm.ToolRole, Ext: said.Ext}
	parts := c.Parts.Value()
	if last := len(d.req.Turns) - 1; last >= 0 && d.req.Turns[last].Role != llm.Assistant && hasCall(&parts) {
		d.calls = openCalls{} // calls of the previous model turn can get no results any more
	}
	for _, p := range parts.All() {
		if p.FunctionResponse.IsSet() {
			results.Blocks = append(results.Blocks, d.result(p))
		} else {
			said.Blocks = append(said.Blocks, d.block(p))
		}
	}
	if role == llm.Assistant && len(results.Blocks) == 0 && d.appendToLast(&said) {
		return
	}
	if len(results.Blocks) > 0 {
		d.req.Turns = append(d.req.Turns, results)
		if len(said.Blocks) == 0 {
			return
		}
		said.Joined, said.Ext = true, llm.Ext{Protocol: own}
	}
	d.req.Turns = append(d.req.Turns, said)
}

func hasCall(parts *List[Part]) bool {
	for _, p := range parts.All() {
		if p.FunctionCall.IsSet() {
			return true
		}
	}
	return false
}

// appendToLast appends a model content to the previous one. Google's SDKs keep each
// event of a streaming response as a content of its own, and send all of them
// back.
func (d *requestDecoder) appendToLast(said *llm.Turn) bool {
	last := len(d.req.Turns) - 1
	if last < 0 || d.req.Turns[last].Role != llm.Assistant || len(said.Ext.Members) > 0 {
		return false
	}
	t := &d.req.Turns[last]
	for i, b := range said.Blocks {
		if i > 0 || !d.extend(t.Blocks, b) {
			t.Blocks = append(t.Blocks, b)
		}
	}
	return true
}

// extend appends a piece to the last block if both are text or both are thoughts.
func (d *requestDecoder) extend(blocks []llm.Block, piece llm.Block) bool {
	if len(blocks) == 0 || !plain(piece) {
		return false
	}
	before := blocks[len(blocks)-1]
	var text string
	switch piece := piece.(type) {
	case *llm.Text:
		if _, ok := before.(*llm.Text); !ok || !plain(before) {
			return piece.Text == "" // the last event of a stream
		}
		text = piece.Text
	case *llm.Thought:
		if _, ok := before.(*llm.Thought); !ok || !plain(before) {
			return false
		}
		text = piece.Text("")
	default:
		return false
	}
	if d.pieces == nil {
		d.pieces = map[llm.Block][]string{}
	}
	d.pieces[before] = append(d.pieces[before], text)
	return true
}

// settle joins the pieces of each block when all have come.
func (d *requestDecoder) settle() {
	for b, pieces := range d.pieces {
		rest := strings.Join(pieces, "")
		switch b := b.(type) {
		case *llm.Text:
			b.Text += rest
		case *llm.Thought:
			b.Parts = []llm.ThoughtPart{{Form: llm.SummaryReasoning, Text: b.Text("") + rest}}
		}
	}
	for i := range d.req.Turns {
		if t := &d.req.Turns[i]; t.Role == llm.Assistant {
			t.Blocks = foldThoughts(t.Blocks)
		}
	}
}

// plain reports whether a block has nothing but its text.
func plain(b llm.Block) bool {
	m := b.Common()
	return len(m.Seals) == 0 && len(m.Ext.Members) == 0
}

// foldThoughts joins the pieces of a thought that a stream delivered, the last of
// which carries another protocol's seal.
func foldThoughts(blocks []llm.Block) []llm.Block {
	var out []llm.Block
	for _, b := range blocks {
		t, ok := b.(*llm.Thought)
		if ok && foreign(t.Seals) {
			from := len(out)
			for from > 0 && isBareThought(out[from-1]) {
				from--
			}
			if whole := joinThoughts(append(out[from:], b)); whole != "" {
				t.Parts = []llm.ThoughtPart{{Form: llm.SummaryReasoning, Text: whole}}
			}
			out = out[:from]
		}
		out = append(out, b)
	}
	return out
}

func foreign(seals []llm.Seal) bool {
	return slices.ContainsFunc(seals, func(s llm.Seal) bool { return s.Origin != own })
}

func isBareThought(b llm.Block) bool {
	t, ok := b.(*llm.Thought)
	return ok && len(t.Seals) == 0
}

func joinThoughts(blocks []llm.Block) string {
	var s strings.Builder
	for _, b := range blocks {
		s.WriteString(b.(*llm.Thought).Text(""))
	}
	return s.String()
}

func (d *requestDecoder) generation(g *GenerationConfig) {
	if g == nil {
		return
	}
	e := &d.req.Ext
	keep(e, atGeneration, g.Extra.All())
	for _, m := range []wire.Member{
		{Name: "speechConfig", Value: g.SpeechConfig}, {Name: "imageConfig", Value: g.ImageConfig},
		{Name: "mediaResolution", Value: g.MediaResolution}, {Name: "audioTimestamp", Value: g.AudioTimestamp},
		{Name: "routingConfig", Value: g.RoutingConfig}, {Name: "enableEnhancedCivicAnswers", Value: g.EnableEnhancedCivicAnswers},
		{Name: "audioTranscriptionConfig", Value: g.AudioTranscriptionConfig}, {Name: "responseFormat", Value: g.ResponseFormat},
		{Name: "translationConfig", Value: g.TranslationConfig},
	} {
		keepRaw(e, atGeneration+m.Name, m.Value)
	}
	d.req.Sampling = llm.Sampling{
		Temperature: number(g.Temperature), TopP: number(g.TopP), TopK: number(g.TopK), Seed: number(g.Seed),
		FrequencyPenalty: number(g.FrequencyPenalty), PresencePenalty: number(g.PresencePenalty),
	}
	o := &d.req.Output
	o.MaxTokens = d.integer("maxOutputTokens", g.MaxOutputTokens)
	o.Choices = d.integer("candidateCount", g.CandidateCount)
	o.TopLogprobs = d.integer("logprobs", g.Logprobs)
	o.Stops = g.StopSequences.Value()
	if v, ok := g.ResponseLogprobs.Get(); ok {
		o.Logprobs = &v
	}
	for _, m := range g.ResponseModalities.Value() {
		o.Modalities = append(o.Modalities, strings.ToLower(m))
	}
	o.Format = readFormat(g)
	d.thinking(g.ThinkingConfig.Ptr())
}

// number returns a number's text; some servers quote numbers.
func number(o wire.Opt[wire.Number]) llm.Number {
	return llm.Number(strings.Trim(string(o.Value()), `"`))
}

func (d *requestDecoder) integer(name string, o wire.Opt[wire.Number]) *int64 {
	v, ok := o.Get()
	if !ok {
		return nil
	}
	n, err := v.Int64()
	if err != nil {
		d.fail(invalid(atGeneration+name, "write an integer"))
	}
	return &n
}

func readFormat(g *GenerationConfig) llm.Format {
	f := llm.Format{Schema: llm.Raw(g.ResponseJSONSchema), Ext: llm.Ext{Protocol: own}}
	if len(g.ResponseSchema) > 0 && g.ResponseSchema.Kind() != 'n' {
		note(&f.Ext, "responseSchema", g.ResponseSchema) // kept for clients of this protocol
		if f.Schema == "" {
			f.Schema = llm.Raw(jsonSchema(g.ResponseSchema))
		}
	}
	switch mime := g.ResponseMIMEType.Value(); {
	case mime == mimeEnum:
		f.Kind = "enum"
	case f.Schema != "":
		f.Kind = "json_schema"
	case mime == mimeJSON:
		f.Kind = "json_object"
	case mime == mimeText:
		f.Kind = "text"
	case mime == "":
		return llm.Format{}
	default:
		keepRaw(&f.Ext, "responseMimeType", quote(mime))
	}
	return f
}

func (d *requestDecoder) thinking(t *ThinkingConfig) {
	if t == nil {
		return
	}
	g := &d.req.Reasoning
	keep(&g.Ext, "", t.Extra.All())
	if show, ok := t.IncludeThoughts.Get(); ok {
		g.Show = map[bool]string{true: "auto", false: "none"}[show]
	}
	if g.Budget = d.integer("thinkingConfig.thinkingBudget", t.ThinkingBudget); g.Budget != nil && *g.Budget == 0 {
		g.Mode = "off"
	}
	if level := strings.ToLower(t.ThinkingLevel.Value()); level != "thinking_level_unspecified" {
		g.Effort = level
	}
}

func readTier(tier string) string {
	if tier == "standard" {
		return "default"
	}
	return tier
}

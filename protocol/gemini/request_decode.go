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

// DecodeRequest reads a client's request. Model and stream are in the path.
func (Codec) DecodeRequest(in protocol.Incoming) (*llm.Request, *llm.Error) {
	var body Request
	if err := body.UnmarshalJSON(in.Body); err != nil {
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

// badBody says what is wrong with a body, and where.
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

// reader turns a body into a neutral request.
type reader struct {
	req    *llm.Request
	calls  openCalls
	count  int                    // of all calls, for ids that have to be made up
	pieces map[llm.Block][]string // what is said in a block in several contents
	err    *llm.Error
}

func readRequest(body *Request) (*llm.Request, *llm.Error) {
	req := &llm.Request{Model: body.Model.Value(), IncludeUsage: true}
	r := reader{req: req}
	keep(&req.Ext, "", body.Extra.All())
	for _, m := range []wire.Member{
		{Name: "safetySettings", Value: body.SafetySettings}, {Name: "cachedContent", Value: body.CachedContent},
		{Name: "continuationToken", Value: body.ContinuationToken}, {Name: "labels", Value: body.Labels},
		{Name: "modelArmorConfig", Value: body.ModelArmorConfig},
	} {
		keepRaw(&req.Ext, m.Name, m.Value)
	}
	if s := body.SystemInstruction.Ptr(); s != nil {
		r.system(s)
	}
	contents := body.Contents.Value()
	for i, c := range contents.Items() {
		r.content(i, &c)
	}
	r.settle()
	tools := body.Tools.Value()
	for _, t := range tools.Items() {
		r.tool(&t)
	}
	r.toolConfig(body.ToolConfig.Ptr())
	r.generation(body.GenerationConfig.Ptr())
	req.Service.Tier = readTier(body.ServiceTier.Value())
	if v, ok := body.Store.Get(); ok {
		req.State.Store = &v
	}
	return req, r.err
}

func (r *reader) fail(err *llm.Error) {
	if r.err == nil {
		r.err = err
	}
}

// system reads the instruction. SDKs give it a role, which means nothing.
func (r *reader) system(c *Content) {
	t := llm.Turn{Role: llm.System}
	keep(&t.Ext, "", c.Extra.All())
	if role, ok := c.Role.Get(); ok {
		note(&t.Ext, "role", quote(role))
	}
	parts := c.Parts.Value()
	for _, p := range parts.Items() {
		t.Blocks = append(t.Blocks, r.block(&p))
	}
	r.req.Turns = append(r.req.Turns, t)
}

var roles = map[string]llm.Role{
	"": llm.User, "user": llm.User, "model": llm.Assistant, "function": llm.User, "tool": llm.User,
	"assistant": llm.Assistant, "system": llm.System, "developer": llm.Developer,
}

// content reads one content. Results of functions become a turn of their own,
// before whatever else the user says in it.
func (r *reader) content(i int, c *Content) {
	role, ok := roles[c.Role.Value()]
	if !ok {
		r.fail(invalid("contents["+strconv.Itoa(i)+"].role", "write user or model"))
		return
	}
	said := llm.Turn{Role: role}
	keep(&said.Ext, "", c.Extra.All())
	results := llm.Turn{Role: llm.ToolRole, Ext: said.Ext}
	parts := c.Parts.Value()
	if last := len(r.req.Turns) - 1; last >= 0 && r.req.Turns[last].Role != llm.Assistant && slices.ContainsFunc(parts.Items(), isCall) {
		r.calls = openCalls{} // what the answer before this one asked for will not come any more
	}
	for _, p := range parts.Items() {
		if p.FunctionResponse.IsSet() {
			results.Blocks = append(results.Blocks, r.result(&p))
		} else {
			said.Blocks = append(said.Blocks, r.block(&p))
		}
	}
	if role == llm.Assistant && len(results.Blocks) == 0 && r.goesOn(&said) {
		return
	}
	if len(results.Blocks) > 0 {
		r.req.Turns = append(r.req.Turns, results)
		if len(said.Blocks) == 0 {
			return
		}
		said.Joined, said.Ext = true, llm.Ext{Protocol: own}
	}
	r.req.Turns = append(r.req.Turns, said)
}

func isCall(p Part) bool { return p.FunctionCall.IsSet() }

// goesOn joins a model's content with the one before it. Google's SDKs keep a
// streamed answer as one content for each event, and send them all back.
func (r *reader) goesOn(said *llm.Turn) bool {
	last := len(r.req.Turns) - 1
	if last < 0 || r.req.Turns[last].Role != llm.Assistant || len(said.Ext.Members) > 0 {
		return false
	}
	t := &r.req.Turns[last]
	for i, b := range said.Blocks {
		if i > 0 || !r.extend(t.Blocks, b) {
			t.Blocks = append(t.Blocks, b)
		}
	}
	return true
}

// extend adds a piece to the last block, if the two are one text or one thought.
func (r *reader) extend(blocks []llm.Block, piece llm.Block) bool {
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
	if r.pieces == nil {
		r.pieces = map[llm.Block][]string{}
	}
	r.pieces[before] = append(r.pieces[before], text)
	return true
}

// settle puts the pieces into their blocks, when all have come.
func (r *reader) settle() {
	for b, pieces := range r.pieces {
		rest := strings.Join(pieces, "")
		switch b := b.(type) {
		case *llm.Text:
			b.Text += rest
		case *llm.Thought:
			b.Parts = []llm.ThoughtPart{{Form: llm.SummaryReasoning, Text: b.Text("") + rest}}
		}
	}
	for i := range r.req.Turns {
		if t := &r.req.Turns[i]; t.Role == llm.Assistant {
			t.Blocks = foldThoughts(t.Blocks)
		}
	}
}

// plain reports whether nothing but its text is known of a block.
func plain(b llm.Block) bool {
	m := b.Common()
	return len(m.Seals) == 0 && len(m.Ext.Members) == 0
}

// foldThoughts puts together what a stream has brought a client in pieces: the
// text of a thought, with another protocol's seal on the last of them.
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

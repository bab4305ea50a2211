package anthropic

import (
	"errors"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/blockcodec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// errThread rejects a request that continues a thread. Anthropic's tool runners
// then send the complete conversation. Ignoring the member would lose earlier
// turns, because such a request holds only the new ones. VER-01
var errThread = llm.Error{Kind: llm.InvalidRequest, Code: "thread_unsupported_request", Param: "thread",

	Message: "thread: conversations are not kept here; send all messages, without thread"}

// billingHeader begins a system block that Claude Code puts first and changes
// with every request. Other vendors' prompt caches would never hit behind it.
// ANT-22
const billingHeader = "x-anthropic-billing-header:"

// DecodeRequest decodes a messages request.
func (Codec) DecodeRequest(in protocol.Incoming) (*llm.Request, *llm.Error) {
	if _, err := versionNamed(in.Version); err != nil {
		return nil, err
	}
	var w Request
	if err := wire.Unmarshal(in.Body, &w); err != nil {
		return nil, invalidJSON(err)
	}
	if w.Thread.Kind() != 0 && w.Thread.Kind() != 'n' {
		e := errThread
		return nil, &e
	}
	d := requestDecoder{wire: &w, req: &llm.Request{Model: w.Model.Value(), Ext: kept.Ext(w.Extra)}}
	d.req.Ext.Protocol = own
	d.decode()
	if d.err != nil {
		return nil, d.err
	}
	return d.req, nil
}

// requestDecoder decodes one request. It keeps the first error.
type requestDecoder struct {
	wire *Request
	req  *llm.Request
	err  *llm.Error
}

func (d *requestDecoder) decode() {
	w, req := d.wire, d.req
	if req.Model == "" {
		d.fail("model", "the field is required: name the model")
	}
	req.Stream, req.IncludeUsage = w.Stream.Value(), true
	req.Output.MaxTokens = d.integer("max_tokens", w.MaxTokens)
	for _, s := range w.StopSequences.Value() {
		req.Output.Stops = append(req.Output.Stops, s.String())
	}
	req.Sampling = llm.Sampling{Temperature: number(w.Temperature), TopP: number(w.TopP), TopK: number(w.TopK)}
	req.Identity.User = w.Metadata.Value().UserID.Value().String()
	kept.KeepRest(&req.Ext, "metadata", w.Metadata.Value().Extra)
	req.Service = llm.Service{Tier: tierNames[w.ServiceTier.Value()], Speed: w.Speed.Value()}
	if req.Service.Tier == "" {
		req.Service.Tier = w.ServiceTier.Value()
	}
	req.Cache.Auto = decodeCache(w.CacheControl)
	d.reasoning()
	d.format()
	d.tools()
	d.toolChoice()
	d.system()
	if !w.Messages.IsSet() {
		d.fail("messages", "the field is required: send the conversation")
	}
	for i, m := range w.Messages.Value().All() {
		d.message("messages."+strconv.Itoa(i), m)
	}
}

// tierNames maps service tiers to their neutral names.
var tierNames = map[string]string{"standard_only": "default"}

func (d *requestDecoder) fail(at, what string) {
	if d.err == nil {
		d.err = &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_value", Param: at, Message: at + ": " + what}
	}
}

func (d *requestDecoder) integer(at string, n wire.Opt[wire.Number]) *int64 {
	text, ok := n.Get()
	if !ok {
		return nil
	}
	i, err := text.Int64()
	if err != nil || i < 0 {
		d.fail(at, "must be a non-negative integer")
		return nil
	}
	return &i
}

// number returns a number's text. Some clients send numbers as strings.
func number(n wire.Opt[wire.Number]) llm.Number {
	return llm.Number(strings.Trim(string(n.Value()), `"`))
}

// system decodes the system prompt as the first turn.
func (d *requestDecoder) system() {
	c, ok := d.wire.System.Get()
	if !ok {
		return
	}
	if text, ok := c.Text.Get(); ok && isBilling(text.String()) {
		c = Content{Blocks: wire.Some(wire.ListOf(textBlock(text.String())))}
	}
	t := llm.Turn{Role: llm.System}
	t.Blocks = d.content("system", c, &t)
	n := 0
	for n < len(t.Blocks) && blockcodec.IsText(t.Blocks[n], isBilling) {
		n++
	}
	if n > 0 {
		kept.Keep(&d.req.Ext, "system", array(c.Blocks.Value().Slice()[:n]))
		t.Blocks = t.Blocks[n:]
	}
	if len(t.Blocks) > 0 {
		d.req.Turns = append(d.req.Turns, t)
	}
}

func isBilling(text string) bool { return strings.HasPrefix(text, billingHeader) }

var wireRoles = map[string]llm.Role{"user": llm.User, "assistant": llm.Assistant, "system": llm.System}

// message decodes one message. Tool results and the blocks around them become
// turns of their own, marked as one message.
func (d *requestDecoder) message(at string, m *Message) {
	role, ok := wireRoles[m.Role.Value()]
	if !ok {
		d.fail(at+".role", "want user, assistant or system, got "+strconv.Quote(m.Role.Value()))
		return
	}
	t := llm.Turn{Role: role, Ext: kept.Ext(m.Extra)}
	blocks := d.content(at+".content", m.Content.Value(), &t)
	first := true
	for first || len(blocks) > 0 {
		n := 0
		for n < len(blocks) && blockcodec.IsResult(blocks[n]) == blockcodec.IsResult(blocks[0]) {
			n++
		}
		part := t
		part.Joined = !first
		if !first {
			part.Ext = llm.Ext{}
		}
		if part.Blocks = blocks[:n:n]; n > 0 && blockcodec.IsResult(blocks[0]) {
			if role != llm.User {
				d.fail(at+".content", "tool_result belongs into a user message")
			}
			part.Role = llm.ToolRole
		}
		d.req.Turns = append(d.req.Turns, part)
		blocks, first = blocks[n:], false
	}
}

// content decodes text or blocks, and records in the turn which of the two it
// was.
func (d *requestDecoder) content(at string, c Content, t *llm.Turn) []llm.Block {
	if text, ok := c.Text.Get(); ok {
		return []llm.Block{&llm.Text{Text: text.String()}}
	}
	list := c.Blocks.Value()
	blocks := make([]llm.Block, 0, list.Len())
	for i, raw := range list.All() {
		b, err := decodeBlock(*raw)
		if err != nil {
			d.fail(at+"."+strconv.Itoa(i), err.Error())
			return blocks
		}
		blocks = append(blocks, b)
	}
	t.List = len(blocks) == 1 && isPlain(blocks[0])
	return blocks
}

// isPlain reports whether a block is text without other members, so that it can
// be sent as a string.
func isPlain(b llm.Block) bool {
	t, ok := b.(*llm.Text)
	return ok && t.Cache == nil && t.Ext.Protocol != own && len(t.Citations) == 0
}

// invalidJSON returns an error that says where a body is invalid.
func invalidJSON(err error) *llm.Error {
	e := &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_json", Message: err.Error()}
	if at, ok := errors.AsType[*wire.Error](err); ok && at.Pointer != "" {
		e.Param = strings.ReplaceAll(strings.TrimPrefix(at.Pointer, "/"), "/", ".")
		e.Message = e.Param + ": " + at.Message
	}
	return e
}

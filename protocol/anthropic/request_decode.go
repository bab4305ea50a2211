package anthropic

import (
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
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
		return nil, blockcodec.InvalidJSON(err)
	}
	if w.Thread.Kind() != 0 && w.Thread.Kind() != 'n' {
		e := errThread
		return nil, &e
	}
	d := requestDecoder{RequestDecoder: blockcodec.RequestDecoder{Req: &llm.Request{Model: w.Model.Value(), Ext: kept.Ext(w.Extra)}}, wire: &w}
	d.Req.Ext.Protocol = own
	d.decode()
	if d.Err != nil {
		return nil, d.Err
	}
	return d.Req, nil
}

// requestDecoder decodes one request.
type requestDecoder struct {
	blockcodec.RequestDecoder

	wire *Request
}

func (d *requestDecoder) decode() {
	w, req := d.wire, d.Req
	if req.Model == "" {
		d.Fail("model", "the field is required: name the model")
	}
	req.Stream, req.IncludeUsage = w.Stream.Value(), true
	req.Output.MaxTokens = d.Integer("max_tokens", w.MaxTokens)
	for _, s := range w.StopSequences.Value() {
		req.Output.Stops = append(req.Output.Stops, s.String())
	}
	req.Sampling = llm.Sampling{Temperature: blockcodec.Number(w.Temperature), TopP: blockcodec.Number(w.TopP), TopK: blockcodec.Number(w.TopK)}
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
		d.Fail("messages", "the field is required: send the conversation")
	}
	for i, m := range w.Messages.Value().All() {
		d.message("messages."+strconv.Itoa(i), m)
	}
}

// tierNames maps service tiers to their neutral names.
var tierNames = map[string]string{"standard_only": "default"}

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
		kept.Keep(&d.Req.Ext, "system", array(c.Blocks.Value().Slice()[:n]))
		t.Blocks = t.Blocks[n:]
	}
	if len(t.Blocks) > 0 {
		d.Req.Turns = append(d.Req.Turns, t)
	}
}

func isBilling(text string) bool { return strings.HasPrefix(text, billingHeader) }

func (d *requestDecoder) message(at string, m *Message) {
	role, ok := d.Role(at, m.Role.Value())
	if !ok {
		return
	}
	t := llm.Turn{Role: role, Ext: kept.Ext(m.Extra)}
	blocks := d.content(at+".content", m.Content.Value(), &t)
	d.Message(at, "tool_result", t, blocks)
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
			d.Fail(at+"."+strconv.Itoa(i), err.Error())
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

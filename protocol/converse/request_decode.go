package converse

import (
	"strconv"

	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeRequest decodes a request. Its path names the model and says whether a stream is
// wanted.
func (Codec) DecodeRequest(in protocol.Incoming) (*llm.Request, *llm.Error) {
	var w Request
	if err := wire.Unmarshal(in.Body, &w); err != nil {
		return nil, blockcodec.InvalidJSON(err)
	}
	d := requestDecoder{RequestDecoder: blockcodec.RequestDecoder{Req: &llm.Request{Stream: in.Stream, IncludeUsage: true, Ext: kept.Ext(w.Extra)}}, wire: &w}
	d.Req.Ext.Protocol = own
	if model, stream, ok := parsePath(in.Path); ok {
		d.Req.Model, d.Req.Stream = model, stream || in.Stream
	}
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
	d.inference()
	d.additional()
	d.output()
	if t, ok := w.ServiceTier.Get(); ok {
		req.Service.Tier = t.Type.Value()
		kept.KeepRest(&req.Ext, "serviceTier", t.Extra)
	}
	for _, m := range w.RequestMetadata.Value() {
		req.Identity.Metadata = append(req.Identity.Metadata, llm.Member{Name: m.Name, Value: llm.Raw(m.Value)})
	}
	if paths, ok := w.ResponsePaths.Get(); ok {
		raw, _ := wire.Marshal(&paths) // cannot fail: it was decoded from JSON
		kept.Mark(&req.Ext, "additionalModelResponseFieldPaths", raw)
	}
	d.tools()
	d.system()
	if !w.Messages.IsSet() {
		d.Fail("messages", "the field is required: send the conversation")
	}
	for i, m := range w.Messages.Value().All() {
		d.message("messages."+strconv.Itoa(i), m)
	}
}

func (d *requestDecoder) inference() {
	c := d.wire.InferenceConfig.Value()
	d.Req.Output.MaxTokens = d.Integer("inferenceConfig.maxTokens", c.MaxTokens)
	d.Req.Sampling.Temperature, d.Req.Sampling.TopP = blockcodec.Number(c.Temperature), blockcodec.Number(c.TopP)
	for _, s := range c.StopSequences.Value() {
		d.Req.Output.Stops = append(d.Req.Output.Stops, s.String())
	}
	kept.KeepRest(&d.Req.Ext, "inferenceConfig", c.Extra)
}

// additional decodes the members in the model's own form that have a neutral one.
func (d *requestDecoder) additional() {
	a := d.wire.AdditionalFields.Value()
	d.Req.Sampling.TopK = blockcodec.Number(a.TopK)
	kept.KeepRest(&d.Req.Ext, "additionalModelRequestFields", a.Extra)
	w, ok := a.Thinking.Get()
	if !ok {
		return
	}
	r := &d.Req.Reasoning
	r.Ext = kept.Ext(w.Extra)
	r.Ext.Protocol = own
	if r.Mode, ok = blockcodec.ThinkingModes[w.Type.Value()]; !ok {
		d.Fail("additionalModelRequestFields.thinking.type", "want enabled, adaptive, disabled or between_tools")
	}
	r.Budget = d.Integer("additionalModelRequestFields.thinking.budget_tokens", w.BudgetTokens)
	if r.Mode != "off" {
		r.Show = "auto"
	}
}

// system decodes the system prompt as the first turn.
func (d *requestDecoder) system() {
	list, ok := d.wire.System.Get()
	if !ok || list.Len() == 0 {
		return
	}
	d.Req.Turns = append(d.Req.Turns, llm.Turn{Role: llm.System, Blocks: d.content("system", list)})
}

func (d *requestDecoder) message(at string, m *Message) {
	role, ok := d.Role(at, m.Role.Value())
	if !ok {
		return
	}
	t := llm.Turn{Role: role, Ext: kept.Ext(m.Extra)}
	blocks := d.content(at+".content", m.Content.Value())
	d.Message(at, "toolResult", t, blocks)
}

// content decodes a list of blocks. A cache point marks the block before it.
func (d *requestDecoder) content(at string, list wire.List[wire.Raw]) []llm.Block {
	blocks := make([]llm.Block, 0, list.Len())
	for i, raw := range list.All() {
		b, err := decodeBlock(*raw)
		if err != nil {
			d.Fail(at+"."+strconv.Itoa(i), err.Error())
			return blocks
		}
		if mark := pointMark(b); mark != nil && len(blocks) > 0 && blocks[len(blocks)-1].Common().Cache == nil {
			blocks[len(blocks)-1].Common().Cache = mark
			continue
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// pointMark returns the mark of a block that is a cache point, or nil.
func pointMark(b llm.Block) *llm.CacheMark {
	o, ok := b.(*llm.Opaque)
	if !ok || o.Type != "cachePoint" {
		return nil
	}
	var w Block
	if wire.UnmarshalPart(wire.Raw(o.Raw), &w) != nil {
		return nil
	}
	return decodeCache(w.CachePoint.Value())
}

func decodeCache(p CachePoint) *llm.CacheMark {
	return &llm.CacheMark{TTL: p.TTL.Value(), Ext: kept.Ext(p.Extra)}
}

func (d *requestDecoder) tools() {
	c := d.wire.ToolConfig.Value()
	kept.KeepRest(&d.Req.Ext, "toolConfig", c.Extra)
	for i, raw := range c.Tools.Value().All() {
		var w Tool
		if err := wire.UnmarshalPart(*raw, &w); err != nil {
			d.Fail("toolConfig.tools."+strconv.Itoa(i), err.Error())
			return
		}
		if p, ok := w.CachePoint.Get(); ok {
			if n := len(d.Req.Tools); n > 0 && d.Req.Tools[n-1].Cache == nil {
				d.Req.Tools[n-1].Cache = decodeCache(p)
				continue
			}
		}
		d.Req.Tools = append(d.Req.Tools, decodeTool(w, *raw))
	}
	d.toolChoice(c)
}

func decodeTool(w Tool, raw wire.Raw) llm.Tool {
	s, ok := w.ToolSpec.Get()
	if !ok {
		t := llm.Tool{Kind: llm.HostedTool, Hosted: unionName(raw), Raw: llm.Raw(raw)}
		t.Ext.Protocol = own
		return t
	}
	t := llm.Tool{Kind: llm.FunctionTool, Name: s.Name.Value(), Description: s.Description.Value().String(), Schema: llm.Raw(s.InputSchema.Value().JSON), Ext: kept.Ext(s.Extra)}
	t.Ext.Protocol = own
	if strict, ok := s.Strict.Get(); ok {
		t.Strict = &strict
	}
	return t
}

func (d *requestDecoder) toolChoice(c ToolConfig) {
	w, ok := c.ToolChoice.Get()
	if !ok {
		return
	}
	choice := &d.Req.ToolChoice
	switch name, named := w.Tool.Get(); {
	case named:
		choice.Mode, choice.Names = "named", []llm.ToolRef{{Kind: llm.FunctionTool, Name: name.Name.Value()}}
	case w.Any != nil:
		choice.Mode = "required"
	case w.Auto != nil:
		choice.Mode = "auto"
	default:
		d.Fail("toolConfig.toolChoice", "want auto, any or tool")
	}
}

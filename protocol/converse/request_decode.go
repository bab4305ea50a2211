package converse

import (
	"errors"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/blockcodec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeRequest decodes a request. Its path names the model and says whether a stream is
// wanted.
func (Codec) DecodeRequest(in protocol.Incoming) (*llm.Request, *llm.Error) {
	var w Request
	if err := wire.Unmarshal(in.Body, &w); err != nil {
		return nil, invalidJSON(err)
	}
	d := requestDecoder{wire: &w, req: &llm.Request{Stream: in.Stream, IncludeUsage: true, Ext: kept.Ext(w.Extra)}}
	d.req.Ext.Protocol = own
	if model, stream, ok := parsePath(in.Path); ok {
		d.req.Model, d.req.Stream = model, stream || in.Stream
	}
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
		d.fail("messages", "the field is required: send the conversation")
	}
	for i, m := range w.Messages.Value().All() {
		d.message("messages."+strconv.Itoa(i), m)
	}
}

func (d *requestDecoder) inference() {
	c := d.wire.InferenceConfig.Value()
	d.req.Output.MaxTokens = d.integer("inferenceConfig.maxTokens", c.MaxTokens)
	d.req.Sampling.Temperature, d.req.Sampling.TopP = number(c.Temperature), number(c.TopP)
	for _, s := range c.StopSequences.Value() {
		d.req.Output.Stops = append(d.req.Output.Stops, s.String())
	}
	kept.KeepRest(&d.req.Ext, "inferenceConfig", c.Extra)
}

// thinkingModes maps types of thinking to neutral modes; thinkingTypes is the reverse.
var (
	thinkingModes = map[string]string{"enabled": "on", "adaptive": "auto", "disabled": "off", "between_tools": "between_tools"}
	thinkingTypes = map[string]string{"on": "enabled", "auto": "adaptive", "off": "disabled", "between_tools": "between_tools"}
)

// additional decodes the members in the model's own form that have a neutral one.
func (d *requestDecoder) additional() {
	a := d.wire.AdditionalFields.Value()
	d.req.Sampling.TopK = number(a.TopK)
	kept.KeepRest(&d.req.Ext, "additionalModelRequestFields", a.Extra)
	w, ok := a.Thinking.Get()
	if !ok {
		return
	}
	r := &d.req.Reasoning
	r.Ext = kept.Ext(w.Extra)
	r.Ext.Protocol = own
	if r.Mode, ok = thinkingModes[w.Type.Value()]; !ok {
		d.fail("additionalModelRequestFields.thinking.type", "want enabled, adaptive, disabled or between_tools")
	}
	r.Budget = d.integer("additionalModelRequestFields.thinking.budget_tokens", w.BudgetTokens)
	if r.Mode != "off" {
		r.Show = "auto"
	}
}

func (d *requestDecoder) output() {
	c := d.wire.OutputConfig.Value()
	d.req.Reasoning.Effort = c.Effort.Value()
	kept.KeepRest(&d.req.Ext, "outputConfig", c.Extra)
	f, ok := c.TextFormat.Get()
	if !ok {
		return
	}
	s := f.Structure.Value().JSONSchema.Value()
	d.req.Output.Format = llm.Format{Kind: f.Type.Value(), Name: s.Name.Value().String(), Description: s.Description.Value().String(), Strict: new(true), Ext: kept.Ext(s.Extra)}
	d.req.Output.Format.Ext.Protocol = own
	schema := wire.Raw(s.Schema.Value().String())
	if !schema.IsValid(wire.Lenient) {
		d.fail("outputConfig.textFormat.structure.jsonSchema.schema", "must be a text that contains JSON")
		return
	}
	d.req.Output.Format.Schema = llm.Raw(schema)
}

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
	list, ok := d.wire.System.Get()
	if !ok || list.Len() == 0 {
		return
	}
	d.req.Turns = append(d.req.Turns, llm.Turn{Role: llm.System, Blocks: d.content("system", list)})
}

var wireRoles = map[string]llm.Role{"user": llm.User, "assistant": llm.Assistant, "system": llm.System}

// message decodes one message. Tool results and the blocks around them become turns of
// their own, marked as one message.
func (d *requestDecoder) message(at string, m *Message) {
	role, ok := wireRoles[m.Role.Value()]
	if !ok {
		d.fail(at+".role", "want user, assistant or system, got "+strconv.Quote(m.Role.Value()))
		return
	}
	t := llm.Turn{Role: role, Ext: kept.Ext(m.Extra)}
	blocks := d.content(at+".content", m.Content.Value())
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
				d.fail(at+".content", "toolResult belongs into a user message")
			}
			part.Role = llm.ToolRole
		}
		d.req.Turns = append(d.req.Turns, part)
		blocks, first = blocks[n:], false
	}
}

// content decodes a list of blocks. A cache point marks the block before it.
func (d *requestDecoder) content(at string, list wire.List[wire.Raw]) []llm.Block {
	blocks := make([]llm.Block, 0, list.Len())
	for i, raw := range list.All() {
		b, err := decodeBlock(*raw)
		if err != nil {
			d.fail(at+"."+strconv.Itoa(i), err.Error())
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
	kept.KeepRest(&d.req.Ext, "toolConfig", c.Extra)
	for i, raw := range c.Tools.Value().All() {
		var w Tool
		if err := wire.UnmarshalPart(*raw, &w); err != nil {
			d.fail("toolConfig.tools."+strconv.Itoa(i), err.Error())
			return
		}
		if p, ok := w.CachePoint.Get(); ok {
			if n := len(d.req.Tools); n > 0 && d.req.Tools[n-1].Cache == nil {
				d.req.Tools[n-1].Cache = decodeCache(p)
				continue
			}
		}
		d.req.Tools = append(d.req.Tools, decodeTool(w, *raw))
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
	choice := &d.req.ToolChoice
	switch name, named := w.Tool.Get(); {
	case named:
		choice.Mode, choice.Names = "named", []llm.ToolRef{{Kind: llm.FunctionTool, Name: name.Name.Value()}}
	case w.Any != nil:
		choice.Mode = "required"
	case w.Auto != nil:
		choice.Mode = "auto"
	default:
		d.fail("toolConfig.toolChoice", "want auto, any or tool")
	}
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

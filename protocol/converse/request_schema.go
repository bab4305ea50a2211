package converse

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func (d *requestDecoder) output() {
	c := d.wire.OutputConfig.Value()
	d.Req.Reasoning.Effort = c.Effort.Value()
	kept.KeepRest(&d.Req.Ext, "outputConfig", c.Extra)
	f, ok := c.TextFormat.Get()
	if !ok {
		return
	}
	s := f.Structure.Value().JSONSchema.Value()
	d.Req.Output.Format = llm.Format{Kind: f.Type.Value(), Name: s.Name.Value().String(), Description: s.Description.Value().String(), Strict: new(true), Ext: kept.Ext(s.Extra)}
	d.Req.Output.Format.Ext.Protocol = own
	schema := wire.Raw(s.Schema.Value().String())
	if !schema.IsValid(wire.Lenient) {
		d.Fail("outputConfig.textFormat.structure.jsonSchema.schema", "must be a text that contains JSON")
		return
	}
	d.Req.Output.Format.Schema = llm.Raw(schema)
}

// format encodes the format of a structured response.
func (e *requestEncoder) format() {
	f := e.Req.Output.Format
	codec.DropExt(e.Report, "output.format", f.Ext, protocol.Converse)
	switch f.Kind {
	case "", "text":
		return
	case "json_object":
		e.Report.Approximate("output.format", "format.json_object", "the protocol has no JSON mode; the model is instructed to respond in JSON")
		e.Notes = append(e.Notes, "Answer with one JSON object and nothing else: no prose before or after it, no code fence.")
		return
	}
	if f.Schema == "" {
		e.Report.Refuse("output.format.schema", "format.schema", "structured output needs a schema")
		return
	}
	if f.Kind == "enum" {
		e.Report.Approximate("output.format", "format.enum", "the value comes as a JSON string")
	}
	if f.Strict != nil && !*f.Strict {
		e.Report.Approximate("output.format.strict", "format.strict", "a schema is always strict")
	}
	s := JSONSchema{Schema: wire.Some(wire.NewText(string(wire.Compact(wire.Raw(f.Schema))))), Name: wire.NonZero(wire.NewText(f.Name)),
		Description: wire.NonZero(wire.NewText(f.Description)), Extra: kept.Extra(f.Ext)}
	if f.Ext.Protocol == own {
		s.Schema = wire.Some(wire.NewText(string(f.Schema)))
	}
	e.outputConfig().TextFormat = wire.Some(TextFormat{Type: wire.Some("json_schema"), Structure: wire.Some(Structure{JSONSchema: wire.Some(s)})})
}

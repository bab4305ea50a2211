package anthropic

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func (d *requestDecoder) format() {
	w, ok := d.wire.OutputConfig.Value().Format.Get()
	if !ok {
		if w, ok = d.wire.OutputFormat.Get(); !ok {
			return
		}
	}
	d.req.Output.Format = llm.Format{Kind: w.Type.Value(), Schema: llm.Raw(w.Schema), Ext: extOf(w.Extra)}
	d.req.Output.Format.Ext.Protocol = own
}

// format writes the form of the answer.
func (e *requestEncoder) format() {
	f := e.req.Output.Format
	protocol.DropExt(e.report, "output.format", f.Ext, protocol.Anthropic)
	switch f.Kind {
	case "", "text":
		return
	case "json_object":
		e.report.Approximate("output.format", "format.json_object", "the protocol has no such mode; the model is told to answer in JSON")
		e.notes = append(e.notes, "Answer with one JSON object and nothing else: no prose before or after it, no code fence.")
		return
	}
	if f.Ext.Protocol == own {
		e.setFormat(Format{Type: optString(f.Kind), Schema: wire.Raw(f.Schema), Extra: extraOf(f.Ext)})
		return
	}
	if f.Schema == "" {
		e.report.Refuse("output.format.schema", "format.schema", "a structured answer needs a schema")
		return
	}
	if f.Kind == "enum" {
		e.report.Approximate("output.format", "format.enum", "the value comes as a JSON string")
	}
	e.dropIf(f.Name != "", "output.format.name", "format.name")
	e.dropIf(f.Description != "", "output.format.description", "format.description")
	if f.Strict != nil && !*f.Strict {
		e.report.Approximate("output.format.strict", "format.strict", "a schema is always strict")
	}
	schema := e.subset("output.format.schema", wire.Raw(f.Schema))
	e.setFormat(Format{Type: wire.Some("json_schema"), Schema: schema})
}

func (e *requestEncoder) setFormat(f Format) { e.outputConfig().Format = wire.Some(f) }

// outputConfig is the request's output_config, which is made at first use.
func (e *requestEncoder) outputConfig() *OutputConfig {
	if !e.out.OutputConfig.IsSet() {
		e.out.OutputConfig = wire.Some(OutputConfig{Extra: restOf(e.req.Ext, "output_config")})
	}
	return e.out.OutputConfig.Ptr()
}

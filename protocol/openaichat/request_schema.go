package openaichat

import (
	"cmp"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func decodeFormat(f ResponseFormat) llm.Format {
	s := f.JSONSchema.Value()
	return llm.Format{
		Kind: f.Type.Value(), Name: s.Name.Value(), Description: s.Description.Value().String(),
		Schema: llm.Raw(s.Schema), Strict: s.Strict.Clone(), Ext: extWith(f.Extra, "json_schema", s.Extra),
	}
}

func (e *requestEncoder) format(f llm.Format) {
	outer, inner := extrasOf(f.Ext, "json_schema")
	codec.DropExt(e.report, "output.format", f.Ext, protocol.OpenAIChat)
	if f.Kind == "enum" {
		e.report.Approximate("output.format", "format.enum", "the choices are sent as a schema; the response is one of them as JSON")
	}
	switch f.Kind {
	case "":
	case "json_schema", "enum":
		if e.in.Ext.Protocol != own {
			f.Strict = openai.Strict(f.Strict, f.Schema, "output.format.strict", e.report)
		}
		s := JSONSchema{Name: wire.Some(cmp.Or(f.Name, "answer")), Description: wire.NonZero(wire.NewText(f.Description)),
			Schema: wire.Raw(f.Schema), Strict: wire.FromPtr(f.Strict), Extra: inner}
		e.out.ResponseFormat = wire.Some(ResponseFormat{Type: wire.Some("json_schema"), JSONSchema: wire.Some(s), Extra: outer})
	default:
		e.out.ResponseFormat = wire.Some(ResponseFormat{Type: wire.Some(f.Kind), Extra: outer})
	}
}

func decodeFunction(f Function, outer wire.Extra) llm.Tool {
	return llm.Tool{Kind: llm.FunctionTool, Name: f.Name.Value(), Description: f.Description.Value().String(),
		Schema: llm.Raw(f.Parameters), Strict: f.Strict.Clone(), Ext: extWith(outer, "function", f.Extra)}
}

func (e *requestEncoder) function(t llm.Tool, extra wire.Extra, path string) Function {
	if e.in.Ext.Protocol != own && !openai.DescribesObject(t.Schema) {
		e.report.Refuse(path+".schema", "schema.not_object", "the schema of a function's arguments must be that of an object")
		t.Schema = ""
	}
	if e.in.Ext.Protocol != own {
		t.Strict = openai.Strict(t.Strict, t.Schema, path+".strict", e.report)
	}
	return Function{Name: wire.Some(e.name(llm.ToolRef{Kind: t.Kind, Name: t.Name, Namespace: t.Namespace})),
		Description: wire.NonZero(wire.NewText(t.Description)), Parameters: wire.Raw(t.Schema), Strict: wire.FromPtr(t.Strict), Extra: extra}
}

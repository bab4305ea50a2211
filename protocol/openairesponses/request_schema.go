package openairesponses

import (
	"cmp"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func decodeOutput(w *Request, req *llm.Request) *llm.Error {
	out := &req.Output
	for _, limit := range []struct {
		name string
		from wire.Opt[wire.Number]
		to   **int64
	}{{"max_output_tokens", w.MaxOutputTokens, &out.MaxTokens}, {"top_logprobs", w.TopLogprobs, &out.TopLogprobs}} {
		if n, ok := limit.from.Get(); ok {
			i, err := n.Int64()
			if err != nil {
				return invalid(limit.name, err)
			}
			*limit.to = &i
		}
	}
	decodeInclude(req)
	t, ok := w.Text.Get()
	if !ok {
		return nil
	}
	out.Verbosity = t.Verbosity.Value()
	if f, ok := t.Format.Get(); ok {
		out.Format = llm.Format{Kind: f.Type.Value(), Name: f.Name.Value(), Description: f.Description.Value(),
			Schema: value(f.Schema), Strict: f.Strict.Clone(), Ext: extOf(f.Extra)}
		keepNull(&out.Format.Ext, "strict", f.Strict.IsNull())
	}
	if rest := extOf(t.Extra); len(rest.Members) > 0 {
		o := object{}
		o.ext(rest)
		req.Ext.Members = append(req.Ext.Members, llm.Member{Name: "text", Value: o.end()})
	}
	return nil
}

func (e *requestEncoder) format(o *object) {
	f := &e.req.Output.Format
	codec.DropExt(e.report, "output.format", f.Ext, protocol.OpenAIResponses)
	text := object{}
	if f.Kind == "enum" {
		e.report.Drop("output.format", "format.enum", "output cannot be restricted to a list of choices; use a schema")
	} else if f.Kind != "" {
		form := object{}
		form.str("type", f.Kind)
		if f.Kind == "json_schema" {
			form.str("name", llm.SafeName(cmp.Or(f.Name, "response"), maxID, llm.WordByte))
		}
		form.opt("description", f.Description)
		form.raw("schema", f.Schema)
		strict := f.Strict
		if !isOwn(e.req.Ext) {
			strict = openai.Strict(strict, f.Schema, "output.format.strict", e.report)
		}
		form.boolean("strict", strict)
		form.ext(f.Ext)
		text.raw("format", form.end())
	}
	text.opt("verbosity", e.req.Output.Verbosity)
	if isOwn(e.req.Ext) {
		for _, m := range membersOf(e.req.Ext.Get("text")) {
			text.raw(m.Name, llm.Raw(m.Value))
		}
	}
	if len(text.names) > 0 {
		o.raw("text", text.end())
	}
}

// flatGrammar converts a custom tool's format to this protocol's flat form. Chat
// Completions nests the grammar.
func flatGrammar(format llm.Raw) llm.Raw {
	var nested struct {
		Type    string      `json:"type"`
		Grammar wire.Object `json:"grammar"`
	}
	if format == "" || json.Unmarshal([]byte(format), &nested, wire.Lenient) != nil || nested.Grammar == nil {
		return format
	}
	o := object{}
	o.str("type", nested.Type)
	for _, m := range nested.Grammar {
		o.raw(m.Name, llm.Raw(m.Value))
	}
	return o.end()
}

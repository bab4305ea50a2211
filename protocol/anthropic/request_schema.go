package anthropic

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// These tables list what a strict schema may hold. Every other keyword moves to
// the description, as in Anthropic's SDKs.
var (
	plainKeywords  = []string{"$ref", "type", "title", "enum", "const", "required", "pattern"}
	schemaMaps     = []string{"properties", "$defs", "definitions"}
	schemaLists    = []string{"anyOf", "allOf", "oneOf"}
	silentKeywords = []string{"$schema", "$id", "$comment", "description", "additionalProperties"}
	knownFormats   = []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)

// subset converts a schema to the subset that strict output accepts, and reports
// each keyword that moved to the description. closed means that an object no longer
// accepts members without a schema.
func (e *requestEncoder) subset(at string, schema wire.Raw) (subset wire.Raw, closed bool) {
	if recursive(schema) {
		e.Report.Refuse(at, "schema.recursive", "the schema refers to itself, which the vendor refuses")
		return schema, false
	}
	s := subsetter{}
	out := s.schema(schema)
	slices.Sort(s.moved)
	for _, keyword := range slices.Compact(s.moved) {
		e.Report.Approximate(at, "schema.keyword_moved", keyword+" is in the description only")
	}
	return out, s.closed
}

type subsetter struct {
	moved  []string
	closed bool
}

// schema rewrites one schema. A value that is not an object, such as true, stays.
func (s *subsetter) schema(raw wire.Raw) wire.Raw {
	var in wire.Object
	if raw.Kind() != '{' || in.UnmarshalJSON(raw) != nil {
		return raw
	}
	out := make(wire.Object, 0, len(in)+1)
	var notes []string
	for _, m := range in {
		switch value, ok := s.keyword(m); {
		case ok && m.Name == "oneOf":
			s.moved = append(s.moved, "oneOf")
			out = out.With("anyOf", value)
		case ok:
			out = out.With(m.Name, value)
		case !slices.Contains(silentKeywords, m.Name):
			s.moved = append(s.moved, m.Name)
			notes = append(notes, m.Name+": "+string(wire.Compact(m.Value)))
		}
	}
	if isObjectSchema(in) {
		switch v, ok := in.Get("additionalProperties"); {
		case !ok:
			s.closed = true
		case string(v) != "false":
			s.moved = append(s.moved, "additionalProperties")
		}
		out = out.With("additionalProperties", wire.Raw("false"))
	}
	if text := describe(in, notes); text != "" {
		out = out.With("description", blockcodec.Quoted(text))
	}
	result, err := out.MarshalJSON()
	if err != nil { // cannot fail: every value was decoded from JSON
		return raw
	}
	return result
}

// keyword rewrites the value of a keyword that is allowed.
func (s *subsetter) keyword(m wire.Member) (wire.Raw, bool) {
	switch {
	case slices.Contains(plainKeywords, m.Name):
		return m.Value, true
	case slices.Contains(schemaMaps, m.Name):
		var o wire.Object
		if m.Value.Kind() != '{' || o.UnmarshalJSON(m.Value) != nil {
			return m.Value, true
		}
		for i := range o {
			o[i].Value = s.schema(o[i].Value)
		}
		raw, err := o.MarshalJSON()
		return raw, err == nil
	case slices.Contains(schemaLists, m.Name):
		var list []jsontext.Value
		if json.Unmarshal(m.Value, &list, wire.Lenient) != nil {
			return nil, false
		}
		for i := range list {
			list[i] = s.schema(list[i])
		}
		return array(list), true
	case m.Name == "items":
		return s.schema(m.Value), m.Value.Kind() != '['
	case m.Name == "minItems":
		return m.Value, string(m.Value) == "0" || string(m.Value) == "1"
	case m.Name == "format":
		return m.Value, slices.Contains(knownFormats, strings.Trim(string(m.Value), `"`))
	}
	return nil, false
}

func isObjectSchema(o wire.Object) bool {
	typ, _ := o.Get("type")
	_, has := o.Get("properties")
	return has || string(typ) == `"object"`
}

// describe joins a schema's description and the keywords that moved there.
func describe(o wire.Object, notes []string) string {
	var text string
	if raw, ok := o.Get("description"); ok {
		_ = json.Unmarshal(raw, &text, wire.Lenient) // a description that is not text is ignored
	}
	if len(notes) == 0 {
		return text
	}
	return strings.TrimSpace(text + "\n\n{" + strings.Join(notes, ", ") + "}")
}

// recursive reports whether a schema refers to itself.
func recursive(schema wire.Raw) bool {
	var root struct {
		Defs        map[string]jsontext.Value `json:"$defs"`
		Definitions map[string]jsontext.Value `json:"definitions"`
	}
	if json.Unmarshal(schema, &root, wire.Lenient) != nil {
		return false
	}
	refs := map[string][]string{}
	for name, def := range root.Defs {
		refs["#/$defs/"+name] = refsIn(def)
	}
	for name, def := range root.Definitions {
		refs["#/definitions/"+name] = refsIn(def)
	}
	const visiting, done = 1, 2
	state := map[string]int{"#": visiting}
	var cyclic func(at string) bool
	cyclic = func(at string) bool {
		if state[at] != 0 {
			return state[at] == visiting
		}
		state[at] = visiting
		found := slices.ContainsFunc(refs[at], cyclic)
		state[at] = done
		return found
	}
	return slices.ContainsFunc(refsIn(schema), cyclic)
}

// refsIn lists the references in a schema.
func refsIn(schema wire.Raw) []string {
	var refs []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for name, e := range v {
				if s, ok := e.(string); ok && name == "$ref" {
					refs = append(refs, s)
				}
				walk(e)
			}
		}
	}
	var v any
	if json.Unmarshal(schema, &v, wire.Lenient) == nil {
		walk(v)
	}
	slices.Sort(refs)
	return slices.Compact(refs)
}

func (d *requestDecoder) format() {
	w, ok := d.wire.OutputConfig.Value().Format.Get()
	if !ok {
		if w, ok = d.wire.OutputFormat.Get(); !ok {
			return
		}
	}
	d.Req.Output.Format = llm.Format{Kind: w.Type.Value(), Schema: llm.Raw(w.Schema), Strict: new(true), Ext: kept.Ext(w.Extra)}
	d.Req.Output.Format.Ext.Protocol = own
}

// format encodes the response format.
func (e *requestEncoder) format() {
	f := e.Req.Output.Format
	codec.DropExt(e.Report, "output.format", f.Ext, protocol.Anthropic)
	switch f.Kind {
	case "", "text":
		return
	case "json_object":
		e.Report.Approximate("output.format", "format.json_object", "the protocol has no JSON mode; the model is instructed to respond in JSON")
		e.Notes = append(e.Notes, "Answer with one JSON object and nothing else: no prose before or after it, no code fence.")
		return
	}
	if f.Ext.Protocol == own {
		e.setFormat(Format{Type: wire.NonZero(f.Kind), Schema: wire.Raw(f.Schema), Extra: kept.Extra(f.Ext)})
		return
	}
	if f.Schema == "" {
		e.Report.Refuse("output.format.schema", "format.schema", "structured output needs a schema")
		return
	}
	if f.Kind == "enum" {
		e.Report.Approximate("output.format", "format.enum", "the value comes as a JSON string")
	}
	e.DropIf(f.Name != "", "output.format.name", "format.name")
	e.DropIf(f.Description != "", "output.format.description", "format.description")
	schema, closed := e.subset("output.format.schema", wire.Raw(f.Schema))
	if f.Strict != nil && !*f.Strict || f.Strict == nil && closed {
		e.Report.Approximate("output.format.strict", "format.strict", "a schema is always strict; objects have no other members than its properties")
	}
	e.setFormat(Format{Type: wire.Some("json_schema"), Schema: schema})
}

func (e *requestEncoder) setFormat(f Format) { e.outputConfig().Format = wire.Some(f) }

// outputConfig returns the request's output_config. It creates it at the first
// use.
func (e *requestEncoder) outputConfig() *OutputConfig {
	if !e.out.OutputConfig.IsSet() {
		e.out.OutputConfig = wire.Some(OutputConfig{Extra: kept.Rest(e.Req.Ext, "output_config")})
	}
	return e.out.OutputConfig.Ptr()
}

package openai

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Keywords of a schema: those with schemas in them, and those that strict mode rejects.
var (
	schemaMaps    = []string{"properties", "$defs", "definitions"}
	schemaLists   = []string{"anyOf", "prefixItems"}
	looseKeywords = []string{"allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties", "propertyNames"}
)

// Strict returns the setting strict of a schema from another protocol, where it is more lenient:
// OpenAI requires every property of every object and rejects requests whose strict schema does not.
// Such a schema is sent as not strict. path is the field of the neutral model.
func Strict(strict *bool, schema llm.Raw, path string, report *llm.Report) *bool {
	if strict == nil || !*strict || strictSchema(jsontext.Value(schema)) {
		return strict
	}
	report.Approximate(path, "strict.optional_properties", "the schema is not enforced: strict mode requires every property of every object and rejects some keywords")
	return new(false)
}

// strictSchema reports whether strict mode accepts a schema.
func strictSchema(raw jsontext.Value) bool {
	var s wire.Object
	if raw.Kind() != '{' || s.UnmarshalJSON(raw) != nil {
		return false
	}
	for _, m := range s {
		ok := true
		switch {
		case slices.Contains(looseKeywords, m.Name):
			return false
		case slices.Contains(schemaMaps, m.Name):
			var all wire.Object
			ok = all.UnmarshalJSON(m.Value) == nil && !slices.ContainsFunc(all, func(m wire.Member) bool { return !strictSchema(m.Value) })
		case slices.Contains(schemaLists, m.Name):
			var all []jsontext.Value
			ok = json.Unmarshal(m.Value, &all, wire.Lenient) == nil && !slices.ContainsFunc(all, func(v jsontext.Value) bool { return !strictSchema(v) })
		case m.Name == "items":
			ok = strictSchema(m.Value)
		}
		if !ok {
			return false
		}
	}
	return !isObject(s) || closed(s)
}

func isObject(s wire.Object) bool {
	_, has := s.Get("properties")
	kind, _ := s.Get("type")
	return has || string(kind) == `"object"`
}

// closed reports whether an object schema requires all its properties and forbids others.
func closed(s wire.Object) bool {
	if more, _ := s.Get("additionalProperties"); string(more) != "false" {
		return false
	}
	var properties wire.Object
	var required []string
	if v, has := s.Get("properties"); has && properties.UnmarshalJSON(v) != nil {
		return false
	}
	if v, has := s.Get("required"); has && json.Unmarshal(v, &required, wire.Lenient) != nil {
		return false
	}
	names := map[string]bool{} // a schema may have many properties
	for _, name := range required {
		names[name] = true
	}
	return !slices.ContainsFunc(properties, func(m wire.Member) bool { return !names[m.Name] })
}

package openapi

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/rule"
)

// schema is a JSON schema. It describes a type in the OpenAPI document and validates what clients
// send. It supports the keywords that the API uses.
type schema struct {
	Ref         string `json:"$ref,omitempty"`
	Type        string `json:"type,omitempty"`
	Format      string `json:"format,omitempty"`
	Description string `json:"description,omitempty"`
	rule.Rule
	Items                *schema            `json:"items,omitzero"`
	Properties           map[string]*schema `json:"properties,omitempty"`
	Required             []string           `json:"required,omitempty"`
	AdditionalProperties *bool              `json:"additionalProperties,omitzero"`

	target *schema // of Ref
}

// schemas holds the schema of every struct, by name.
type schemas map[string]*schema

// of returns the schema of a type. A struct is added to the collection and referred to by name.
func (c schemas) of(t reflect.Type) *schema {
	if t == reflect.TypeFor[json.RawMessage]() {
		return &schema{} // any value
	}
	switch t.Kind() {
	case reflect.Pointer:
		return c.of(t.Elem())
	case reflect.String:
		return &schema{Type: "string"}
	case reflect.Bool:
		return &schema{Type: "boolean"}
	case reflect.Int, reflect.Int64:
		return &schema{Type: "integer", Format: "int64"}
	case reflect.Uint64:
		return &schema{Type: "integer", Format: "int64", Rule: rule.Rule{Minimum: new(int64)}}
	case reflect.Float64:
		return &schema{Type: "number", Format: "double"}
	case reflect.Slice:
		return &schema{Type: "array", Items: c.of(t.Elem())}
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return &schema{Type: "string", Format: "date-time"}
		}
		return c.object(t)
	}
	panic("openapi: there is no schema for " + t.String())
}

func (c schemas) object(t reflect.Type) *schema {
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	s, ok := c[name]
	if !ok {
		s = &schema{Type: "object", Properties: map[string]*schema{}, AdditionalProperties: new(false)}
		c[name] = s
		for _, f := range reflect.VisibleFields(t) {
			member, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if member == "" || member == "-" {
				continue
			}
			s.Properties[member] = c.field(f)
			if options == "" { // neither omitempty nor omitzero
				s.Required = append(s.Required, member)
			}
		}
	}
	return &schema{Ref: "#/components/schemas/" + name, target: s}
}

// field returns the schema of a struct field with the keywords of its tags.
func (c schemas) field(f reflect.StructField) *schema {
	s := c.of(f.Type)
	s.Description = f.Tag.Get("doc")
	s.Read(f, rule.Integer)
	if text, ok := f.Tag.Lookup("default"); ok {
		n, err := rule.Integer(text)
		if err != nil {
			panic("openapi: the tag default of " + f.Name + ": " + err.Error())
		}
		s.Default = &n
	}
	if s.Items != nil {
		s.Items.Rule = s.TakeText()
	}
	return s
}

// validate returns what is wrong with a JSON value. Messages do not quote the value: it may be a secret.
func (s *schema) validate(v any, at string) []Mistake {
	s = cmp.Or(s.target, s)
	wrong := func(format string) []Mistake { return []Mistake{{Location: at, Message: format}} }
	if kind := kindOf(v); kind != s.Type && (kind != "integer" || s.Type != "number") {
		return wrong("expected " + s.Type)
	}
	switch v := v.(type) {
	case map[string]any:
		return s.validateObject(v, at)
	case []any:
		if want := s.Rule.Items(len(v)); want != "" {
			return wrong("expected " + want)
		}
		var all []Mistake
		for i, item := range v {
			all = append(all, s.Items.validate(item, at+"["+strconv.Itoa(i)+"]")...)
		}
		return all
	case float64:
		if want := s.Number(v); want != "" {
			return wrong("expected " + want)
		}
	case string:
		if want := s.Text(v); want != "" {
			return wrong("expected " + want)
		}
	}
	return nil
}

func (s *schema) validateObject(v map[string]any, at string) (all []Mistake) {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if p := s.Properties[name]; p != nil {
			all = append(all, p.validate(v[name], at+"."+name)...)
		} else {
			all = append(all, Mistake{Location: at + "." + name, Message: "unexpected member"})
		}
	}
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			all = append(all, Mistake{Location: at + "." + name, Message: "expected a value"})
		}
	}
	return all
}

// kindOf returns the schema type of a decoded JSON value.
func kindOf(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	}
	return "null"
}

package openapi

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// schema is a JSON schema. It describes a type in the OpenAPI document and validates what clients
// send. It supports the keywords that the API uses.
type schema struct {
	Ref                  string             `json:"$ref,omitempty"`
	Type                 string             `json:"type,omitempty"`
	Format               string             `json:"format,omitempty"`
	Description          string             `json:"description,omitempty"`
	Pattern              string             `json:"pattern,omitempty"`
	Enum                 []string           `json:"enum,omitempty"`
	Default              *int64             `json:"default,omitzero"`
	Minimum              *int64             `json:"minimum,omitzero"`
	Maximum              *int64             `json:"maximum,omitzero"`
	MinLength            *int64             `json:"minLength,omitzero"`
	MaxLength            *int64             `json:"maxLength,omitzero"`
	MaxItems             *int64             `json:"maxItems,omitzero"`
	Items                *schema            `json:"items,omitzero"`
	Properties           map[string]*schema `json:"properties,omitempty"`
	Required             []string           `json:"required,omitempty"`
	AdditionalProperties *bool              `json:"additionalProperties,omitzero"`

	target  *schema // of Ref
	pattern *regexp.Regexp
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
		return &schema{Type: "integer", Format: "int64", Minimum: new(int64)}
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
	if enum, ok := f.Tag.Lookup("enum"); ok {
		cmp.Or(s.Items, s).Enum = strings.Split(enum, ",")
	}
	if pattern, ok := f.Tag.Lookup("pattern"); ok {
		of := cmp.Or(s.Items, s)
		of.Pattern, of.pattern = pattern, regexp.MustCompile(pattern)
	}
	for keyword, to := range map[string]**int64{
		"default": &s.Default, "minimum": &s.Minimum, "maximum": &s.Maximum, "minLength": &s.MinLength, "maxLength": &s.MaxLength, "maxItems": &s.MaxItems,
	} {
		if text, ok := f.Tag.Lookup(keyword); ok {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				panic("openapi: the tag " + keyword + " of " + f.Name + ": " + err.Error())
			}
			*to = &n
		}
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
		if s.MaxItems != nil && int64(len(v)) > *s.MaxItems {
			return wrong("expected at most " + strconv.FormatInt(*s.MaxItems, 10) + " items")
		}
		var all []Mistake
		for i, item := range v {
			all = append(all, s.Items.validate(item, at+"["+strconv.Itoa(i)+"]")...)
		}
		return all
	case float64:
		switch {
		case s.Minimum != nil && v < float64(*s.Minimum):
			return wrong("expected at least " + strconv.FormatInt(*s.Minimum, 10))
		case s.Maximum != nil && v > float64(*s.Maximum):
			return wrong("expected at most " + strconv.FormatInt(*s.Maximum, 10))
		}
	case string:
		length := int64(utf8.RuneCountInString(v))
		switch {
		case s.MinLength != nil && length < *s.MinLength:
			return wrong("expected at least " + strconv.FormatInt(*s.MinLength, 10) + " characters")
		case s.MaxLength != nil && length > *s.MaxLength:
			return wrong("expected at most " + strconv.FormatInt(*s.MaxLength, 10) + " characters")
		case s.pattern != nil && !s.pattern.MatchString(v):
			return wrong("expected text that matches " + s.Pattern)
		case s.Enum != nil && !slices.Contains(s.Enum, v):
			return wrong("expected one of " + strings.Join(s.Enum, ", "))
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

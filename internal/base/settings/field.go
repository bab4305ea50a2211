package settings

import (
	"reflect"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/rule"
)

// Field is one setting: a field of a section.
type Field struct {
	Key, Example string
	Type         reflect.Type

	index    int
	rule     rule.Rule
	parse    func(string) (int64, error) // of a number
	preset   string
	form     string // what pattern matches, in words
	secret   string
	restart  string
	bytes    bool
	file     bool
	required bool
}

// Words returns the valid values of the field, nil if there is no list of them.
func (s *Field) Words() []string { return s.rule.Enum }

// IsBytes reports whether the value is a size.
func (s *Field) IsBytes() bool { return s.bytes }

// Secret returns which part of the value is secret.
func (s *Field) Secret() string { return s.secret }

// Restart reports whether a change takes effect at the next start. above is that of the settings around it.
func (s *Field) Restart(above bool) bool {
	if s.restart == "" {
		return above
	}
	return s.restart == "yes"
}

// section is a struct of settings.
type section struct {
	fields      []*Field
	byKey       map[string]*Field
	hasDefaults bool // of its own or of a section in it
}

// keys lists the keys in the order of the fields.
func (s *section) keys() []string {
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.Key
	}
	return names
}

// Fields returns the settings of a struct, in order.
func (f *File) Fields(t reflect.Type) []*Field { return f.sectionOf(t).fields }

func (f *File) sectionOf(t reflect.Type) *section {
	if s := f.types[t]; s != nil {
		return s
	}
	s := &section{byKey: map[string]*Field{}}
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("key") != "" {
			one := f.newField(i, t.Field(i))
			s.fields = append(s.fields, one)
			s.byKey[one.Key] = one
			s.hasDefaults = s.hasDefaults || one.preset != "" || one.Type.Kind() == reflect.Struct && f.sectionOf(one.Type).hasDefaults
		}
	}
	if f.types == nil {
		f.types = map[reflect.Type]*section{}
	}
	f.types[t] = s
	return s
}

func (f *File) newField(i int, of reflect.StructField) *Field {
	tag := of.Tag.Get
	s := &Field{Key: tag("key"), Example: tag("example"), Type: of.Type, index: i, preset: tag("default"), form: tag("form"), secret: tag("secret"), restart: tag("restart"),
		bytes: tag("is") == "bytes", file: tag("is") == "file", required: tag("required") == "yes", parse: rule.Integer}
	switch {
	case of.Type == reflect.TypeFor[time.Duration]():
		s.parse = parseDuration
	case s.bytes:
		s.parse = parseSize
	}
	s.rule.Read(of, s.parse)
	item := of.Type
	if item.Kind() == reflect.Slice {
		item = item.Elem()
	}
	if words, ok := reflect.Zero(item).Interface().(interface{ Words() []string }); ok {
		s.rule.Enum = words.Words()
	} else if name := tag("words"); name != "" {
		s.rule.Enum = f.Words[name]
	}
	return s
}

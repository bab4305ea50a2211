package all_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// leaves lists the struct types that count as one value in the table.
var leaves = []reflect.Type{reflect.TypeFor[llm.Ext](), reflect.TypeFor[llm.Member]()}

// shared maps a type that occurs in several places to the prefix of its fields in the
// table.
var shared = map[reflect.Type]string{
	reflect.TypeFor[llm.Meta]():      "block",
	reflect.TypeFor[llm.CacheMark](): "cache_mark",
	reflect.TypeFor[llm.Seal]():      "seal",
	reflect.TypeFor[llm.Citation]():  "citation",
	reflect.TypeFor[llm.ToolRef]():   "tool_ref",
}

// blocks lists the types of blocks and whether a response can contain them.
var blocks = []struct {
	kind       llm.Block
	inResponse bool
}{
	{&llm.Text{}, true}, {&llm.Refusal{}, true}, {&llm.Media{}, true}, {&llm.Thought{}, true}, {&llm.ToolCall{}, true},
	{&llm.ToolResult{}, false}, {&llm.ServerCall{}, true}, {&llm.Opaque{}, true},
}

// model lists the fields of one side of the neutral model.
type model struct {
	side    string
	leaves  []string // fields that need a row
	inner   []string // structs between them, which may have a row
	visited map[reflect.Type]bool
}

// walkModel lists the fields of requests or responses.
func walkModel(side string) *model {
	m := &model{side: side, visited: map[reflect.Type]bool{}}
	root := reflect.TypeFor[llm.Request]()
	if side == responseSide {
		root = reflect.TypeFor[llm.Response]()
	}
	m.fields(root, "")
	return m
}

func (m *model) fields(t reflect.Type, prefix string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous { // Meta, which has fields of its own
			m.value(f.Type, "")
			continue
		}
		m.value(f.Type, strings.TrimPrefix(prefix+"."+snake(f.Name), "."))
	}
}

func (m *model) value(t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch name, isShared := shared[t]; {
	case t == reflect.TypeFor[llm.Block]():
		m.inner = append(m.inner, path)
		for _, b := range blocks {
			if m.side == requestSide || b.inResponse {
				m.once(reflect.TypeOf(b.kind).Elem(), snake(reflect.TypeOf(b.kind).Elem().Name()))
			}
		}
	case isShared:
		if path != "" {
			m.leaves = append(m.leaves, path)
		}
		m.once(t, name)
	case t.Kind() == reflect.Struct && !slices.Contains(leaves, t):
		m.inner = append(m.inner, path)
		m.fields(t, path)
	default:
		m.leaves = append(m.leaves, path)
	}
}

func (m *model) once(t reflect.Type, prefix string) {
	if !m.visited[t] {
		m.visited[t] = true
		m.inner = append(m.inner, prefix)
		m.fields(t, prefix)
	}
}

// snake converts a Go name to snake case: TopP to top_p, FileID to file_id.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		startsWord := i > 0 && unicode.IsUpper(r) &&
			(unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if startsWord {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func TestLossTablesCoverTheModel(t *testing.T) {
	for _, codec := range all.Codecs() {
		for _, side := range []string{requestSide, responseSide} {
			var rowFields []string
			for _, r := range lossTable(t, codec.Name()) {
				if r.side == side {
					rowFields = append(rowFields, r.fields()...)
				}
			}
			m := walkModel(side)
			for _, field := range m.leaves {
				if !slices.Contains(rowFields, field) {
					t.Errorf("loss-%s.md has no row for %s in %q", codec.Name(), field, side)
				}
			}
			for _, field := range rowFields {
				if !slices.Contains(m.leaves, field) && !slices.Contains(m.inner, field) {
					t.Errorf("loss-%s.md has a row for %s in %q, which is not in the neutral model", codec.Name(), field, side)
				}
			}
		}
	}
}

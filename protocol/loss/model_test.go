package loss

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// leaves are types that are one value to the table, although they are structs.
var leaves = []reflect.Type{reflect.TypeFor[llm.Ext](), reflect.TypeFor[llm.Member]()}

// shared are types that occur in several places: their fields have the type's own
// name in front, and not that of the place.
var shared = map[reflect.Type]string{
	reflect.TypeFor[llm.Meta]():      "block",
	reflect.TypeFor[llm.CacheMark](): "cache_mark",
	reflect.TypeFor[llm.Seal]():      "seal",
	reflect.TypeFor[llm.Citation]():  "citation",
	reflect.TypeFor[llm.ToolRef]():   "tool_ref",
}

// blocks are the kinds of block, and whether an answer may hold them.
var blocks = []struct {
	kind   llm.Block
	answer bool
}{
	{&llm.Text{}, true}, {&llm.Refusal{}, true}, {&llm.Media{}, true}, {&llm.Thought{}, true}, {&llm.ToolCall{}, true},
	{&llm.ToolResult{}, false}, {&llm.ServerCall{}, true}, {&llm.Opaque{}, true},
}

// model is the fields of one side of the neutral model.
type model struct {
	side    Side
	leaves  []string // each needs a row
	inner   []string // structs on the way; rows may be about them too
	visited map[reflect.Type]bool
}

func walk(side Side) *model {
	m := &model{side: side, visited: map[reflect.Type]bool{}}
	root := reflect.TypeFor[llm.Request]()
	if side == Response {
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
			if m.side == Request || b.answer {
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

// snake writes a Go name as reports do: TopP is top_p and FileID is file_id.
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

func TestEveryFieldHasARowForEveryTarget(t *testing.T) {
	type place struct {
		side   Side
		field  string
		target protocol.Name
	}
	covered := map[place]bool{}
	for _, r := range Table() {
		for _, f := range r.Fields {
			covered[place{r.Side, f, r.Target}] = true
		}
	}
	for _, side := range []Side{Request, Response} {
		for _, field := range walk(side).leaves {
			for _, target := range protocol.Names() {
				if !covered[place{side, field, target}] {
					t.Errorf("the table does not say what becomes of the %s's %s in %s; add a row", side, field, target)
				}
			}
		}
	}
}

func TestRowsAreAboutFieldsThatExist(t *testing.T) {
	known := map[Side][]string{}
	for _, side := range []Side{Request, Response} {
		m := walk(side)
		known[side] = append(m.leaves, m.inner...)
	}
	for _, r := range Table() {
		for _, f := range r.Fields {
			if !slices.Contains(known[r.Side], f) {
				t.Errorf("the table is about the %s's %s, which the neutral model does not have", r.Side, f)
			}
		}
	}
}

func TestRowsAreWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Table() {
		id := rowName(r) + " in " + string(r.Target)
		if seen[id] {
			t.Errorf("%s: two rows", id)
		}
		seen[id] = true
		lossless := r.Verdict == llm.Exact || r.Verdict == llm.Renamed
		switch {
		case r.Verdict == "":
			t.Errorf("%s: no verdict", id)
		case lossless && len(r.Codes) > 0:
			t.Errorf("%s: nothing is lost, but there is a code", id)
		case !lossless && len(r.Codes) == 0:
			t.Errorf("%s: a loss that nobody is told of", id)
		case lossless && r.Wire == "" && r.Note == "":
			t.Errorf("%s: where does it arrive?", id)
		case !lossless && r.Note == "":
			t.Errorf("%s: what is lost?", id)
		}
	}
}

// rowName is what a row is about.
func rowName(r Row) string {
	name := string(r.Side) + " " + strings.Join(r.Fields, " ")
	if r.When != "" {
		name += " / " + r.When
	}
	return name
}

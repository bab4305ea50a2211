package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// TestReference checks that docs/configuration.md and docs/isogloss.schema.json match
// file.go; -update rewrites them.
func TestReference(t *testing.T) {
	comments := fileComments(t)
	sections := sectionsOf(comments)
	for name, got := range map[string][]byte{
		"configuration.md":     markdown(t, sections),
		"isogloss.schema.json": schema(t, comments),
	} {
		path := filepath.Join("..", "..", "docs", name)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what file.go says; run go test ./internal/config -update", name)
		}
	}
}

// fileComments returns the comments of the structs: "file" for a struct, "file.Listen"
// for a field.
func fileComments(t *testing.T) map[string]string {
	out := map[string]string{}
	names, _ := filepath.Glob("file*.go")
	for _, name := range names {
		addComments(t, name, out)
	}
	return out
}

func addComments(t *testing.T, name string, out map[string]string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range parsed.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Doc == nil {
			continue
		}
		for _, spec := range general.Specs {
			typ, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			body, ok := typ.Type.(*ast.StructType)
			if !ok {
				continue
			}
			out[typ.Name.Name] = joined(general.Doc.Text())
			for _, f := range body.Fields.List {
				if len(f.Names) == 0 || !f.Names[0].IsExported() {
					continue
				}
				if f.Doc == nil {
					t.Fatalf("%s.%s has no comment", typ.Name.Name, f.Names[0].Name)
				}
				out[typ.Name.Name+"."+f.Names[0].Name] = joined(f.Doc.Text())
			}
		}
	}
}

func joined(s string) string { return strings.Join(strings.Fields(s), " ") }

// row is one key of the reference.
type row struct{ key, typ, preset, text, example string }

// section describes one struct of the reference, at one or more positions in the file.
type section struct {
	places []string
	text   string
	rows   []row
}

// sectionsOf walks the structs from the root, each once.
func sectionsOf(comments map[string]string) []*section {
	var out []*section
	seen := map[reflect.Type]*section{}
	var walk func(at field, v reflect.Value)
	walk = func(at field, v reflect.Value) {
		place := at.key
		if s := seen[v.Type()]; s != nil {
			s.places = append(s.places, place)
			fillDefaults(s, v)
			return
		}
		s := &section{places: []string{place}, text: sentence(comments[v.Type().Name()]) + atStart(at.restart, false)}
		seen[v.Type()] = s
		out = append(out, s)
		for i := range v.NumField() {
			f := v.Type().Field(i)
			key := f.Tag.Get("key")
			if key == "" {
				continue
			}
			s.rows = append(s.rows, row{
				key: key, typ: typeText(f.Type), preset: defaultText(v.Field(i)),
				text: comments[v.Type().Name()+"."+f.Name] + atStart(at.below(f).restart, at.restart), example: f.Tag.Get("example"),
			})
			if child, below := structBelow(v.Field(i)); child.IsValid() {
				inner := at.below(f)
				inner.key += below
				walk(inner, child)
			}
		}
	}
	walk(field{}, reflect.ValueOf(defaultFile()))
	return out
}

// atStart says when a change takes effect, if that is not when changes of the settings above it do.
func atStart(restart, above bool) string {
	switch {
	case restart == above:
		return ""
	case restart:
		return " A changed setting takes effect at the next start."
	default:
		return " A changed setting takes effect at once."
	}
}

// fillDefaults sets the defaults of a struct that occurs at several positions from the
// one position that has them.
func fillDefaults(s *section, v reflect.Value) {
	i := 0
	for f := range v.NumField() {
		if v.Type().Field(f).Tag.Get("key") == "" {
			continue
		}
		if text := defaultText(v.Field(f)); text != "" {
			s.rows[i].preset = text
		}
		i++
	}
}

// sentence removes the Go name with which a struct's comment begins.
func sentence(comment string) string {
	_, rest, _ := strings.Cut(comment, " is ")
	if verb, r, ok := strings.Cut(comment, " bounds "); ok && !strings.Contains(verb, " ") {
		return "Bounds " + r
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

// structBelow returns the struct of a field and the suffix that it adds to the path.
func structBelow(v reflect.Value) (reflect.Value, string) {
	t := v.Type()
	switch {
	case t == reflect.TypeFor[jsonObject]():
	case t.Kind() == reflect.Struct:
		return v, ""
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Pointer:
		return reflect.New(t.Elem().Elem()).Elem(), ".NAME"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return reflect.New(t.Elem()).Elem(), "[]"
	}
	return reflect.Value{}, ""
}

func typeText(t reflect.Type) string {
	if c, ok := reflect.Zero(t).Interface().(choice); ok {
		if t == reflect.TypeFor[presetName]() {
			return "name of a preset"
		}
		return "`" + strings.Join(c.options(), "`, `") + "`"
	}
	switch t {
	case reflect.TypeFor[duration]():
		return "duration"
	case reflect.TypeFor[size]():
		return "size"
	case reflect.TypeFor[jsonObject]():
		return "mapping"
	}
	switch t.Kind() {
	case reflect.Struct:
		return "mapping"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Pointer {
			return "mapping by name"
		}
		return "list"
	case reflect.Map:
		return "mapping of strings"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Float64:
		return "number"
	default:
		return "string"
	}
}

func defaultText(v reflect.Value) string {
	if v.IsZero() || v.Kind() == reflect.Struct {
		return ""
	}
	return fmt.Sprintf("`%v`", v.Interface())
}

func markdown(t *testing.T, sections []*section) []byte {
	var b bytes.Buffer
	b.WriteString("# Configuration\n\n<!-- Generated from internal/config/file.go by `go test ./internal/config -update`; do not edit. -->\n\n")
	b.WriteString("`isogloss check -c isogloss.yaml` reports every error with its line and what to write. Editors with JSON Schema\nsupport can use `isogloss.schema.json`.\n")
	for _, s := range sections {
		title := "The file"
		if s.places[0] != "" {
			title = "`" + strings.Join(s.places, "`, `") + "`"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| key | type | default | meaning | example |\n|---|---|---|---|---|\n", title, s.text)
		for _, r := range s.rows {
			example := r.example
			if example != "" {
				example = "`" + r.key + ": " + example + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.key, r.typ, r.preset, r.text, example)
		}
	}
	b.WriteString("\n## Presets\n\nWithout a configuration file, the gateway uses every preset whose key variable is set and whose base_url is known.\n\n")
	b.WriteString("| preset | | protocol | base_url | auth | key variable | upstream_stream |\n|---|---|---|---|---|---|---|\n")
	for _, p := range provider.Catalog() {
		base, env := "`"+p.BaseURL+"`", "`"+p.EnvKey+"`"
		switch {
		case p.Template != "":
			base = "`" + p.URL("{project}", "{region}") + "`"
		case p.BaseURL == "":
			base = "required"
		}
		if p.EnvKey == "" {
			env = ""
		}
		fmt.Fprintf(&b, "| `%s` | [%s](%s) | `%s` | %s | `%s` | %s | `%s` |\n", p.Name, p.Title, p.Docs, p.Protocol, base, p.Auth, env, p.UpstreamStream)
	}
	archive, err := txtar.ParseFile("testdata/every_key.txtar")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "\n## An example with every key\n\n```yaml\n%s```\n", archive.Files[0].Data)
	return b.Bytes()
}

// schema returns a JSON Schema 2020-12 for editors. Every value may also be a string with
// ${VAR}, so only strings have enumerations.
func schema(t *testing.T, comments map[string]string) []byte {
	defs := map[string]any{}
	root := structSchema(reflect.ValueOf(defaultFile()), comments, defs)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Isogloss configuration"
	root["$defs"] = defs
	data, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

func structSchema(v reflect.Value, comments map[string]string, defs map[string]any) map[string]any {
	properties := map[string]any{}
	name := v.Type().Name()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if key := f.Tag.Get("key"); key != "" {
			p := valueSchema(v.Field(i), comments, defs)
			p["description"] = comments[name+"."+f.Name]
			if text := strings.Trim(defaultText(v.Field(i)), "`"); text != "" {
				p["default"] = text
				if f.Type.Kind() == reflect.Float64 {
					p["default"] = v.Field(i).Interface()
				}
			}
			properties[key] = p
		}
	}
	return map[string]any{
		"type": "object", "additionalProperties": false,
		"description": sentence(comments[name]), "properties": properties,
	}
}

const variablePattern = `\$\{`

func valueSchema(v reflect.Value, comments map[string]string, defs map[string]any) map[string]any {
	t := v.Type()
	variable := map[string]any{"type": "string", "pattern": variablePattern}
	if c, ok := v.Interface().(choice); ok {
		return map[string]any{"anyOf": []any{map[string]any{"enum": c.options()}, variable}}
	}
	if child, below := structBelow(v); child.IsValid() {
		if _, ok := defs[child.Type().Name()]; !ok || !child.IsZero() { // the value with defaults takes precedence
			defs[child.Type().Name()] = structSchema(child, comments, defs)
		}
		ref := map[string]any{"$ref": "#/$defs/" + child.Type().Name()}
		switch below {
		case ".NAME":
			return map[string]any{"type": "object", "additionalProperties": ref}
		case "[]":
			return map[string]any{"type": "array", "items": map[string]any{"anyOf": []any{map[string]any{"type": "string"}, ref}}}
		}
		return ref
	}
	switch {
	case t == reflect.TypeFor[duration]():
		return map[string]any{"type": "string", "pattern": `^0$|^([0-9.]+(ns|us|µs|ms|s|m|h))+$|` + variablePattern}
	case t == reflect.TypeFor[jsonObject]():
		return map[string]any{"type": "object"}
	case t == reflect.TypeFor[size]():
		return map[string]any{"type": []string{"integer", "string"}, "pattern": `^[0-9.]+ ?([KMG]i?B|B)?$|` + variablePattern}
	case t.Kind() == reflect.Bool:
		return map[string]any{"anyOf": []any{map[string]any{"type": "boolean"}, variable}}
	case t.Kind() == reflect.Int || t.Kind() == reflect.Float64:
		return map[string]any{"anyOf": []any{map[string]any{"type": "number"}, variable}}
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	case t.Kind() == reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}}
	}
	return map[string]any{"type": "string"}
}

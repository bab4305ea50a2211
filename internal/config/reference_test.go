package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// TestReference checks that docs/configuration.md and docs/isogloss.schema.json match
// the structs of the sections; -update rewrites them.
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
			t.Errorf("%s is not what the structs of the sections say; run go test ./internal/config -update", name)
		}
	}
}

// words are the fields of structs with the words of a file.
var words = newFile("", noEnv)

// fileComments returns the comments of the structs in the packages of the sections: "config.Config" for a struct,
// "config.Config.Listen" for a field.
func fileComments(t *testing.T) map[string]string {
	out, packages := map[string]string{}, map[string]bool{}
	var walk func(of reflect.Type)
	walk = func(of reflect.Type) {
		if path := of.PkgPath(); !packages[path] {
			packages[path] = true
			names, _ := filepath.Glob(filepath.Join("..", "..", strings.TrimPrefix(path, "github.com/isogloss-gateway/isogloss/"), "*.go"))
			for _, name := range names {
				addComments(t, name, out)
			}
		}
		for _, f := range words.Fields(of) {
			if child, _ := structBelow(f.Type); child != nil {
				walk(child)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
	return out
}

// goName returns the name of the field with a key, with that of its struct and package.
func goName(of reflect.Type, key string) string {
	for f := range of.Fields() {
		if f.Tag.Get("key") == key {
			return of.String() + "." + f.Name
		}
	}
	return ""
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
			name := parsed.Name.Name + "." + typ.Name.Name
			out[name] = joined(general.Doc.Text())
			for _, f := range body.Fields.List {
				if f.Tag == nil || !strings.Contains(f.Tag.Value, `key:"`) {
					continue
				}
				if f.Doc == nil {
					t.Fatalf("%s.%s has no comment", name, f.Names[0].Name)
				}
				out[name+"."+f.Names[0].Name] = joined(f.Doc.Text())
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
	var walk func(key string, restart bool, v reflect.Value)
	walk = func(key string, restart bool, v reflect.Value) {
		s := seen[v.Type()]
		if s == nil {
			s = &section{places: []string{key}, text: sentence(comments[v.Type().String()]) + atStart(restart, false)}
			seen[v.Type()] = s
			out = append(out, s)
		} else {
			s.places = append(s.places, key)
		}
		for i, f := range words.Fields(v.Type()) {
			inner := valueOf(v, f.Key)
			preset, below := defaultText(f, inner), f.Restart(restart)
			if len(s.places) > 1 { // the one place that has defaults has them
				s.rows[i].preset = cmp.Or(preset, s.rows[i].preset)
				continue
			}
			s.rows = append(s.rows, row{key: f.Key, typ: typeText(f), preset: preset, text: comments[goName(v.Type(), f.Key)] + atStart(below, restart), example: f.Example})
			if child, suffix := structBelow(f.Type); child != nil {
				walk(join(key, f.Key)+suffix, below, childOf(inner, child))
			}
		}
	}
	walk("", false, reflect.ValueOf(*Default()))
	return out
}

// valueOf returns the field with a key.
func valueOf(v reflect.Value, key string) reflect.Value {
	return v.FieldByNameFunc(func(name string) bool {
		f, _ := v.Type().FieldByName(name)
		return f.Tag.Get("key") == key
	})
}

// childOf returns the struct of a field, with its defaults if it is another one in each place.
func childOf(inner reflect.Value, child reflect.Type) reflect.Value {
	if inner.Type() == child {
		return inner
	}
	fresh := reflect.New(child)
	words.Defaults(fresh.Interface())
	return fresh.Elem()
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
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

// sentence removes the Go name with which a struct's comment begins.
func sentence(comment string) string {
	_, rest, _ := strings.Cut(comment, " is ")
	if verb, r, ok := strings.Cut(comment, " bounds "); ok && !strings.Contains(verb, " ") {
		return "Bounds " + r
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

// structBelow returns the struct of a field, nil if it has none, and the suffix that it adds to the path.
func structBelow(t reflect.Type) (reflect.Type, string) {
	switch {
	case t == reflect.TypeFor[settings.Object](), t == reflect.TypeFor[[]netip.Prefix]():
	case t.Kind() == reflect.Struct:
		return t, ""
	case t.Kind() == reflect.Pointer:
		return t.Elem(), ""
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct:
		return t.Elem(), ".NAME"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Pointer: // a table
		value, _ := t.Elem().Elem().FieldByName("Value")
		return value.Type, ".NAME"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return t.Elem(), "[]"
	}
	return nil, ""
}

func typeText(f *settings.Field) string {
	child, suffix := structBelow(f.Type)
	list := f.Type.Kind() == reflect.Slice
	switch {
	case f.Key == "preset":
		return "name of a preset"
	case f.Words() != nil && !list:
		return "`" + strings.Join(f.Words(), "`, `") + "`"
	case f.IsBytes():
		return "size"
	case f.Type == reflect.TypeFor[time.Duration]():
		return "duration"
	case suffix == ".NAME":
		return "mapping by name"
	case child != nil && suffix == "", f.Type == reflect.TypeFor[settings.Object]():
		return "mapping"
	case list:
		return "list"
	}
	switch f.Type.Kind() {
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

func defaultText(f *settings.Field, v reflect.Value) string {
	if v.IsZero() || v.Kind() == reflect.Struct || v.Kind() == reflect.Pointer {
		return ""
	}
	text := fmt.Sprint(v.Interface())
	switch {
	case f.IsBytes():
		text = settings.FormatSize(v.Int())
	case f.Type == reflect.TypeFor[time.Duration]():
		text = settings.FormatDuration(time.Duration(v.Int()))
	}
	return "`" + text + "`"
}

func markdown(t *testing.T, sections []*section) []byte {
	var b bytes.Buffer
	b.WriteString("# Configuration\n\n<!-- Generated from the structs of its sections by `go test ./internal/config -update`; do not edit. -->\n\n")
	b.WriteString("`isogloss check -c isogloss.yaml` reports every error with its line and what to write. Editors with JSON Schema\nsupport can use `isogloss.schema.json`.\n")
	b.WriteString("\nEnvironment variables come before the file, flags before them:\n\n| variable | setting |\n|---|---|\n| `ISOGLOSS_CONFIG` | the path of the file |\n")
	for _, v := range variables() {
		b.WriteString("| `" + v.Source + "` | `" + v.Key + "` |\n")
	}
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
	root := structSchema(reflect.ValueOf(*Default()), comments, defs)
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
	for _, f := range words.Fields(v.Type()) {
		inner := valueOf(v, f.Key)
		p := valueSchema(f, inner, comments, defs)
		p["description"] = comments[goName(v.Type(), f.Key)]
		if text := strings.Trim(defaultText(f, inner), "`"); text != "" {
			p["default"] = text
			if f.Type.Kind() == reflect.Float64 {
				p["default"] = inner.Interface()
			}
		}
		properties[f.Key] = p
	}
	return map[string]any{
		"type": "object", "additionalProperties": false,
		"description": sentence(comments[v.Type().String()]), "properties": properties,
	}
}

const variablePattern = `\$\{`

func valueSchema(f *settings.Field, v reflect.Value, comments map[string]string, defs map[string]any) map[string]any {
	t := f.Type
	variable := map[string]any{"type": "string", "pattern": variablePattern}
	child, below := structBelow(t)
	switch {
	case f.Words() != nil && t.Kind() == reflect.String:
		return map[string]any{"anyOf": []any{map[string]any{"enum": f.Words()}, variable}}
	case child != nil:
		value := childOf(v, child)
		if _, ok := defs[child.String()]; !ok || v.Type() == child && !v.IsZero() { // the value with defaults takes precedence
			defs[child.String()] = structSchema(value, comments, defs)
		}
		ref := map[string]any{"$ref": "#/$defs/" + child.String()}
		switch below {
		case ".NAME":
			return map[string]any{"type": "object", "additionalProperties": ref}
		case "[]":
			return map[string]any{"type": "array", "items": map[string]any{"anyOf": []any{map[string]any{"type": "string"}, ref}}}
		}
		return ref
	case t == reflect.TypeFor[time.Duration]():
		return map[string]any{"type": "string", "pattern": `^0$|^([0-9.]+(ns|us|µs|ms|s|m|h))+$|` + variablePattern}
	case t == reflect.TypeFor[settings.Object]():
		return map[string]any{"type": "object"}
	case f.IsBytes():
		return map[string]any{"type": []string{"integer", "string"}, "pattern": `^[0-9.]+ ?([KMG]i?B|B)?$|` + variablePattern}
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"anyOf": []any{map[string]any{"type": "boolean"}, variable}}
	case reflect.Int, reflect.Float64:
		return map[string]any{"anyOf": []any{map[string]any{"type": "number"}, variable}}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}}
	}
	return map[string]any{"type": "string"}
}

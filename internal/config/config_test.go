package config

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/isogloss-gateway/isogloss/internal/targets/params"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

var update = flag.Bool("update", false, "rewrite the expected sections and the reference")

// TestCases runs every testdata/*.txtar: the section "config" is the input. The expected output is "errors", or
// "settings", the text of the settings in effect, and "resolved", what the rest of the program gets, each without what
// an empty file has. A section "env" sets variables, one NAME=VALUE a line.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { runCase(t, path) })
	}
}

func runCase(t *testing.T, path string) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	in, want := map[string][]byte{}, []txtar.File{}
	kept := archive.Files[:0:0]
	for _, f := range archive.Files {
		switch f.Name {
		case "config", "env":
			in[f.Name] = f.Data
			kept = append(kept, f)
		case "errors", "settings", "resolved":
			want = append(want, f)
		default:
			t.Fatalf("unknown section %q", f.Name)
		}
	}
	var got []txtar.File
	usual, _ := FromEnvironment(noEnv)
	env := lookupIn(string(in["env"]))
	c, err := Parse("isogloss.yaml", in["config"], env, Environment(env)...)
	if err != nil {
		got = []txtar.File{{Name: "errors", Data: []byte(err.Error() + "\n")}}
	} else {
		got = []txtar.File{{Name: "settings", Data: unusual(strings.Split(c.String(), "\n"), strings.Split(usual.String(), "\n"))},
			{Name: "resolved", Data: unusual(dump("", reflect.ValueOf(*c)), dump("", reflect.ValueOf(*usual)))}}
	}
	if *update {
		archive.Files = kept
		archive.Files = append(archive.Files, got...)
		if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\n got:\n%s\nwant:\n%s", strings.TrimSpace(string(archive.Comment)), txtar.Format(&txtar.Archive{Files: got}), txtar.Format(&txtar.Archive{Files: want}))
	}
}

// unusual returns the lines that are not among the usual ones.
func unusual(lines, usual []string) []byte {
	lines = slices.DeleteFunc(lines, func(line string) bool { return slices.Contains(usual, line) })
	return []byte(strings.Join(lines, "\n") + "\n")
}

// dump prints the fields of a value that are set, those of a struct on a line. Of a provider below a target it prints
// the name.
func dump(path string, v reflect.Value) (lines []string) {
	if v.IsZero() || path == ".Listing" {
		return nil
	}
	switch x := v.Interface().(type) {
	case *params.Set:
		return []string{path + " " + string(x.JSON())}
	case *provider.Provider:
		if strings.HasSuffix(path, ".Provider") {
			return []string{path + " " + x.Name}
		}
	case fmt.Stringer:
		if k := reflect.Indirect(v).Kind(); k != reflect.Struct || v.Type().PkgPath() == "net/netip" || v.Type().PkgPath() == "time" || v.Type() == reflect.TypeFor[*url.URL]() {
			return []string{path + " " + x.String()}
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return dump(path, v.Elem())
	case reflect.Struct:
		var words strings.Builder
		for f, inner := range v.Fields() {
			if !f.IsExported() {
				continue
			}
			of := dump(path+"."+f.Name, inner)
			if word, alone := strings.CutPrefix(strings.Join(of, "\n"), path+"."+f.Name+" "); alone && path != "" && len(of) == 1 {
				words.WriteString(" " + f.Name + "=" + word)
			} else {
				lines = append(lines, of...)
			}
		}
		if words.Len() > 0 {
			lines = append([]string{path + " {" + words.String()[1:] + "}"}, lines...)
		}
		return lines
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k == reflect.Struct || k == reflect.Pointer || k == reflect.Interface {
			for i := range v.Len() {
				lines = append(lines, dump(fmt.Sprintf("%s[%d]", path, i), v.Index(i))...)
			}
			return lines
		}
	case reflect.Func:
		return nil
	}
	return []string{fmt.Sprintf("%s %v", path, v.Interface())}
}

// lookupIn returns a lookup function for an environment of NAME=VALUE lines.
func lookupIn(lines string) func(string) (string, bool) {
	env := map[string]string{}
	for line := range strings.Lines(lines) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}

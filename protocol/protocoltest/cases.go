package protocoltest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"golang.org/x/tools/txtar"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Case is one test case, read from a .txtar file.
type Case struct {
	Name    string
	path    string
	archive *txtar.Archive
	changed bool
	lawful  bool // only laws hold; nothing is expected word by word
}

// of returns the sections of a shared case that belong to one protocol.
func (c *Case) of(name protocol.Name) *Case {
	part := &Case{Name: string(name), archive: &txtar.Archive{}, lawful: true}
	for _, f := range c.archive.Files {
		if own, ok := strings.CutPrefix(f.Name, string(name)+"."); ok {
			part.archive.Files = append(part.archive.Files, txtar.File{Name: own, Data: f.Data})
		}
	}
	return part
}

// Cases reads the cases in a folder.
func Cases(tb testing.TB, dir string) []*Case {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(paths) == 0 {
		tb.Fatalf("%s contains no cases (%v)", dir, err)
	}
	var cases []*Case
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		cases = append(cases, &Case{Name: strings.TrimSuffix(filepath.Base(path), ".txtar"), path: path, archive: a})
	}
	return cases
}

// updating reports whether the flag -update is set, which rewrites the expected sections.
// It looks the flag up by name, because the package under test may define it too.
func updating() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

// Section returns a section without its last line end and reports whether it exists.
func (c *Case) Section(name string) ([]byte, bool) {
	for _, f := range c.archive.Files {
		if f.Name == name {
			return f.Data, true
		}
	}
	return nil, false
}

// has reports whether the section "options" contains a word.
func (c *Case) has(option string) bool {
	data, _ := c.Section("options")
	for _, word := range strings.Fields(string(data)) {
		if word == option {
			return true
		}
	}
	return false
}

// Expect compares got with a section, or rewrites the section with -update. If got is
// empty, the section must not exist.
func (c *Case) Expect(t *testing.T, name, got string) {
	t.Helper()
	if c.lawful {
		return
	}
	if got != "" && !strings.HasSuffix(got, "\n") {
		got += "\n"
	}
	if updating() {
		c.set(name, got)
		return
	}
	want, ok := c.Section(name)
	switch {
	case string(want) != got:
		t.Errorf("%s:\n got %s\nwant %s", name, got, want)
	case !ok && got != "":
		t.Errorf("the case has no section %s; -update writes it", name)
	}
}

func (c *Case) set(name, data string) {
	for i, f := range c.archive.Files {
		if f.Name == name {
			if data == "" {
				c.archive.Files = append(c.archive.Files[:i], c.archive.Files[i+1:]...)
			} else {
				c.archive.Files[i].Data = []byte(data)
			}
			c.changed = true
			return
		}
	}
	if data != "" {
		c.archive.Files = append(c.archive.Files, txtar.File{Name: name, Data: []byte(data)})
		c.changed = true
	}
}

// save writes the file if -update has changed a section.
func (c *Case) save(t *testing.T) {
	t.Helper()
	if !c.changed {
		return
	}
	if err := os.WriteFile(c.path, txtar.Format(c.archive), 0o600); err != nil {
		t.Fatal(err)
	}
}

// jsonSection decodes a section into v, if it exists.
func (c *Case) jsonSection(t *testing.T, name string, v any) {
	t.Helper()
	data, ok := c.Section(name)
	if !ok {
		return
	}
	if err := json.Unmarshal(data, v, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// incoming returns a client's request of the case.
func (c *Case) incoming(t *testing.T, section string) protocol.Incoming {
	t.Helper()
	in := protocol.Incoming{}
	c.jsonSection(t, "incoming.json", &in)
	in.Body, _ = c.Section(section)
	return in
}

// ask returns the request that the case's response answers. Without a section ask.json
// it returns a request that asks for usage.
func (c *Case) ask(t *testing.T, codec protocol.Translator) *llm.Request {
	t.Helper()
	if _, ok := c.Section("ask.json"); !ok {
		return &llm.Request{Model: "m", Stream: true, IncludeUsage: true}
	}
	req, err := codec.DecodeRequest(c.incoming(t, "ask.json"))
	if err != nil {
		t.Fatalf("ask.json: %v", err)
	}
	return req
}

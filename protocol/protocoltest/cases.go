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

// Case is one .txtar file.
type Case struct {
	Name    string
	path    string
	archive *txtar.Archive
	changed bool
	lawful  bool // only laws hold; nothing is expected word by word
}

// of is the part of a shared case that is one protocol's.
func (c *Case) of(name protocol.Name) *Case {
	part := &Case{Name: string(name), archive: &txtar.Archive{}, lawful: true}
	for _, f := range c.archive.Files {
		if own, ok := strings.CutPrefix(f.Name, string(name)+"."); ok {
			part.archive.Files = append(part.archive.Files, txtar.File{Name: own, Data: f.Data})
		}
	}
	return part
}

// Cases reads the cases of a folder.
func Cases(tb testing.TB, dir string) []*Case {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(paths) == 0 {
		tb.Fatalf("%s holds no cases (%v)", dir, err)
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

// updating reports whether the expected sections are to be rewritten. The flag is
// looked up by its name, because the package under test may have it already.
func updating() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

// Section returns a section without its last line end, and whether there is one.
func (c *Case) Section(name string) ([]byte, bool) {
	for _, f := range c.archive.Files {
		if f.Name == name {
			return f.Data, true
		}
	}
	return nil, false
}

// has reports whether the section options has a word.
func (c *Case) has(option string) bool {
	data, _ := c.Section("options")
	for _, word := range strings.Fields(string(data)) {
		if word == option {
			return true
		}
	}
	return false
}

// Expect compares what came out with a section, or rewrites it. An empty text
// must have no section.
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

// save writes the case back where -update has changed it.
func (c *Case) save(t *testing.T) {
	t.Helper()
	if !c.changed {
		return
	}
	if err := os.WriteFile(c.path, txtar.Format(c.archive), 0o600); err != nil {
		t.Fatal(err)
	}
}

// jsonSection decodes a section that may be missing.
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

// incoming is a request of the case as it came.
func (c *Case) incoming(t *testing.T, section string) protocol.Incoming {
	t.Helper()
	in := protocol.Incoming{}
	c.jsonSection(t, "incoming.json", &in)
	in.Body, _ = c.Section(section)
	return in
}

// ask is the request that the case's answer is for; one that wants to know the
// usage where the case does not say.
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

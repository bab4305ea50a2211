package openaichat

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the expected sections of the cases")

// streamCase is a case of testdata/aggregate: a stream, the body that it adds up
// to or the error that it ends in, and the rules that it breaks.
type streamCase struct {
	path    string
	archive *txtar.Archive
}

func streamCases(tb testing.TB) map[string]*streamCase {
	tb.Helper()
	paths, err := filepath.Glob("testdata/aggregate/*.txtar")
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no cases: %v", err)
	}
	cases := make(map[string]*streamCase)
	for _, p := range paths {
		a, err := txtar.ParseFile(p)
		if err != nil {
			tb.Fatal(err)
		}
		cases[strings.TrimSuffix(filepath.Base(p), ".txtar")] = &streamCase{path: p, archive: a}
	}
	return cases
}

func (c *streamCase) section(name string) string {
	for _, f := range c.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// events returns the data of the events, and whether the last was [DONE].
func (c *streamCase) events() (events [][]byte, done bool) {
	for line := range strings.Lines(c.section("upstream.sse")) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			done = true
		default:
			events = append(events, []byte(data))
		}
	}
	return events, done
}

// expect compares the sections with what the case expects, or rewrites them.
func (c *streamCase) expect(t *testing.T, got []txtar.File) {
	t.Helper()
	if *update {
		c.archive.Files = slices.DeleteFunc(c.archive.Files, func(f txtar.File) bool {
			return f.Name != "upstream.sse" && f.Name != "options"
		})
		c.archive.Files = append(c.archive.Files, got...)
		if err := os.WriteFile(c.path, txtar.Format(c.archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range got {
		if want := c.section(f.Name); want != string(f.Data) {
			t.Errorf("%s:\n got %s\nwant %s", f.Name, f.Data, want)
		}
	}
	for _, name := range []string{"body.json", "error"} {
		if c.section(name) != "" && got[0].Name != name {
			t.Errorf("got %s %s, want %s", got[0].Name, got[0].Data, name)
		}
	}
}

func aggregate(events [][]byte, done bool) ([]byte, error) {
	var a Aggregator
	for _, e := range events {
		if err := a.Add(e); err != nil {
			return nil, err
		}
	}
	if done {
		a.Done()
	}
	return a.Body()
}

func TestAggregate(t *testing.T) {
	for name, c := range streamCases(t) {
		t.Run(name, func(t *testing.T) {
			events, done := c.events()
			v := c.validator()
			for _, e := range events {
				v.Add(e)
			}
			body, err := aggregate(events, done)
			outcome := txtar.File{Name: "body.json", Data: append(body, '\n')}
			if err != nil {
				outcome = txtar.File{Name: "error", Data: fmt.Appendln(nil, err)}
			}
			var broken strings.Builder
			for _, found := range v.End(done) {
				fmt.Fprintln(&broken, found)
			}
			c.expect(t, []txtar.File{outcome, {Name: "violations", Data: []byte(broken.String())}})
		})
	}
}

func (c *streamCase) validator() *Validator {
	v := &Validator{}
	for _, word := range strings.Fields(c.section("options")) {
		switch word {
		case "include_usage":
			v.IncludeUsage = true
		case "n=2":
			v.N = 2
		default:
			panic("unknown option " + word)
		}
	}
	return v
}

// Explode is the other way round, and what it writes breaks no rule that the
// answer's content does not break by itself.
func TestExplodeOfAggregate(t *testing.T) {
	content := map[Code]bool{
		CodeToolArguments: true, CodeInvalidChunk: true, CodeUnknownFinish: true, CodeChoiceUnasked: true,
	}
	for name, c := range streamCases(t) {
		body := []byte(strings.TrimSpace(c.section("body.json")))
		if len(body) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			chunks, err := Explode(body)
			if err != nil {
				t.Fatal(err)
			}
			again, err := aggregate(chunks, false)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again, body) {
				t.Errorf("\n got %s\nwant %s", again, body)
			}
			v := c.validator()
			v.IncludeUsage = bytes.Contains(body, []byte(`"usage":{`))
			for _, chunk := range chunks {
				v.Add(chunk)
			}
			for _, found := range v.End(true) {
				if !content[found.Code] {
					t.Error(found)
				}
			}
		})
	}
}

func TestAggregatorLimit(t *testing.T) {
	chunk := []byte(`{"choices":[{"index":0,"delta":{"content":"0123456789"}}]}`)
	a := Aggregator{MaxBytes: overhead + 25}
	for i := range 2 {
		if err := a.Add(chunk); err != nil {
			t.Fatalf("chunk %d: %v", i, err)
		}
	}
	if err := a.Add(chunk); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	a.Done()
	if _, err := a.Body(); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("an answer with a hole: %v", err)
	}
}

// A flood of empty choices, calls or members meets the limit as text does.
func TestAggregatorLimitWithoutText(t *testing.T) {
	floods := map[string]string{
		"choices": `{"choices":[{"index":%d,"delta":{}}]}`,
		"calls":   `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"id":"%[1]d"}]}}]}`,
		"members": `{"choices":[],"m%d":""}`,
		"parts":   `{"choices":[{"index":0,"delta":{"content":[{"n":%d}]}}]}`,
	}
	for name, format := range floods {
		t.Run(name, func(t *testing.T) {
			a := Aggregator{MaxBytes: 1 << 12}
			for i := range 10_000 {
				if err := a.Add(fmt.Appendf(nil, format, i)); err != nil {
					if !errors.Is(err, ErrTooLarge) {
						t.Fatal(err)
					}
					return
				}
			}
			t.Fatal("no limit was met")
		})
	}
}

// The answer of a stream is the same however often it is asked for.
func TestAggregatorBodyTwice(t *testing.T) {
	events, _ := streamCases(t)["tool_id_never_sent"].events()
	var a Aggregator
	for _, e := range events {
		if err := a.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	first, err := a.Body()
	if err != nil {
		t.Fatal(err)
	}
	if second, _ := a.Body(); !bytes.Equal(first, second) {
		t.Errorf("\n got %s\nthen %s", first, second)
	}
}

func TestAggregatorAfterDone(t *testing.T) {
	var a Aggregator
	a.Done()
	if err := a.Add([]byte(`{"choices":[]}`)); err == nil {
		t.Fatal("a chunk after [DONE] was taken")
	}
}

func FuzzAggregate(f *testing.F) {
	for _, c := range streamCases(f) {
		events, done := c.events()
		f.Add(bytes.Join(events, []byte("\n")), done)
	}
	f.Fuzz(func(t *testing.T, lines []byte, done bool) {
		var v Validator
		events := bytes.Split(lines, []byte("\n"))
		for _, e := range events {
			v.Add(e)
		}
		v.End(done)
		body, err := aggregate(events, done)
		if err != nil {
			return
		}
		chunks, err := Explode(body)
		if err != nil {
			t.Fatalf("explode %s: %v", body, err)
		}
		again, err := aggregate(chunks, false)
		// In any order: a member without a field may have one in a whole answer.
		if err != nil || !bytes.Equal(reordered(t, again), reordered(t, body)) {
			t.Fatalf("%v\n got %s\nwant %s", err, again, body)
		}
	})
}

func BenchmarkAggregatorAdd(b *testing.B) {
	chunk := chunk250()
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	a := Aggregator{MaxBytes: 1 << 40}
	for b.Loop() {
		if err := a.Add(chunk); err != nil {
			b.Fatal(err)
		}
	}
}

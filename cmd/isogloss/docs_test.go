package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

const root = "../.."

// pages returns the Markdown files of the repository's documentation.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", ".github/*.md", "e2e/*.md", "internal/*/*/*.md", "docs/*.md", "docs/design/*.md", "docs/evidence/*.md", "docs/operations/*.md", "docs/clients/*.md", "docs/protocols/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("there are no %s: %v", pattern, err)
		}
		all = append(all, found...)
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pageOfGitHub matches relative links from a page at the top to GitHub's own pages.
var pageOfGitHub = regexp.MustCompile(`^\.\./\.\./\.\./\.\./(issues|security|discussions)\b`)

// TestLinks checks that the links of every page lead to an existing file and heading.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)|src="([^"]+)"`)
	followed := 0
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			target := m[1] + m[2]
			if strings.Contains(target, "://") {
				continue
			}
			followed++
			path, heading, _ := strings.Cut(target, "#")
			to := page
			if path != "" {
				to = filepath.Join(filepath.Dir(page), path)
			}
			if pageOfGitHub.MatchString(to) {
				continue
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", page, target, err)
			} else if heading != "" && !hasHeading(read(t, to), heading) {
				t.Errorf("%s links to %s, which has no such heading", page, target)
			}
		}
	}
	if followed < 10 {
		t.Errorf("only %d links were followed", followed)
	}
}

// hasHeading reports whether a page has a heading with GitHub's anchor.
func hasHeading(page, anchor string) bool {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(name, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// TestExamples checks each example configuration, with a value for every variable that it
// needs.
func TestExamples(t *testing.T) {
	examples, err := filepath.Glob(filepath.Join(root, "examples/*.yaml"))
	if err != nil || len(examples) < 4 {
		t.Fatalf("there are %d examples: %v", len(examples), err)
	}
	for _, path := range examples {
		file, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		checkConfiguration(t, file, read(t, file))
	}
}

// TestFiguresOfFirstPage checks that README.md and the list of claims, of which its promises are made, have the cost figures
// of the newest full benchmark run, each with its range, and with its goal if that was missed. With -update it writes them.
func TestFiguresOfFirstPage(t *testing.T) {
	files := []string{filepath.Join(root, "README.md"), filepath.Join(root, "docs/claims.yaml")}
	texts := []string{read(t, files[0]), read(t, files[1])}
	measured := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (.+?) \| ≤ (.+?) \| (.+?) \| (.+?) \|`).FindAllStringSubmatch(read(t, filepath.Join(root, "docs/performance.md")), -1) {
		measured[row[1]] = figureText(row[3], row[2], row[4] == "yes")
	}
	for sentence, figure := range map[string]string{
		"in the same run: %s the CPU per request":          "CPU per request, 2 KB in and 1 KB out, verbatim",
		"the CPU per request, %s per event in a burst":     "CPU per event, burst of 200, verbatim",
		"%s per event of paced streams":                    "CPU per event, paced streams, as many as came in time, verbatim",
		"collection in both: %s per request":               "CPU per request, 2 KB in and 1 KB out, verbatim, GOGC=100 in both",
		"per request and %s per event in a burst":          "CPU per event, burst of 200, verbatim, GOGC=100 in both",
		"With a store: %s per request":                     "with a store: CPU per request, 2 KB in and 1 KB out, verbatim",
		"per request, %s per event in a burst ([":          "with a store: CPU per event, burst of 200, verbatim",
		"%s a bare reverse proxy per request with SQLite,": "with a store: CPU per request, 2 KB in and 1 KB out, verbatim",
		"instead of %s without a store":                    "CPU per request, 2 KB in and 1 KB out, verbatim",
		"%s per event translated from Chat to Messages":    "CPU per event, burst of 200, Messages client on Chat upstream",
		"%s per open stream":                               "memory per open stream, verbatim",
	} {
		want := fmt.Sprintf(sentence, measured[figure])
		before, after, _ := strings.Cut(sentence, "%s")
		place := regexp.MustCompile(regexp.QuoteMeta(before) + `[\d.]+ [^\s(]+(?: \([^)]*\))?` + regexp.QuoteMeta(after))
		found := 0
		for i := range texts {
			if *update {
				texts[i] = place.ReplaceAllLiteralString(texts[i], want)
			}
			for _, has := range place.FindAllString(texts[i], -1) {
				if found++; has != want || measured[figure] == "" {
					t.Errorf("%s has %q, want %q, the figure %q of docs/performance.md; -update writes it", files[i], has, want, figure)
				}
			}
		}
		if found == 0 {
			t.Errorf("no page has %q, the figure %q of docs/performance.md", sentence, figure)
		}
	}
	if *update {
		for i, file := range files {
			if err := os.WriteFile(file, []byte(texts[i]), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// figureText adds the goal to a figure that missed it.
func figureText(measured, goal string, held bool) string {
	if held {
		return measured
	}
	if before, ok := strings.CutSuffix(measured, ")"); ok {
		return before + ", goal " + goal + ")"
	}
	return measured + " (goal " + goal + ")"
}

// TestFileOfFirstPage checks the configuration file in README.md.
func TestFileOfFirstPage(t *testing.T) {
	found := false
	for _, b := range fences(read(t, filepath.Join(root, "README.md"))) {
		if b.info == "yaml" {
			found = true
			checkConfiguration(t, writeFile(t, "isogloss.yaml", b.text), b.text)
		}
	}
	if !found {
		t.Error("there is none")
	}
}

// TestVersionInQuickstart checks that the version on the page has the form that `make
// build` produces: the commit of the clone.
func TestVersionInQuickstart(t *testing.T) {
	shown := regexp.MustCompile(`(?m)^isogloss (\S+) \(go1\.\d+\.\d+, \w+/\w+\)$`).FindStringSubmatch(read(t, filepath.Join(root, "docs/quickstart.md")))
	if shown == nil {
		t.Fatal("the page has no output of `isogloss version`")
	}
	plan, err := exec.Command("make", "-s", "-n", "-C", root, "build").Output()
	if err != nil {
		t.Fatal(err)
	}
	built := regexp.MustCompile(`VERSION=(\S+)`).FindStringSubmatch(string(plan))
	if built == nil {
		t.Fatalf("`make build` sets no version:\n%s", plan)
	}
	if exec.Command("git", "-C", root, "rev-parse", "HEAD").Run() != nil {
		t.Skip("this is not a clone")
	}
	form := regexp.MustCompile(`^([0-9a-f]{7,40}|v\d\S*)(-dirty)?$`)
	if !form.MatchString(shown[1]) || !form.MatchString(built[1]) {
		t.Errorf("the page shows the version %q, and `make build` sets %q", shown[1], built[1])
	}
	if r := command(t, t.TempDir(), nil, "version"); !strings.HasPrefix(r.stdout, "isogloss v1.2.3 (go1.") {
		t.Errorf("`isogloss version` prints %q", r.stdout)
	}
}

// TestStreamModeOfFirstPage checks the statement of README.md about its engine preset: a
// non-streaming client gets a body assembled from a stream, and with upstream_stream:
// mirror it gets the upstream's own bytes.
func TestStreamModeOfFirstPage(t *testing.T) {
	const whole = `{"id":"1", "object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"new":1.0}`
	var file string
	for _, b := range fences(read(t, filepath.Join(root, "README.md"))) {
		if b.info == "yaml" {
			file = b.text
		}
	}
	for _, mode := range []string{"", ", upstream_stream: mirror"} {
		streamed := make(chan bool, 1)
		up := upstreamtest.New(t)
		up.Answer(func(c *upstreamtest.Conn) {
			stream := strings.Contains(string(c.Request.Body), `"stream":true`)
			streamed <- stream
			if !stream {
				c.Whole(http.StatusOK, "application/json", whole)
				return
			}
			c.BeginStream()
			c.Chunk(`data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
			c.EndStream()
		})
		data, operators := freePair(t)
		text := strings.NewReplacer("127.0.0.1:8000", up.Addr, `/v1" }`, `/v1"`+mode+` }`).Replace(file) +
			"listen: " + data + "\nadmin: { listen: \"" + operators + "\" }\n"
		server := launchShell(t, t.TempDir(), binary+" serve -c "+writeFile(t, "isogloss.yaml", text))
		server.log.WaitFor(t, `"msg":"listening"`, 1, server.ended)
		resp, err := http.Post("http://"+data+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"fast","messages":[{"role":"user","content":"Hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || !strings.Contains(string(got), `"content":"Hi"`) {
			t.Fatalf("mode %q: %s, %v", mode, got, err)
		}
		if s := <-streamed; s != (mode == "") {
			t.Errorf("mode %q: the upstream was asked to stream: %t", mode, s)
		}
		if mode != "" && string(got) != whole {
			t.Errorf("mode %q changed the body: %s", mode, got)
		}
	}
}

// TestStoredConversationsOfPage checks the statements of
// docs/protocols/openai-responses.md: previous_response_id works on an upstream of
// another protocol that stores nothing, and an unknown id is rejected.
func TestStoredConversationsOfPage(t *testing.T) {
	if !strings.Contains(read(t, filepath.Join(root, "docs/protocols/openai-responses.md")), "`previous_response_id` and `item_reference` work with every upstream.") {
		t.Error("the page does not say so")
	}
	bodies := make(chan string, 2)
	up := upstreamtest.New(t)
	up.Answer(func(c *upstreamtest.Conn) {
		bodies <- string(c.Request.Body)
		c.Whole(http.StatusOK, "application/json", `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello, Ada."},"finish_reason":"stop"}]}`)
	})
	data, operators := freePair(t)
	file := writeFile(t, "isogloss.yaml", "listen: "+data+"\nadmin: { listen: \""+operators+"\" }\nproviders: { local: { protocol: openai-chat, base_url: \"http://"+up.Addr+"/v1\" } }\nmodels: { fast: { targets: [local/m] } }\n")
	server := launchShell(t, t.TempDir(), binary+" serve -c "+file)
	server.log.WaitFor(t, `"msg":"listening"`, 1, server.ended)
	send := func(body string) (int, string) {
		resp, err := http.Post("http://"+data+"/v1/responses", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	_, first := send(`{"model":"fast","input":"I am Ada."}`)
	id := regexp.MustCompile(`"id":"(resp_[^"]+)"`).FindStringSubmatch(first)
	if id == nil {
		t.Fatalf("the first response has no id: %s", first)
	}
	<-bodies
	if status, text := send(`{"model":"fast","previous_response_id":"` + id[1] + `","input":"Who am I?"}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if second := <-bodies; !strings.Contains(second, "I am Ada.") || !strings.Contains(second, "Hello, Ada.") || !strings.Contains(second, "Who am I?") {
		t.Errorf("the upstream received %s", second)
	}
	if status, text := send(`{"model":"fast","previous_response_id":"resp_unknown","input":"Who am I?"}`); status != http.StatusBadRequest || !strings.Contains(text, "previous_response_not_found") {
		t.Errorf("an unknown id gives %d %s", status, text)
	}
}

// TestExplainInRouting compares the first lines of the explanation on the page with the
// command's output for the page's model.
func TestExplainInRouting(t *testing.T) {
	_, shown, _ := strings.Cut(read(t, filepath.Join(root, "docs/routing.md")), "$ isogloss explain -c isogloss.yaml fast\n")
	want := strings.SplitN(shown, "\n", 3)
	file := writeFile(t, "isogloss.yaml", `providers:
  local: { protocol: openai-chat, base_url: "http://127.0.0.1:1/v1" }
  groq: { preset: groq, api_key: a-key-of-some-length }
  openai: { preset: openai, api_key: a-key-of-some-length }
admin: { listen: "127.0.0.1:1" }
models:
  fast:
    targets: [local/llama-3-70b, groq/llama-3.3-70b-versatile, openai/gpt-6-luna]
`)
	r := command(t, t.TempDir(), nil, "explain", "-c", file, "fast")
	got := strings.SplitN(r.stdout, "\n", 3)
	if len(got) < 2 || len(want) < 2 || got[0] != want[0] || !slices.Equal(strings.Fields(got[1]), strings.Fields(want[1])) {
		t.Errorf("the page shows\n%s\nthe command prints\n%s%s", shown, r.stdout, r.stderr)
	}
}

// TestLogMessagesInFailures checks that each log message that the page quotes exists in
// the source.
func TestLogMessagesInFailures(t *testing.T) {
	_, table, found := strings.Cut(read(t, filepath.Join(root, "docs/operations/failures.md")), "## What you see and what to do\n")
	table, _, _ = strings.Cut(table, "\n## ")
	table = regexp.MustCompile(`(?m)^Run on .*$`).ReplaceAllString(table, "") // commands
	messages := regexp.MustCompile("`([a-z][^`_]* [^`_]*)`").FindAllStringSubmatch(table, -1)
	if !found || len(messages) < 8 {
		t.Fatalf("the page quotes only %d messages", len(messages))
	}
	var source strings.Builder
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			source.WriteString(read(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if strings.HasPrefix(m[1], "isogloss ") || strings.Contains(source.String(), strconv.Quote(m[1])) {
			continue
		}
		t.Errorf("no code logs %q", m[1])
	}
}

func checkConfiguration(t *testing.T, file, text string) {
	t.Helper()
	var env []string
	for i, m := range regexp.MustCompile(`\$\{(\w+)\}`).FindAllStringSubmatch(text, -1) {
		env = append(env, fmt.Sprintf("%s=a-key-of-some-length-%d", m[1], i))
	}
	if r := command(t, t.TempDir(), env, "check", "-c", file); r.code != 0 || !strings.HasPrefix(r.stdout, "ok: ") {
		t.Errorf("%s: exit code %d, %s", filepath.Base(file), r.code, r.stderr)
	}
}

// TestBounds compares the page's table of limits with the configuration's defaults and
// with the constants of the code.
func TestBounds(t *testing.T) {
	d := config.Default()
	defaults := map[string]int64{
		"limits.body": d.Limits.Body, "limits.event": d.Limits.Event, "limits.answer": d.Limits.Answer, "limits.conversations": d.Limits.Conversations,
		"timeouts.connect": int64(d.Timeouts.Connect), "timeouts.first_byte": int64(d.Timeouts.FirstByte),
		"timeouts.idle": int64(d.Timeouts.Idle), "timeouts.total": int64(d.Timeouts.Total),
	}
	rows := regexp.MustCompile("(?m)^\\| ([^|]+) \\| (\\w+) \\| `([^`]+)` \\|$").FindAllStringSubmatch(read(t, filepath.Join(root, "docs/security.md")), -1)
	if len(rows) < 15 {
		t.Fatalf("only %d rows were found", len(rows))
	}
	for _, row := range rows {
		what, bound, where := row[1], row[2], row[3]
		want, isDefault := defaults[where]
		if !isDefault {
			want = constantOf(t, where)
		}
		if got := quantity(t, bound); got != want {
			t.Errorf("%s: the page says %s, and %s is %d", what, bound, where, want)
		}
	}
}

// TestThreats checks that the tests and the attacks that the threat model names exist.
func TestThreats(t *testing.T) {
	page := read(t, filepath.Join(root, "docs/security.md"))
	tests := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			for _, f := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(read(t, path), -1) {
				tests[f[1]] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	attacks := read(t, filepath.Join(root, "redteam/groups.go"))
	rows := regexp.MustCompile(`(?m)^\| .* \| (redteam .*) \|$`).FindAllStringSubmatch(page, -1)
	if len(rows) < 10 {
		t.Fatalf("only %d threats were found", len(rows))
	}
	for _, row := range rows {
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[1], -1) {
			if !tests[name[1]] && !strings.Contains(attacks, `name: "`+name[1]+`"`) {
				t.Errorf("%s is neither a test nor a class of attacks", name[1])
			}
		}
	}
}

// quantity parses 64MiB, 30s or 512.
func quantity(t *testing.T, s string) int64 {
	t.Helper()
	for suffix, unit := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "": 1} {
		if n, err := strconv.ParseInt(strings.TrimSuffix(s, suffix), 10, 64); err == nil && strings.HasSuffix(s, suffix) {
			return n * unit
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return int64(d)
}

// constantOf returns the value of a constant such as internal/config.maxFile.
func constantOf(t *testing.T, name string) int64 {
	t.Helper()
	dir, name, _ := strings.Cut(name, ".")
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	for _, path := range files {
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.CONST {
				for _, s := range g.Specs {
					if v := s.(*ast.ValueSpec); v.Names[0].Name == name {
						return evaluate(t, fset, v.Values[0])
					}
				}
			}
		}
	}
	t.Fatalf("%s has no constant %s", dir, name)
	return 0
}

// evaluate computes a constant expression, which may use the units of package time.
func evaluate(t *testing.T, fset *token.FileSet, x ast.Expr) int64 {
	t.Helper()
	var b strings.Builder
	if err := printer.Fprint(&b, fset, x); err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("time.Millisecond", "1_000_000", "time.Second", "1_000_000_000", "time.Minute", "60_000_000_000", "time.Hour", "3_600_000_000_000").Replace(b.String())
	v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, text)
	if err != nil {
		t.Fatal(err)
	}
	n, ok := constant.Int64Val(v.Value)
	if !ok {
		t.Fatalf("%s is no whole number", text)
	}
	return n
}

// TestModelsLive checks that pages, examples and help name no model whose end its vendor has
// announced. internal/request/models/shutdowns.yaml has the ends.
func TestModelsLive(t *testing.T) {
	files := pages(t)
	for _, glob := range []string{"examples/*.yaml", "cmd/isogloss/*.go", "cmd/isogloss/testdata/commands/help*.txtar", "internal/config/*.go", "internal/*/*/settings.go", "internal/app/draft/draft.yaml", "deploy/*/*.yaml", "deploy/*/*/*.yaml"} {
		more, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	name := regexp.MustCompile(`\b(gpt-[0-9][a-z0-9.-]*[a-z0-9]|o[1-9](?:-mini|-pro)?|whisper-1|claude-[a-z0-9.-]*[a-z0-9]|gemini-[0-9][a-z0-9.-]*[a-z0-9])\b`)
	vendors := map[string]string{"c": "anthropic", "g": "openai", "o": "openai", "w": "openai"}
	checked := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, model := range name.FindAllString(read(t, file), -1) {
			preset := vendors[model[:1]]
			if strings.HasPrefix(model, "gemini") {
				preset = "gemini"
			}
			checked++
			if end := models.Shutdown(preset, model); !end.IsZero() {
				t.Errorf("%s names %s, which ends on %s; name a model that lives", file, model, end.Format(time.DateOnly))
			}
		}
	}
	if checked < 20 || models.Shutdown("openai", "gpt-5").IsZero() || models.Shutdown("openai", "o3-2025-04-16").IsZero() {
		t.Errorf("%d names were checked", checked)
	}
}

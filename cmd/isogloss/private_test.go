package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Marks of the texts that the gateway must keep to itself. Its own messages contain none.
const (
	private = "pr1vate" // only the client and the upstream may see the text
	secret  = "s3cret"  // a credential
	named   = "n4med"   // the store may have the text: a tag, a person's name, the client's product
)

// TestLogsHaveNoPrivateContent plays every pair of dialects, streaming and not, against
// upstreams that respond, refuse, break off and send nonsense, with callers of every kind. It
// searches everything that the gateway writes at every log level for the marks of their texts:
// log, metrics, spans, files, the admin API, and the output of commands.
func TestLogsHaveNoPrivateContent(t *testing.T) {
	for _, c := range []struct {
		level, format string
		scenarios     []string
	}{
		{"debug", "json", scenarios()},
		{"debug", "text", []string{"ok", "cut", "error-400"}},
		{"info", "json", []string{"ok", "error-500"}},
		{"warn", "text", []string{"ok", "error-500"}},
		{"error", "json", []string{"ok", "late-error"}},
	} {
		t.Run(c.level+" "+c.format, func(t *testing.T) {
			t.Parallel()
			g := serveWatched(t, "program", c.level, c.format)
			all := c.level == "debug" && c.format == "json"
			if all {
				g.startCaptures(t)
			}
			g.playOverAgain(t)
			g.playPairs(t, c.scenarios)
			if all {
				g.playOddities(t)
				g.stopCaptures(t)
			}
			g.runCommands(t)
			g.runDoctor(t)
			g.readAdmin(t)
			if all {
				g.reloadBadly(t)
			}
			g.signal(t, syscall.SIGTERM) // flushes spans, metrics and the log
			if code := g.exit(t); code != 0 {
				t.Errorf("the exit code is %d", code)
			}
			g.search(t)
			g.wantControls(t, c.level)
		})
	}
}

// TestCrashesHaveNoPrivateContent makes the gateway panic at every step of an exchange, with
// values that quote it, and then kills it so that it prints its stacks.
func TestCrashesHaveNoPrivateContent(t *testing.T) {
	t.Parallel()
	g := serveWatched(t, "faulty", "debug", "json")
	g.playPanics(t)
	open := g.openStream(t)
	defer open.Close()
	g.signal(t, syscall.SIGQUIT)
	if code := g.exit(t); code != 2 {
		t.Errorf("the exit code is %d, want 2 of a crash", code)
	}
	if !strings.Contains(g.log.String(), "SIGQUIT") {
		t.Errorf("the process has printed no stacks:\n%s", g.log)
	}
	g.search(t)
}

// search looks for the marks in everything that the gateway has written.
func (g *watched) search(t *testing.T) {
	t.Helper()
	for where, text := range map[string]string{"log": g.log.String(), "output": g.out.String(), "telemetry": g.collector.String()} {
		g.wantNone(t, where, text, private, secret, named)
	}
	for _, file := range g.files(t, g.dir) {
		g.wantNone(t, "file "+file, read(t, file), private, secret)
	}
}

// files returns the regular files below a folder.
func (g *watched) files(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// wantControls checks that the search could have found something: what must be there, is.
func (g *watched) wantControls(t *testing.T, level string) {
	t.Helper()
	exchanges := int(g.sent.Load())
	if n := strings.Count(g.collector.String(), "isogloss.exchange.id"); n < exchanges {
		t.Errorf("the collector got %d spans of exchanges, want %d", n, exchanges)
	}
	if n := strings.Count(g.log.String(), `"msg":"exchange"`) + strings.Count(g.log.String(), "msg=exchange "); level == "debug" && n < exchanges {
		t.Errorf("the log has %d lines of exchanges, want %d", n, exchanges)
	}
	for _, want := range []string{"isogloss_requests_total", "/v1/traces", "/v1/metrics", "/v1/logs"} {
		if quiet := level == "error" && want == "/v1/logs"; !quiet && !strings.Contains(g.collector.String(), want) {
			t.Errorf("the collector has no %s", want)
		}
	}
	var stored strings.Builder
	for _, file := range g.files(t, filepath.Join(g.dir, "data")) {
		stored.WriteString(read(t, file))
	}
	for _, want := range []string{named + "-tag", named + "-person"} {
		if !strings.Contains(stored.String(), want) {
			t.Errorf("the data folder lacks %s", want)
		}
	}
}

// runCommands runs the commands of operators beside the gateway.
func (g *watched) runCommands(t *testing.T) {
	t.Helper()
	body := filepath.Join(filepath.Dir(g.config), "body.json")
	if err := os.WriteFile(body, []byte(`{"model":"openai-chat--ok","messages":[{"role":"user","content":"pr1vate"}],"pr1vate":"pr1vate"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check"}, {"models"}, {"models", "--json"},
		{"keys", "list"}, {"keys", "list", "--json"}, {"keys", "show", "client"}, {"keys", "usage"}, {"keys", "budget", "client"}, {"keys", "orgs"}, {"keys", "teams"},
		{"explain", "openai-chat--ok"}, {"explain", "anthropic--error-400", "--json"}, {"explain", "failover"}, {"explain", "--request", body}, {"explain", "--token", g.tokenFile},
	} {
		r := g.command(t, append(args, "-c", g.config)...)
		if r.code != 0 {
			t.Errorf("%v: exit code %d, %s", args, r.code, r.stderr)
		}
		marks := []string{private, secret}
		if args[0] != "keys" {
			marks = append(marks, named)
		}
		g.wantNone(t, "output of "+strings.Join(args, " "), r.stdout+r.stderr, marks...)
	}
}

// runDoctor checks the installation and writes a support bundle, which is searched with the gateway's other files.
func (g *watched) runDoctor(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"doctor"}, {"doctor", "--json"}, {"doctor", "--spend", "--bundle", filepath.Join(g.dir, "bundle.txt")}} {
		r := g.command(t, append(args, "-c", g.config)...)
		if r.code != 1 { // the identity provider and some upstreams are away
			t.Errorf("%v: exit code %d, %s", args, r.code, r.stderr)
		}
		g.wantNone(t, "output of "+strings.Join(args, " "), r.stdout+r.stderr, private, secret, named)
	}
	bundle := read(t, filepath.Join(g.dir, "bundle.txt"))
	g.wantNone(t, "support bundle", bundle, private, secret, named)
	for _, line := range []string{`"msg":"exchange"`, "msg=exchange "} {
		if strings.Contains(g.log.String(), line) && !strings.Contains(bundle, line) {
			t.Errorf("the bundle lacks %s, which the log has:\n%.3000s", line, bundle)
		}
	}
	for _, want := range []string{"isogloss_build_info", "providers.up.base_url", "FAILURE  route away"} {
		if !strings.Contains(bundle, want) {
			t.Errorf("the bundle lacks %s:\n%.3000s", want, bundle)
		}
	}
}

// readAdmin reads every page of the admin API that needs no parameter, and the metrics.
func (g *watched) readAdmin(t *testing.T) {
	t.Helper()
	_, text := get(t, g.admin+"/api/openapi.json")
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	pages := 0
	for path, methods := range document.Paths {
		if methods["get"] == nil || strings.Contains(path, "{") {
			continue
		}
		status, text := get(t, g.admin+path, "Authorization", "Bearer "+g.operator)
		if status == http.StatusOK {
			pages++
		}
		g.wantNone(t, "admin API at "+path, text, private, secret)
	}
	if pages < 8 {
		t.Errorf("only %d pages of the admin API were read", pages)
	}
	_, metrics := get(t, g.admin+"/metrics")
	g.wantNone(t, "metrics", metrics, private, secret, named)
	if !strings.Contains(metrics, `dialect="converse"`) {
		t.Errorf("the metrics have no requests:\n%s", metrics)
	}
}

// wantNone fails if a text contains a mark or a credential that the test has made.
func (g *watched) wantNone(t *testing.T, where, text string, marks ...string) {
	t.Helper()
	wantNoMark(t, where, text, append(marks, g.credentials...)...)
}

// wantNoMark fails if a text contains a mark, in any case, also in hexadecimal, in decimal
// bytes or in base64.
func wantNoMark(t *testing.T, where, text string, marks ...string) {
	t.Helper()
	text = strings.ToLower(text)
	for _, mark := range marks {
		for _, form := range encodings(mark) {
			if before, after, found := strings.Cut(text, strings.ToLower(form)); found {
				t.Errorf("the %s holds %s: %q", where, form, before[max(0, len(before)-300):]+form+after[:min(200, len(after))])
				break
			}
		}
	}
}

// encodings returns the forms in which a text may be hidden. A text in base64 depends on the
// number of bytes before it: its first and last characters are left out.
func encodings(text string) []string {
	decimal := strings.Trim(fmt.Sprint([]byte(text)), "[]") //nolint:staticcheck // the numbers of the bytes
	forms := []string{text, fmt.Sprintf("%x", text), decimal}
	for before := range 3 {
		whole := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", before) + text))
		from, to := (before*8+5)/6, (before+len(text))*8/6
		forms = append(forms, whole[from:to])
	}
	return forms
}

// TestCommandsPrintNoSecret runs the commands on valid and invalid configurations and
// checks that no output contains a secret.
func TestCommandsPrintNoSecret(t *testing.T) {
	t.Parallel()
	texts := append(badConfigurations(), goodConfiguration)
	for i, text := range texts {
		file := writeFile(t, "isogloss.yaml", text)
		for _, args := range [][]string{{"check", "-c", file}, {"models", "-c", file}, {"models", "--json", "-c", file}} {
			r := command(t, t.TempDir(), nil, args...)
			wantNoMark(t, args[0]+" of\n"+text, r.stdout+r.stderr, secret)
			if good := i == len(texts)-1; good != (r.code == 0) {
				t.Errorf("%s has exit code %d of\n%s", args[0], r.code, text)
			}
		}
	}
	env := []string{"OPENAI_API_KEY=s3cret", "ANTHROPIC_API_KEY=s3cret"}
	for _, args := range [][]string{{"version"}, {"version", "--json"}, {"models"}, {"models", "--json"}, {"check"}, {"serve", "--listen", "0.0.0.0:0"}} {
		r := command(t, t.TempDir(), env, args...)
		wantNoMark(t, strings.Join(args, " "), r.stdout+r.stderr, secret)
	}
}

// goodConfiguration has secrets in an upstream that does not exist.
const goodConfiguration = `
keys: [s3cret-client-key-0001]
providers: { up: { protocol: openai-chat, base_url: "http://127.0.0.1:1/v1?sig=s3cret", api_key: s3cret-key, headers: { X-Token: s3cret } } }
models: { m: { targets: [up/m] } }
`

// TestUnreachableStoreShowsNoSecret runs a command whose store does not respond. It takes as long as
// the command tries.
func TestUnreachableStoreShowsNoSecret(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "isogloss.yaml", goodConfiguration+
		"store: { url: \"postgres://user:s3cret-password@127.0.0.1:1/db\", peppers: [s3cret-pepper-of-at-least-32-characters] }\nredis: \"redis://:s3cret-password@127.0.0.1:1/0\"\n")
	r := command(t, t.TempDir(), nil, "keys", "list", "-c", file)
	wantNoMark(t, "output without a store", r.stdout+r.stderr, secret)
	if r.code == 0 || !strings.Contains(r.stderr, "the store cannot be used") {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
}

package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestQuickstart follows the page. It runs each shell block as written and compares the
// output with the next block, unless that is a shell block too. A word after "sh" says
// how to run it:
//
//	install     not run: TestMain has built the program
//	background  kept running; the expected output is the start of its log
//	retry       repeated until the output matches
//	fails       its exit code is not 0
//
// The test replaces the ports, which may be in use, and the server, which is scripted.
func TestQuickstart(t *testing.T) { follow(t, "docs/quickstart.md", 10) }

// TestKeysPage follows the page about keys in the same way.
func TestKeysPage(t *testing.T) { follow(t, "docs/operations/keys.md", 10) }

// TestTagsPage follows the page about tags in the same way.
func TestTagsPage(t *testing.T) { follow(t, "docs/operations/tags.md", 5) }

// TestBudgetsPage follows the page about budgets in the same way.
func TestBudgetsPage(t *testing.T) { follow(t, "docs/operations/budgets.md", 4) }

// TestCapturePage follows the page about captures in the same way.
func TestCapturePage(t *testing.T) { follow(t, "docs/capture.md", 8) }

func follow(t *testing.T, page string, least int) {
	t.Helper()
	text := read(t, filepath.Join(root, page))
	up := upstreamtest.New(t)
	up.Answer(sayHello)
	data, admin := freePair(t)
	s := &pageRunner{dir: t.TempDir(), ports: strings.NewReplacer("127.0.0.1:8000", up.Addr, "127.0.0.1:8080", data, "127.0.0.1:8081", admin)}
	blocks := fences(text)
	ran := 0
	for i, b := range blocks {
		language, how, _ := strings.Cut(b.info, " ")
		if language != "sh" || how == "install" {
			continue
		}
		want := ""
		if i+1 < len(blocks) && (blocks[i+1].info == "text" || blocks[i+1].info == "json") {
			want = blocks[i+1].text
		}
		s.do(t, how, s.ports.Replace(b.text), s.ports.Replace(want))
		ran++
	}
	if ran < least || s.server == nil {
		t.Fatalf("only %d blocks were run", ran)
	}
	s.server.signal(t, syscall.SIGINT)
	if code := s.server.exit(t); code != 0 {
		t.Errorf("after Ctrl-C the exit code is %d", code)
	}
}

// sayHello is the scripted upstream.
func sayHello(c *upstreamtest.Conn) {
	var ask struct {
		Model         string
		Stream        bool
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(c.Request.Body, &ask); err != nil || ask.Model != "qwen3" {
		c.Whole(http.StatusBadRequest, "text/plain", "this is not what the page asks for")
		return
	}
	if !ask.Stream {
		c.Whole(http.StatusOK, "application/json", `{"id":"chatcmpl-7","object":"chat.completion","created":1770000000,"model":"qwen3","choices":[{"index":0,"message":{"role":"assistant","content":"Hello!"},"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":2,"total_tokens":13}}`)
		return
	}
	c.BeginStream()
	c.Chunk(`data: {"id":"chatcmpl-8","object":"chat.completion.chunk","created":1770000000,"model":"qwen3","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello!"},"finish_reason":null}]}` + "\n\n")
	c.Chunk(`data: {"id":"chatcmpl-8","object":"chat.completion.chunk","created":1770000000,"model":"qwen3","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n")
	if ask.StreamOptions.IncludeUsage {
		c.Chunk(`data: {"id":"chatcmpl-8","object":"chat.completion.chunk","created":1770000000,"model":"qwen3","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":2,"total_tokens":13}}` + "\n\n")
	}
	c.Chunk("data: [DONE]\n\n")
	c.EndStream()
}

// fence is a fenced code block of a page.
type fence struct{ info, text string }

func fences(page string) []fence {
	var all []fence
	for _, m := range regexp.MustCompile("(?ms)^```(\\S[^\n]*)\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		all = append(all, fence{m[1], m[2]})
	}
	return all
}

// pageRunner runs the blocks of a page.
type pageRunner struct {
	dir    string
	ports  *strings.Replacer
	server *process
}

func (s *pageRunner) do(t *testing.T, how, script, want string) {
	t.Helper()
	if how == "background" {
		s.server = launchShell(t, s.dir, script)
		for _, line := range strings.Split(strings.TrimSpace(want), "\n") {
			s.server.log.WaitFor(t, `"msg":"`+constantPart(line)+`"`, 1, s.server.ended)
		}
		if got := s.server.log.String(); timeless(got) != timeless(want) {
			t.Errorf("%s\nprints\n%s\nwant\n%s", script, got, want)
		}
		return
	}
	got, failed := s.shell(t, script)
	for late := time.Now().Add(patience); how == "retry" && timeless(got) != timeless(want) && time.Now().Before(late); {
		got, failed = s.shell(t, script)
	}
	if timeless(got) != timeless(want) {
		t.Errorf("%s\nprints\n%s\nwant\n%s", script, got, want)
	}
	if failed != (how == "fails") {
		t.Errorf("%s\nfails: %t", script, failed)
	}
}

// constantPart returns the message of a log line.
func constantPart(line string) string {
	var l struct{ Msg string }
	_ = json.Unmarshal([]byte(line), &l) // an empty message never matches
	return l.Msg
}

// shell runs a script and returns its output.
func (s *pageRunner) shell(t *testing.T, script string) (output string, failed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "set -euo pipefail\n"+script)
	cmd.Dir, cmd.Env = s.dir, shellEnvironment()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("the page needs bash: %v", err)
	}
	return string(out), err != nil
}

// launchShell starts a script in the background.
func launchShell(t *testing.T, dir, script string) *process {
	t.Helper()
	cmd := exec.Command("bash", "-c", "exec "+script)
	cmd.Dir, cmd.Env = dir, shellEnvironment()
	return watch(t, cmd)
}

func shellEnvironment() []string {
	return environment([]string{"PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH")})
}

// timeless replaces the parts of an output that differ between runs.
func timeless(s string) string {
	for _, r := range []struct{ find, put string }{
		{`\r\n`, "\n"},
		{`"time":"[^"]*"`, `"time":"TIME"`},
		{`"created":\d+`, `"created":0`},
		{`"(created|from|to)": ?"[^"]*"`, `"$1":"TIME"`},
		{`"revision":\d+`, `"revision":0`},
		{`gw_(live|admin)_\w+`, "gw_$1_KEY"},
		{`\b\w{22}\b`, "ID"},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, "TIME"},
		{`\d{8}-\d{6}-(\S+)-[0-9a-f]{8}\b`, "WHEN-$1-ID"},
		{`isogloss \S+, \S+, request \S+`, "isogloss VERSION, TIME, request ID"},
		{`curl/\S+`, "curl/VERSION"},
		{`"version":"[^"]*"`, `"version":"VERSION"`},
		{`isogloss \S+ \(go\S+, \S+\)`, "isogloss VERSION"},
	} {
		s = regexp.MustCompile(r.find).ReplaceAllString(s, r.put)
	}
	return strings.TrimSpace(s)
}

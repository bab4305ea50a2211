package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestTeamOfFirstPage runs the commands of the section "For a team" in README.md with
// the file above it.
func TestTeamOfFirstPage(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(func(c *upstreamtest.Conn) {
		c.BeginStream() // the engine preset always requests a stream
		c.Chunk(`data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}` + "\n\n")
		c.Chunk(`data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}` + "\n\ndata: [DONE]\n\n")
		c.EndStream()
	})
	data, operators := freePair(t)
	ports := strings.NewReplacer("127.0.0.1:8000", up.Addr, "127.0.0.1:8081", operators, "isogloss keys", binary+" keys", "isogloss serve  ", binary+" serve  ")
	s := &pageRunner{dir: t.TempDir(), ports: ports}
	var lines []string
	for _, b := range fences(read(t, filepath.Join(root, "README.md"))) {
		switch b.info {
		case "yaml":
			text := ports.Replace(b.text) + "listen: " + data + "\nadmin: { listen: \"" + operators + "\" }\n"
			if err := os.WriteFile(filepath.Join(s.dir, "isogloss.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		case "sh team":
			lines = strings.Split(strings.TrimSpace(ports.Replace(b.text)), "\n")
		}
	}
	if len(lines) != 5 {
		t.Fatalf("the page has %d lines for a team, not 5", len(lines))
	}
	var made string
	for _, line := range lines[:3] {
		out, failed := s.shell(t, line)
		if failed {
			t.Fatalf("%s\n%s", line, out)
		}
		made = out
	}
	server := launchShell(t, s.dir, lines[3])
	server.log.WaitFor(t, `"msg":"listening"`, 1, server.ended)
	key, _, _ := strings.Cut(made, "\n")
	if status := askFast(t, data, key); status != http.StatusOK {
		t.Errorf("the client's key gets %d", status)
	}
	if status := askFast(t, data, "nobody"); status != http.StatusUnauthorized {
		t.Errorf("no key gets %d", status)
	}
	const want = `"model":"fast","requests":1,"tokens":{"input":10,"cache_read":0,"cache_write":0,"output":5,"reasoning":0},"cost":"0.000005"`
	var got string
	for late := time.Now().Add(patience); !strings.Contains(got, want) && time.Now().Before(late); {
		got, _ = s.shell(t, strings.Replace(lines[4], "curl ", "curl -s ", 1))
	}
	if !strings.Contains(got, want) {
		t.Errorf("the usage is %s, want %s", got, want)
	}
}

func askFast(t *testing.T, address, key string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/chat/completions",
		strings.NewReader(`{"model":"fast","messages":[{"role":"user","content":"Hello"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

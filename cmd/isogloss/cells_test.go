package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// cells are two gateways behind a router. The gateways share a store, so that one may serve the requests of the other.
type cells struct {
	url        string
	eu, us     *testrig.Gateway
	keyA, keyB string // of organisation A in cell eu, and of B in us
	next       chan struct{}
}

// model returns an upstream whose responses have its name. A stream sends one event, waits for next, and sends another.
func (c *cells) model(t *testing.T, name string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Stream bool }
		_ = json.NewDecoder(r.Body).Decode(&body) // only the gateways send something
		if !body.Stream {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"from %s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`, name)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		chunk := func(text string) {
			_, _ = fmt.Fprintf(w, "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", text)
			_ = http.NewResponseController(w).Flush()
		}
		chunk("begin " + name)
		select {
		case <-c.next:
		case <-r.Context().Done():
			return
		}
		chunk("end " + name)
		_, _ = io.WriteString(w, "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// gateway starts a gateway of a cell.
func (c *cells) gateway(t *testing.T, dir, name string) *testrig.Gateway {
	t.Helper()
	g, err := testrig.NewGateway(binary, dir, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	text := fmt.Sprintf("cell: %s\ndata: %q\nstore: { url: %q, peppers: [%q] }\nshutdown: { notice: 9s }\nproviders:\n  p: { protocol: openai-chat, base_url: %q, api_key: k }\nmodels:\n  m: { targets: [p/m] }\n",
		name, g.Data, "sqlite:"+filepath.Join(dir, "keys.db"), strings.Repeat("pepper", 8), c.model(t, name))
	if err := g.Configure(text); err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

// key makes a key of an organisation in the cell of a gateway.
func key(t *testing.T, g *testrig.Gateway, org string) string {
	t.Helper()
	out, err := g.Command(t.Context(), "keys", "create", "-c", g.Config, "--json", "--name", org, "--org", org, "--models", "*")
	var made struct{ Key string }
	if err == nil {
		err = json.Unmarshal(out, &made)
	}
	if err != nil || !strings.HasPrefix(made.Key, "gw_"+g.Name+"_") {
		t.Fatalf("%s, %v", out, err)
	}
	return made.Key
}

func (c *cells) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if err := testrig.Until(t.Context(), patience, "", ok); err != nil {
		t.Fatal("it does not hold in time: " + what)
	}
}

// send sends a request through the router.
func (c *cells) send(ctx context.Context, key string, stream bool) (*http.Response, error) {
	body := fmt.Sprintf(`{"model":"m","stream":%t,"messages":[{"role":"user","content":"hello"}]}`, stream)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(req)
}

// served returns which upstream has served a request, or the status and the body, or that the connection broke.
func (c *cells) served(t *testing.T, key string) string {
	t.Helper()
	resp, err := c.send(t.Context(), key, false)
	if err != nil {
		return "a broken connection"
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"eu", "us"} {
		if resp.StatusCode == http.StatusOK && strings.Contains(string(text), "from "+name) {
			return name
		}
	}
	return fmt.Sprint(resp.StatusCode, " ", string(text))
}

// TestCells runs two cells behind a router: each organisation is served by its cell, a stream continues while its cell
// drains, a cell with a fallback is served by it while it is down, and one without is not.
func TestCells(t *testing.T) {
	dir := t.TempDir()
	c := &cells{next: make(chan struct{})}
	c.eu = c.gateway(t, dir, "eu")
	c.us = c.gateway(t, dir, "us")
	c.keyA, c.keyB = key(t, c.eu, "a"), key(t, c.us, "b")
	c.url = "http://" + startCells(t, cellsConfig{eu: strings.TrimPrefix(c.eu.URL, "http://"), us: strings.TrimPrefix(c.us.URL, "http://")}).addr
	if a, b := c.served(t, c.keyA), c.served(t, c.keyB); a != "eu" || b != "us" {
		t.Fatalf("organisation A is served by %s, B by %s", a, b)
	}

	resp, err := c.send(t.Context(), c.keyB, true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	stream := bufio.NewReader(resp.Body)
	if line, err := stream.ReadString('\n'); err != nil || !strings.Contains(line, "begin us") {
		t.Fatalf("the stream begins with %q, %v", line, err)
	}
	if err := c.us.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.until(t, "requests of the draining cell go to its fallback", func() bool {
		got := c.served(t, c.keyB)
		if got != "us" && got != "eu" {
			t.Fatalf("while the cell drains, a request gets %s", got)
		}
		return got == "eu"
	})
	close(c.next)
	rest, err := io.ReadAll(stream)
	if err != nil || !strings.Contains(string(rest), "end us") || !strings.Contains(string(rest), "[DONE]") {
		t.Errorf("the stream of the draining cell ends with %q, %v", rest, err)
	}
	select {
	case <-c.us.Ended:
	case <-time.After(patience):
		t.Fatal("the drained cell does not end")
	}
	if got := c.served(t, c.keyB); got != "eu" {
		t.Errorf("with its cell down, organisation B is served by %s", got)
	}

	if err := c.us.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.until(t, "the cell serves again", func() bool { return c.served(t, c.keyB) == "us" })
	c.eu.Kill()
	c.until(t, "a request of a dead cell without a fallback gets 503", func() bool {
		got := c.served(t, c.keyA)
		if got == "a broken connection" || strings.HasPrefix(got, "502 ") && strings.Contains(got, "cell_failed") { // it was sent on a connection that the cell had left
			return false
		}
		if !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "cell_down") {
			t.Fatalf("with its cell dead and no fallback, organisation A gets %s", got)
		}
		return true
	})
	if got := c.served(t, c.keyB); got != "us" {
		t.Errorf("with the other cell dead, organisation B is served by %s", got)
	}
}

package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// runRequest runs a request as a key and returns the response with an unread body.
func (g *gateway) runRequest(ctx context.Context, t *testing.T, operator secret.String, key, path, request string, headers ...string) *http.Response {
	t.Helper()
	body, err := json.Marshal(map[string]string{"path": path, "request": request})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+g.adminAddress(t)+"/api/v1/keys/"+key+"/run", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+operator.Reveal())
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// run is runRequest for a chat request. It returns the read response.
func (g *gateway) run(t *testing.T, operator secret.String, key, model string, headers ...string) reply {
	t.Helper()
	resp := g.runRequest(t.Context(), t, operator, key, "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"stream":false,"messages":[{"role":"user","content":"hi"}]}`, model), headers...)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(text)}
}

func (k *Keyring) operator(t *testing.T, role access.Role) madeKey {
	t.Helper()
	made, err := k.Create(t.Context(), access.Record{Name: "an operator", Role: role, Created: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestRunIsCharged checks that a run is charged to the key, and that a key without budget, scope or
// validity gets the response that it gets at the client port.
func TestRunIsCharged(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(expensive)
	data := t.TempDir()
	configuration := stored(up, data, "sqlite", "")
	keys := keyringOf(t, configuration)
	owner := keys.operator(t, access.Owner)
	key := keys.must(t, quota.Limit{Budget: 1_500_000_000})
	other := keys.must(t, quota.Limit{})
	g := start(t, configuration, quick())
	first := g.run(t, owner.Text, key.ID, "fast", "X-Goog-Api-Key", other.Text.Reveal(), "Isogloss-Tags", "team:x", "Isogloss-Hops", "9")
	id := first.header.Get("X-Request-Id")
	if first.status != 200 || id == "" || first.header.Get("Isogloss-Fidelity") != "exact" || first.header.Get("Isogloss-Target") != "up/real" || first.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%+v", first)
	}
	got := up.Last(t)
	for _, name := range []string{"X-Goog-Api-Key", "X-Api-Key", "Cookie"} {
		if got.Header.Get(name) != "" {
			t.Errorf("the upstream got %s: %v", name, got.Header)
		}
	}
	if text := fmt.Sprint(got.Header); strings.Contains(text, owner.Text.Reveal()) || strings.Contains(text, other.Text.Reveal()) {
		t.Errorf("the upstream got a key: %s", text)
	}
	eventually(t, "the row is in the ledger", func() bool { return len(rowsOf(t, data)) == 1 })
	row := rowsOf(t, data)[0]
	if row.ID != id || row.Key != key.ID || row.Team != "t1" || row.Org != "o1" || row.Model != "fast" || row.Cost == nil || *row.Cost != usage.Money(1_000_000_000) {
		t.Errorf("%+v", row)
	}

	// The budget has half a dollar left, and the second request exhausts it.
	eventually(t, "the budget is exhausted", func() bool { return g.run(t, owner.Text, key.ID, "fast").status != 200 })
	same := func(what string, key madeKey, model string) {
		t.Helper()
		run := g.run(t, owner.Text, key.ID, model)
		status, body, header := g.try(t, model, key.Text)
		if status == 200 || run.status != status || run.body != body || (run.header.Get("Retry-After") == "") != (header.Get("Retry-After") == "") {
			t.Errorf("%s: %d %s for a run, %d %s at the client port", what, run.status, run.body, status, body)
		}
	}
	same("without budget", key, "fast")
	same("an unknown model", other, "unknown")
	scoped, err := keys.Create(t.Context(), access.Record{Name: "scoped", Org: "o1", Models: []string{"other"}, Created: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	same("a model outside of the scope", scoped, "fast")
	if _, err := keys.RevokeKey(t.Context(), other.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client port knows", func() bool { status, _, _ := g.try(t, "fast", other.Text); return status == 401 })
	same("revoked", other, "fast")
	if text := fmt.Sprint(g.log); strings.Contains(text, `"hi"`) {
		t.Error("the log has text of a request")
	}
}

// TestRunStreams checks that parts of a stream arrive when the upstream sends them, and that an operator
// who disconnects ends the request at the upstream.
func TestRunStreams(t *testing.T) {
	up := upstreamtest.New(t)
	next, gone := make(chan struct{}), make(chan bool, 1)
	up.Answer(func(c *upstreamtest.Conn) {
		part := func(text string) {
			c.Chunk(fmt.Sprintf("data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":\"real\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", text))
		}
		c.BeginStream()
		part("part 0")
		<-next
		part("part 1")
		gone <- c.Gone(patience)
	})
	data := t.TempDir()
	configuration := stored(up, data, "sqlite", "")
	keys := keyringOf(t, configuration)
	owner, key := keys.operator(t, access.Owner), keys.must(t, quota.Limit{})
	g := start(t, configuration, quick())
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	resp := g.runRequest(ctx, t, owner.Text, key.ID, "/v1/chat/completions", `{"model":"fast","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatal(resp.StatusCode, resp.Header)
	}
	read := func(want string) {
		t.Helper()
		text, buffer := "", make([]byte, 4096)
		for !strings.Contains(text, want) {
			n, err := resp.Body.Read(buffer)
			if text += string(buffer[:n]); err != nil {
				t.Fatal(err, text)
			}
		}
	}
	read("part 0") // the upstream has sent nothing else
	close(next)
	read("part 1")
	leave()
	if !<-gone {
		t.Error("the request at the upstream goes on")
	}
	eventually(t, "the row is in the ledger", func() bool { return len(rowsOf(t, data)) == 1 })
	if row := rowsOf(t, data)[0]; row.Key != key.ID || row.Outcome != usage.Left {
		t.Errorf("%+v", row)
	}
}

// TestRunInEveryDialect runs a request at the endpoint of each dialect.
func TestRunInEveryDialect(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(echo)
	configuration := stored(up, t.TempDir(), "sqlite", "")
	keys := keyringOf(t, configuration)
	owner, key := keys.operator(t, access.Admin), keys.must(t, quota.Limit{})
	g := start(t, configuration, quick())
	for path, request := range map[string]string{
		"/v1/chat/completions":                `{"model":"fast","messages":[{"role":"user","content":"hi"}]}`,
		"/v1/responses":                       `{"model":"fast","input":"hi"}`,
		"/v1/messages":                        `{"model":"fast","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
		"/v1beta/models/fast:generateContent": `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`,
		"/v1beta/models/fast:streamGenerateContent?alt=sse":    `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`,
		"/v1beta/models/fast:generateContent?key=AIza-smuggle": `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`,
	} {
		resp := g.runRequest(t.Context(), t, owner.Text, key.ID, path, request)
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), "real") {
			t.Errorf("%s: %d %s %v", path, resp.StatusCode, text, err)
		}
	}
}

// TestShutdownWaitsForRuns checks that a shutdown waits for a request that an operator runs.
func TestShutdownWaitsForRuns(t *testing.T) {
	up := upstreamtest.New(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	up.Answer(func(c *upstreamtest.Conn) {
		close(asked)
		<-answer
		echo(c)
	})
	data := t.TempDir()
	configuration := stored(up, data, "sqlite", "")
	keys := keyringOf(t, configuration)
	owner, key := keys.operator(t, access.Admin), keys.must(t, quota.Limit{})
	g := start(t, configuration, quick())
	done := make(chan reply)
	go func() {
		defer close(done)
		done <- g.run(t, owner.Text, key.ID, "fast")
	}()
	<-asked
	g.stop()
	eventually(t, "the admin port is closed", func() bool {
		c, err := net.Dial("tcp", g.adminAddress(t))
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	close(answer)
	if r := <-done; r.status != 200 {
		t.Errorf("%+v", r)
	}
	g.wait(t)
	if rows := rowsOf(t, data); len(rows) != 1 || rows[0].Outcome != usage.Answered {
		t.Errorf("%+v", rows)
	}
}

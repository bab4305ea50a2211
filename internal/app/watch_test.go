package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

const (
	loaded  = `"msg":"configuration loaded"`
	refused = `"msg":"the changed configuration is refused and the old one kept"`
)

// numbered returns a configuration that is recognizable by its models: fast is the
// upstream's model-N, and the list has only-N.
func numbered(up *upstreamtest.Server, n int) string {
	return fmt.Sprintf(`
listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
providers:
  up:        { protocol: openai-chat, base_url: %q }
  streaming: { protocol: openai-chat, base_url: %q, upstream_stream: always }
models:
  fast:      { targets: [up/model-%d] }
  collected: { targets: [streaming/model-%d] }
  only-%d:   { targets: [up/model-%d] }
`, up.BaseURL(), up.BaseURL(), n, n, n, n)
}

// load is a set of clients that send requests continuously. Every response must be
// complete and come from the configuration in use or, during a reload, from the next one.
type load struct {
	g                *gateway
	inUse, written   atomic.Int64 // numbers of configurations
	streamed, wholes atomic.Int64 // responses received
	over             chan struct{}
	wg               sync.WaitGroup
}

func (l *load) run(t *testing.T) {
	for _, ask := range []struct {
		model  string
		stream bool
	}{{"fast", false}, {"fast", true}, {"fast", true}, {"collected", false}} {
		l.wg.Go(func() {
			for {
				select {
				case <-l.over:
					return
				default:
					l.once(t, ask.model, ask.stream)
				}
			}
		})
	}
}

func (l *load) once(t *testing.T, model string, stream bool) {
	oldest := l.inUse.Load()
	resp, err := l.g.ask(model, stream)
	if err != nil {
		t.Errorf("a request was lost: %v", err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("a request was lost: %v, status %d, %s", err, resp.StatusCode, body)
		return
	}
	newest := l.written.Load()
	count, end := &l.wholes, `"finish_reason":"stop"}]}`
	if stream {
		count, end = &l.streamed, "data: [DONE]\n\n"
	}
	count.Add(1)
	if !strings.HasSuffix(strings.TrimSuffix(string(body), "\r\n"), end) {
		t.Errorf("a response is incomplete: %s", body)
	}
	var n int64
	if _, rest, ok := strings.Cut(string(body), `"model":"model-`); ok {
		_, err = fmt.Sscanf(rest, "%d", &n)
	}
	if err != nil || n < oldest || n > newest {
		t.Errorf("the response is of configuration %d, want %d to %d: %s", n, oldest, newest, body)
	}
}

// TestReload changes the file two hundred times under load and checks that each version
// is loaded. Every tenth time it writes an invalid version first.
func TestReload(t *testing.T) {
	const changes = 200 // each mistake is written five times
	poisons := []string{"", "models: [\n", "providers: { up: { protocol: openai-chat, base_url: \"\" } }\n", "models: {}\nmodels: {}\n"}
	up := upstreamtest.New(t)
	up.Answer(echo)
	g := start(t, numbered(up, 0), quick())
	l := &load{g: g, over: make(chan struct{})}
	l.run(t)
	for n := 1; n <= changes; n++ {
		if n%10 == 0 {
			before := strings.Count(g.log.String(), refused)
			g.write(t, poisons[n/10%len(poisons)])
			g.log.waitFor(t, refused, before+1)
		}
		l.written.Store(int64(n))
		if n%2 == 0 {
			g.write(t, numbered(up, n))
		} else {
			g.replace(t, numbered(up, n))
		}
		g.waitForModels(t, fmt.Sprintf("fast collected only-%d", n))
		l.inUse.Store(int64(n))
	}
	close(l.over)
	l.wg.Wait()
	t.Logf("%d streamed and %d whole answers during %d changes", l.streamed.Load(), l.wholes.Load(), changes)
	if l.streamed.Load() < changes || l.wholes.Load() < changes {
		t.Error("there was less than one request for each change")
	}
	// A version that is read while it is being written may be rejected, or loaded twice.
	for result, least := range map[string]int{"ok": changes, "error": changes / 10} {
		var n int
		_, rest, _ := strings.Cut(g.metrics(t), `isogloss_config_reloads_total{result="`+result+`"} `)
		if _, err := fmt.Sscan(rest, &n); err != nil || n < least {
			t.Errorf("the metrics count %d reloads that are %s, want %d or more", n, result, least)
		}
	}
}

// waitForModels waits until the gateway lists exactly these models.
func (g *gateway) waitForModels(t *testing.T, want string) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		got := g.models(t)
		if got == want {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("the models are %s, want %s", got, want)
		}
	}
}

// models returns the ids of the models that the gateway lists.
func (g *gateway) models(t *testing.T) string {
	t.Helper()
	_, body := g.get(t, g.url+"/v1/models")
	var list struct{ Data []struct{ ID string } }
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	ids := make([]string, 0, len(list.Data))
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	return strings.Join(ids, " ")
}

// TestReloadRefusesMistakes checks that an invalid file is rejected with its errors and
// that the corrected file is loaded.
func TestReloadRefusesMistakes(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(echo)
	g := start(t, numbered(up, 1), quick())
	for i, c := range []struct{ name, text, want string }{
		{"an unknown key", "listem: 127.0.0.1:0\n", `isogloss.yaml:1: listem: is not a known key; did you mean \"listen\"?`},
		{"no provider", numbered(up, 2) + "  more: { targets: [upp/x] }\n", `isogloss.yaml:11: models.more.targets[0]: \"upp/x\" names an unknown provider; did you mean \"up\"?`},
		{"not YAML", "models: [\n", "isogloss.yaml:"},
		{"truncated", "", "isogloss.yaml"},
		{"a public address without keys", "listen: 0.0.0.0:0\n" + strings.Replace(numbered(up, 2), "listen: 127.0.0.1:0", "", 1), `add keys, set ISOGLOSS_KEYS, add a store, or listen on 127.0.0.1`},
	} {
		g.replace(t, c.text) // a read in mid-write would report one more error
		line := g.log.waitFor(t, refused, i+1)
		if !strings.Contains(line, c.want) || !strings.Contains(line, `"level":"ERROR"`) {
			t.Errorf("%s: the log lacks %s:\n%s", c.name, c.want, line)
		}
		if got := g.models(t); got != "fast collected only-1" {
			t.Errorf("%s: the models are %s", c.name, got)
		}
		if n := i + 1; !strings.Contains(g.metrics(t), fmt.Sprintf("isogloss_config_reloads_total{result=\"error\"} %d\n", n)) {
			t.Errorf("%s: the metrics do not count %d refusals", c.name, n)
		}
	}
	g.write(t, numbered(up, 2))
	g.log.waitFor(t, loaded, 1)
	if got := g.models(t); got != "fast collected only-2" {
		t.Errorf("after the mistakes were mended the models are %s", got)
	}
}

func (g *gateway) metrics(t *testing.T) string {
	t.Helper()
	_, text := g.get(t, g.metricsURL)
	return text
}

// TestReloadSlowEditor checks an editor that pauses between truncating and writing the
// file, and one that removes the file for a while.
func TestReloadSlowEditor(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(echo)
	g := start(t, numbered(up, 1), quick())
	g.write(t, "")
	g.log.waitFor(t, refused, 1)
	if got := g.models(t); got != "fast collected only-1" {
		t.Errorf("with an empty file the models are %s", got)
	}
	g.write(t, numbered(up, 2))
	g.log.waitFor(t, loaded, 1)
	if err := os.Remove(g.file); err != nil {
		t.Fatal(err)
	}
	g.log.waitFor(t, refused, 2)
	if got := g.models(t); got != "fast collected only-2" {
		t.Errorf("without a file the models are %s", got)
	}
	g.replace(t, numbered(up, 3))
	g.log.waitFor(t, loaded, 2)
	if got := g.models(t); got != "fast collected only-3" {
		t.Errorf("with the file back the models are %s", got)
	}
}

// TestReloadDetectsEqualTimeAndSize checks that a file is loaded that replaces another of
// the same modification time and size.
func TestReloadDetectsEqualTimeAndSize(t *testing.T) {
	up := upstreamtest.New(t)
	g := start(t, numbered(up, 1), quick())
	old, err := os.Stat(g.file)
	if err != nil {
		t.Fatal(err)
	}
	twin := g.file + ".twin"
	if err := os.WriteFile(twin, []byte(numbered(up, 2)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(twin, time.Time{}, old.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(twin, g.file); err != nil {
		t.Fatal(err)
	}
	g.log.waitFor(t, loaded, 1)
	if got := g.models(t); got != "fast collected only-2" {
		t.Errorf("the models are %s", got)
	}
}

// TestReloadKeepsTheGuard checks that a reload is rejected that removes the keys while
// the old, publicly reachable address is still bound.
func TestReloadKeepsTheGuard(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(echo)
	const key = "a-client-key-of-some-length"
	public := "keys: [" + key + "]\n" + strings.Replace(numbered(up, 1), "listen: 127.0.0.1:0", "listen: 0.0.0.0:0", 1)
	g := start(t, public, quick())
	g.write(t, numbered(up, 2))
	line := g.log.waitFor(t, refused, 1)
	if !strings.Contains(line, "keep a key or an identity provider, or restart it on another address") {
		t.Errorf("the log does not say what to do: %s", line)
	}
	if status, _ := g.get(t, g.url+"/v1/models"); status != http.StatusUnauthorized {
		t.Errorf("without a key the status is %d, want 401", status)
	}
	resp, err := g.ask("fast", false, "Authorization", "Bearer "+key)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("with the key the status is %d, want 200", resp.StatusCode)
	}
}

// TestReloadWithIdentityOnly checks that a gateway that other machines can reach, with an identity provider in place of
// keys, loads a changed file and does not say that it serves this machine only.
func TestReloadWithIdentityOnly(t *testing.T) {
	up := upstreamtest.New(t)
	public := func(n int) string {
		return "identity: { issuers: [{ issuer: \"http://127.0.0.1:1/realm\", audiences: [isogloss], rules: [{}] }] }\n" +
			strings.Replace(numbered(up, n), "listen: 127.0.0.1:0", "listen: 0.0.0.0:0", 1)
	}
	g := start(t, public(1), quick())
	if strings.Contains(g.log.String(), "only this machine is served") {
		t.Errorf("other machines are served: %s", g.log.String())
	}
	g.write(t, public(2))
	g.log.waitFor(t, `"msg":"configuration loaded"`, 1)
	g.write(t, numbered(up, 3))
	g.log.waitFor(t, refused, 1)
}

// TestReloadReportsRestartSettings checks that a reload logs the changed settings that
// need a restart.
func TestReloadReportsRestartSettings(t *testing.T) {
	up := upstreamtest.New(t)
	g := start(t, numbered(up, 1), quick())
	g.write(t, numbered(up, 2)+"log: { level: debug }\n")
	g.log.waitFor(t, `"msg":"changed settings take effect at the next start","settings":["log.level"]`, 1)
	if got := g.models(t); got != "fast collected only-2" {
		t.Errorf("the models are %s", got)
	}
}

// TestChangeHasToSettle checks that a file written in pieces is loaded only when two
// looks find the same version.
func TestChangeHasToSettle(t *testing.T) {
	file := t.TempDir() + "/isogloss.yaml"
	write := func(text string) stamp {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return stampOf(file)
	}
	absent := stampOf(file)
	first := write("1")
	seen := sightings{loaded: first, last: first}
	second, third := write("22"), write("333")
	for i, look := range []struct {
		at   stamp
		want bool
	}{
		{first, false}, {first, false}, {second, false}, {third, false}, {third, true}, {third, false},
		{absent, false}, {third, false}, {third, false}, {absent, false}, {absent, true}, {third, false}, {third, true},
	} {
		if got := seen.changed(look.at); got != look.want {
			t.Errorf("look %d: to be loaded %t, want %t", i, got, look.want)
		}
	}
}

// TestRestlessFileIsLoaded checks that a file that differs at each look is loaded after
// three looks.
func TestRestlessFileIsLoaded(t *testing.T) {
	file := t.TempDir() + "/isogloss.yaml"
	var seen sightings
	var loads []int
	for i := 1; i <= 9; i++ {
		if err := os.WriteFile(file, make([]byte, i), 0o600); err != nil {
			t.Fatal(err)
		}
		if seen.changed(stampOf(file)) {
			loads = append(loads, i)
		}
	}
	if want := []int{3, 6, 9}; !slices.Equal(loads, want) {
		t.Errorf("looks %v led to a load, want %v", loads, want)
	}
	for range 2 {
		if seen.changed(stampOf(file)) {
			t.Error("an unchanged file was loaded again")
		}
	}
}

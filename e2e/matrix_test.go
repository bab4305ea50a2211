package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestMatrix asks every feature of every SDK on upstreams of all four dialects,
// through one gateway. Each feature is first played against an upstream of the SDK's
// own dialect without a gateway, which shows that the feature is soundly scripted
// and what the SDK sends. The table of what was done is docs/compatibility.md.
func TestMatrix(t *testing.T) {
	m := newMatrix(t)
	for _, s := range surfaces() {
		t.Run(s.name(), func(t *testing.T) {
			for _, f := range features() {
				if !s.has(f) {
					continue
				}
				t.Run(f.name, func(t *testing.T) { m.play(t, s, f) })
			}
		})
	}
	if m.gateway != nil {
		m.finish(t)
	}
}

// matrix is one upstream and one gateway for all SDKs, and what has come of each cell.
type matrix struct {
	up      *upstream
	gateway *gateway // nil in a direct run
	tap     *wiretap // before the gateway
	clients map[string]client
	top     *testing.T
	cells   map[cell]bool
}

// A cell of the table.
type cell struct{ surface, upstream, feature string }

func newMatrix(t *testing.T) *matrix {
	m := &matrix{up: newUpstream(t), clients: map[string]client{}, top: t, cells: map[cell]bool{}}
	if os.Getenv("E2E_DIRECT") != "" {
		return m
	}
	var b strings.Builder
	b.WriteString("listen: %s\nadmin: { listen: %s }\nkeys: [ " + clientKey + " ]\nretries: { attempts: 1 }\nproviders:\n")
	for _, d := range dialects() {
		for _, kind := range []string{"on", "faulty"} {
			fmt.Fprintf(&b, "  %s-%s: { protocol: %s, base_url: %q, api_key: %s }\n", kind, d.name, d.name, m.up.server.URL+d.prefix, upstreamKey)
		}
	}
	b.WriteString("models:\n")
	for _, d := range dialects() {
		for _, kind := range []string{"on", "faulty"} {
			name := kind + "-" + d.name
			fmt.Fprintf(&b, "  %s: { targets: [ %s/%s ] }\n", name, name, d.target)
		}
	}
	m.gateway = startGateway(t, buildGateway(t), b.String())
	m.gateway.waitLive(t)
	m.tap = newWiretap(t, m.gateway.listen)
	return m
}

func modelNames() []string {
	var names []string
	for _, d := range dialects() {
		names = append(names, "faulty-"+d.name, "on-"+d.name)
	}
	return sorted(names)
}

// client is the process, or what plays its part, of an SDK in one version. It lives
// as long as the matrix: an interpreter takes longer to start than all its features.
func (m *matrix) client(s *surface) client {
	key := s.process
	if key == "" {
		key = s.language + s.sdk + s.version
	}
	if m.clients[key] == nil {
		m.clients[key] = s.start(m.top)
	}
	return m.clients[key]
}

// play does one feature with one SDK: without a gateway, then on every upstream.
func (m *matrix) play(t *testing.T, s *surface, f feature) {
	own := dialectNamed(s.dialect)
	want := f.want(s, own)
	if f.direct != "" {
		want = f.direct
	}
	direct := m.run(t, s, f, own, m.up.server.URL+own.prefix, want)
	if !f.edited {
		checkFacts(t, own, f, model(f, own), direct)
	}
	if f.name == "runner" && s.threads && !bytes.Contains(direct[0].body, []byte(`"thread":`)) {
		t.Error("the runner does not ask for a thread, so this shows nothing of how it takes a refusal")
	}
	if m.gateway == nil {
		return
	}
	sound := !t.Failed()
	for _, d := range dialects() {
		ok := sound && t.Run(d.name, func(t *testing.T) { m.playOn(t, s, f, d, direct) })
		m.cells[cell{s.name(), d.name, f.name}] = ok
	}
}

// playOn does one feature through the gateway on one upstream.
func (m *matrix) playOn(t *testing.T, s *surface, f feature, d *dialect, direct []*received) {
	m.tap.got.reset()
	got := m.run(t, s, f, d, m.tap.url+dialectNamed(s.dialect).sdkPath, f.want(s, d))
	defer func() {
		if t.Failed() {
			t.Logf("the upstream got:\n%s\nthe client got:\n%.6000s", dump(got), m.tap.got)
		}
	}()
	if f.local || len(f.replies) == 0 && len(f.steps(d)) == 0 {
		if len(got) > 0 {
			t.Error("the upstream was asked what the gateway answers by itself")
		}
		return
	}
	for i, g := range got {
		if v := g.header.Get(d.key); v != d.keyValue {
			t.Errorf("request %d has %s %q, want the provider's", i, d.key, v)
		}
		for name, values := range g.header {
			if strings.Contains(strings.Join(values, "\n"), clientKey) {
				t.Errorf("request %d carries the client's key in %s", i, name)
			}
		}
	}
	checkFacts(t, d, f, d.target, got)
	if f.name == "runner" && s.threads && !strings.Contains(m.tap.got.String(), `"error_code":"thread_unsupported_request"`) {
		t.Error("VER-01: the runner's thread was not refused in the words that it understands")
	}
	if d.name == s.dialect && !f.edited {
		checkVerbatim(t, d, model(f, d), direct, got)
	}
}

func model(f feature, d *dialect) string {
	if f.faulty {
		return "faulty-" + d.name
	}
	return "on-" + d.name
}

// run plays a feature at a base URL and returns what the upstream got.
func (m *matrix) run(t *testing.T, s *surface, f feature, d *dialect, baseURL, want string) []*received {
	t.Helper()
	steps := make([]step, 0, len(f.replies))
	for _, r := range f.replies {
		steps = append(steps, d.says(r))
	}
	if f.steps != nil {
		steps = f.steps(d)
	}
	m.up.play(steps)
	o := order{scenario: s.api() + "/" + f.name, baseURL: baseURL, key: clientKey, model: model(f, d)}
	if f.name == "error_unknown" {
		o.model = "no-such-model"
	}
	said := m.client(s).do(t, o, nil)
	got := m.up.requests()
	if diff := compareJSON(t, want, said); diff != "" {
		t.Errorf("the SDK saw something else:\n%s\nreport: %.3000s", diff, said)
	}
	if f.cancel != stays {
		checkAborted(t, got)
	}
	return got
}

// says answers with r, as a stream if that is what is asked for.
func (d *dialect) says(r reply) step {
	return func(w http.ResponseWriter, req *http.Request, body []byte) {
		rec := &received{target: req.URL.RequestURI(), header: req.Header, body: body}
		if d.asked(rec).Stream {
			send(w, d.stream(r))
			return
		}
		whole(200, d.whole(r))(w, req, body)
	}
}

func compareJSON(t *testing.T, want string, got []byte) string {
	t.Helper()
	var w, g any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("the feature's report is not JSON: %v: %s", err, want)
	}
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatalf("the client's report is not JSON: %v: %s", err, got)
	}
	return strings.Join(differences("", w, g), "\n")
}

// checkFacts holds that the upstream was asked what the user has asked.
func checkFacts(t *testing.T, d *dialect, f feature, model string, got []*received) {
	t.Helper()
	if f.asks == nil {
		return
	}
	if len(got) != len(f.asks) {
		t.Errorf("the upstream got %d requests, want %d", len(got), len(f.asks))
		return
	}
	for i, want := range f.asks {
		want.Model = model
		came := d.asked(got[i])
		if f.sealed && i%2 == 1 { // each second round
			want.Seal = d.seal
		} else {
			came.Seal = ""
		}
		if a, b := compact(want), compact(came); a != b {
			t.Errorf("request %d asks something else:\n  came: %s\n  want: %s", i, b, a)
		}
	}
}

// checkVerbatim holds that an upstream of the SDK's own dialect gets the SDK's own
// bytes, but for the model's name.
func checkVerbatim(t *testing.T, d *dialect, model string, direct, got []*received) {
	t.Helper()
	if len(got) != len(direct) {
		t.Errorf("the upstream got %d requests, without a gateway %d", len(got), len(direct))
		return
	}
	rename := strings.NewReplacer(quote(model), quote(d.target), "/"+model+":", "/"+d.target+":")
	for i := range direct {
		// The query beta=true says nothing that the headers do not say, and may stay away.
		if want := strings.TrimSuffix(rename.Replace(direct[i].target), "?beta=true"); got[i].target != want {
			t.Errorf("request %d went to %s, want %s", i, got[i].target, want)
		}
		if want := rename.Replace(string(direct[i].body)); string(got[i].body) != want {
			t.Errorf("request %d has another body:\n%s", i, firstDifference([]byte(want), got[i].body))
		}
	}
}

// dump shows what the upstream got, for a report of what went wrong.
func dump(got []*received) string {
	var b strings.Builder
	for i, g := range got {
		fmt.Fprintf(&b, "  %d: %s\n     %.6000s\n", i, g.target, g.body)
	}
	if len(got) == 0 {
		return "  nothing"
	}
	return b.String()
}

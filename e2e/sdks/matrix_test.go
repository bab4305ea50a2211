package sdks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// TestMatrix asks every feature of every SDK on Chat, Responses, Messages, Gemini and Converse upstreams,
// through one gateway. Each feature is first played against an upstream of the SDK's
// own dialect without a gateway, which shows that the feature is soundly scripted
// and what the SDK sends. The table of what was done is docs/evidence/compatibility.md.
func TestMatrix(t *testing.T) { playMatrix(t, "sdks", "SDK", sdkSurfaces()) }

// TestFrameworks asks the same of the frameworks that stand on the SDKs or in their place.
func TestFrameworks(t *testing.T) { playMatrix(t, "frameworks", "framework", frameworkSurfaces()) }

func playMatrix(t *testing.T, section, noun string, surfaces []*surface) {
	m := newMatrix(t)
	m.section, m.noun, m.surfaces = section, noun, surfaces
	if testing.Short() {
		surfaces = selection(surfaces)
	}
	for _, s := range surfaces {
		t.Run(s.name(), func(t *testing.T) {
			for _, f := range m.features() {
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
	section  string // of the page
	noun     string // what its surfaces are
	surfaces []*surface

	up      *rig.Upstream
	gateway *rig.Gateway // nil in a direct run
	tap     *rig.Wiretap // before the gateway
	tls     *rig.TLS
	clients map[string]rig.Client
	top     *testing.T
	cells   map[cell]bool
}

// features are those that are asked of this section's surfaces.
func (m *matrix) features() []feature {
	return slices.DeleteFunc(features(), func(f feature) bool { return f.framed && m.section != "frameworks" })
}

// A cell of the table.
type cell struct{ surface, upstream, feature string }

func newMatrix(t *testing.T) *matrix {
	m := &matrix{up: rig.NewUpstream(t), tls: rig.NewTLS(t), clients: map[string]rig.Client{}, top: t, cells: map[cell]bool{}}
	if os.Getenv("E2E_DIRECT") != "" {
		return m
	}
	var b strings.Builder
	b.WriteString("keys: [ " + rig.ClientKey + " ]\nretries: { attempts: 1 }\nproviders:\n")
	for _, d := range rig.Dialects() {
		for _, kind := range []string{"on", "faulty"} {
			fmt.Fprintf(&b, "  %s-%s: { protocol: %s, base_url: %q, api_key: %s }\n", kind, d.Name, d.Name, m.up.URL()+d.Prefix, rig.UpstreamKey)
		}
	}
	b.WriteString("models:\n")
	for _, d := range rig.Dialects() {
		for _, kind := range []string{"on", "faulty"} {
			name := kind + "-" + d.Name
			fmt.Fprintf(&b, "  %s: { targets: [ %s/%s ] }\n", name, name, d.Target)
		}
	}
	m.gateway = rig.StartGateway(t, rig.Build(t), b.String())
	m.tap = rig.NewWiretap(t, m.gateway.URL)
	return m
}

func modelNames() []string {
	var names []string
	for _, d := range rig.Dialects() {
		names = append(names, "faulty-"+d.Name, "on-"+d.Name)
	}
	return slices.Sorted(slices.Values(names))
}

// client is the process, or what plays its part, of an SDK in one version. It lives
// as long as the matrix: an interpreter takes longer to start than all its features.
func (m *matrix) client(s *surface) rig.Client {
	key := s.process
	if key == "" {
		key = s.language + s.sdk + s.version
	}
	if m.clients[key] == nil && s.overTLS != nil {
		m.clients[key] = s.overTLS(m.top, m.tls.CA)
	} else if m.clients[key] == nil {
		m.clients[key] = s.start(m.top)
	}
	return m.clients[key]
}

// play does one feature with one SDK: without a gateway, then on every upstream.
func (m *matrix) play(t *testing.T, s *surface, f feature) {
	own := rig.DialectNamed(s.dialect)
	want := s.want(f, own)
	if f.direct != "" {
		want = f.direct
	}
	if f.name == "cut" && s.unnoticed {
		want = strings.ReplaceAll(want, `"*"`, `""`)
	}
	direct := m.run(t, s, f, own, m.up.URL()+own.Prefix, want)
	if !f.edited {
		s.checkFacts(t, own, f, model(f, own), direct)
	}
	if f.name == "runner" && s.threads && !bytes.Contains(direct[0].Body, []byte(`"thread":`)) {
		t.Error("the runner does not ask for a thread, so this shows nothing of how it takes a refusal")
	}
	if f.name == "turns" && s.names && !bytes.Contains(direct[1].Body, []byte(`"item_reference"`)) {
		t.Error("the second question says the first answer again, so this shows nothing of naming it")
	}
	if m.gateway == nil {
		return
	}
	sound := !t.Failed()
	for _, d := range rig.Dialects() {
		ok := sound && t.Run(d.Name, func(t *testing.T) { m.playOn(t, s, f, d, direct) })
		m.cells[cell{s.name(), d.Name, f.name}] = ok
	}
}

// playOn does one feature through the gateway on one upstream.
func (m *matrix) playOn(t *testing.T, s *surface, f feature, d *rig.Dialect, direct []*rig.Received) {
	m.tap.Got.Reset()
	got := m.run(t, s, f, d, m.tap.URL+rig.DialectNamed(s.dialect).SDKPath, s.want(f, d))
	defer func() {
		if t.Failed() {
			t.Logf("the upstream got:\n%s\nthe client got:\n%.6000s", dump(got), m.tap.Got)
		}
	}()
	if f.local || len(f.replies) == 0 && len(f.steps(d)) == 0 {
		if len(got) > 0 {
			t.Error("the upstream was asked what the gateway answers by itself")
		}
		return
	}
	for i, g := range got {
		if v := g.Header.Get(d.Key); v != d.KeyValue {
			t.Errorf("request %d has %s %q, want the provider's", i, d.Key, v)
		}
		for name, values := range g.Header {
			if strings.Contains(strings.Join(values, "\n"), rig.ClientKey) {
				t.Errorf("request %d carries the client's key in %s", i, name)
			}
		}
	}
	s.checkFacts(t, d, f, d.Target, got)
	if f.name == "count_tokens" {
		for _, g := range got {
			if said := d.Asked(g).User; !slices.Equal(said, askHello.User) {
				t.Errorf("the tokens of %q were counted, want those of %q", said, askHello.User)
			}
		}
	}
	if f.name == "runner" && s.threads && !strings.Contains(m.tap.Got.String(), `"error_code":"thread_unsupported_request"`) {
		t.Error("VER-01: the runner's thread was not refused in the words that it understands")
	}
	if d.Name == s.dialect && !f.edited {
		s.checkVerbatim(t, d, model(f, d), direct, got)
	}
}

func model(f feature, d *rig.Dialect) string {
	if f.faulty {
		return "faulty-" + d.Name
	}
	return "on-" + d.Name
}

// run plays a feature at a base URL and returns what the upstream got.
func (m *matrix) run(t *testing.T, s *surface, f feature, d *rig.Dialect, baseURL, want string) []*rig.Received {
	t.Helper()
	steps := make([]rig.Step, 0, len(f.replies))
	for i, r := range f.replies {
		steps = append(steps, d.Says(r, i))
	}
	if f.steps != nil {
		steps = f.steps(d)
	}
	m.up.Play(steps)
	if s.overTLS != nil {
		baseURL = m.tls.URL(m.top, baseURL)
	}
	o := rig.Order{Scenario: s.api() + "/" + f.name, BaseURL: baseURL, Key: rig.ClientKey, Model: model(f, d)}
	if f.name == "error_unknown" {
		o.Model = "no-such-model"
	}
	said := m.client(s).Do(t, o)
	got := m.up.Requests()
	if diff := compareJSON(t, want, said); diff != "" {
		t.Errorf("the SDK saw something else:\n%s\nreport: %.3000s", diff, said)
	}
	switch {
	case !f.leaves:
	case s.faults[f.name].why != "":
		checkOpen(t, got)
	default:
		checkAborted(t, got)
	}
	return got
}

// checkOpen holds that a client which does not close what it has left still does not.
func checkOpen(t *testing.T, got []*rig.Received) {
	t.Helper()
	select {
	case <-got[0].Ended:
		t.Error("the upstream saw the client leave, so this is no fault any more")
	case <-time.After(200 * time.Millisecond):
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
	return differences(w, g)
}

// checkFacts holds that the upstream was asked what the user has asked.
func (s *surface) checkFacts(t *testing.T, d *rig.Dialect, f feature, model string, got []*rig.Received) {
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
		if want.Forced {
			want.Tools = []string{s.schemaTool}
		}
		came := d.Asked(got[i])
		if f.sealed && i%2 == 1 { // each second round
			want.Seal = d.Seal()
		} else {
			came.Seal = ""
		}
		if s.faults[f.name].refused && d.Name == s.dialect && i > 0 {
			if len(came.Wrong) == 0 {
				t.Error("its vendor would take it, so this is no fault any more")
			}
			came.Wrong = nil
		}
		if a, b := testrig.Compact(want), testrig.Compact(came); a != b {
			t.Errorf("request %d asks something else:\n  came: %s\n  want: %s", i, b, a)
		}
	}
}

// checkVerbatim holds that an upstream of the SDK's own dialect gets the SDK's own
// bytes, but for the model's name.
func (s *surface) checkVerbatim(t *testing.T, d *rig.Dialect, model string, direct, got []*rig.Received) {
	t.Helper()
	if len(got) != len(direct) {
		t.Errorf("the upstream got %d requests, without a gateway %d", len(got), len(direct))
		return
	}
	rename := strings.NewReplacer(testrig.Quote(model), testrig.Quote(d.Target), "/"+model+":", "/"+d.Target+":", "/"+model+"/", "/"+d.Target+"/")
	for i := range direct {
		// The query beta=true says nothing that the headers do not say, and may stay away.
		if want := strings.TrimSuffix(rename.Replace(direct[i].URI), "?beta=true"); got[i].URI != want {
			t.Errorf("request %d went to %s, want %s", i, got[i].URI, want)
		}
		want, came := []byte(rename.Replace(string(direct[i].Body))), got[i].Body
		if s.random != nil {
			want, came = s.random.ReplaceAll(want, nil), s.random.ReplaceAll(came, nil)
		}
		if !bytes.Equal(want, came) {
			t.Errorf("request %d has another body:\n%s", i, firstDifference(want, came))
		}
	}
}

// dump shows what the upstream got, for a report of what went wrong.
func dump(got []*rig.Received) string {
	var b strings.Builder
	for i, g := range got {
		fmt.Fprintf(&b, "  %d: %s\n     %.6000s\n", i, g.URI, g.Body)
	}
	if len(got) == 0 {
		return "  nothing"
	}
	return b.String()
}

package sdks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// An sdk is a vendor's client in one version.
type sdk struct {
	name     string // language, package and version, as subtests show it
	language string
	start    func(t *testing.T) rig.Client
	// class turns the name of an exception, as the SDKs for Python and Node have
	// it, into what this SDK has; StatusError is a status without a class of its own.
	class func(string) string
}

func sdks() []sdk {
	return []sdk{goSDK(), pythonSDK("newest", "3.49.0"), pythonSDK("before", "2.54.0"), nodeSDK("openai", "7.53.0"), nodeSDK("openai-6", "6.49.0")}
}

// TestSDKs plays every scenario with every SDK, first straight against the scripted
// upstream and then through the gateway. The first run shows that the scenario
// itself holds and what the SDK sends, which is what the upstream must get from the
// gateway. E2E_DIRECT=1 leaves out the second run.
func TestSDKs(t *testing.T) {
	var bin string
	if os.Getenv("E2E_DIRECT") == "" {
		bin = rig.Build(t)
	}
	var table []string
	for _, s := range sdks() {
		passed, failed := 0, 0
		ok := t.Run(s.name, func(t *testing.T) {
			b := newBench(t, s, bin)
			for _, sc := range scenarios() {
				if sc.only != "" && sc.only != s.language {
					continue
				}
				if t.Run(sc.name, func(t *testing.T) { b.play(t, sc) }) {
					passed++
				} else {
					failed++
				}
			}
		})
		if ok && passed == 0 {
			continue // left out by -run
		}
		table = append(table, fmt.Sprintf("%-24s %3d passed %3d failed", s.name, passed, failed))
	}
	fmt.Printf("scenarios by SDK (%s):\n%s\n", mode(bin), strings.Join(table, "\n"))
}

func mode(bin string) string {
	if bin == "" {
		return "without a gateway"
	}
	return "through the gateway"
}

// bench is one SDK with an upstream and, unless the run is direct, a gateway.
type bench struct {
	sdk     sdk
	client  rig.Client
	up      *rig.Upstream
	bin     string // empty in a direct run
	shared  *rig.Gateway
	started []*rig.Gateway
}

func newBench(t *testing.T, s sdk, bin string) *bench {
	b := &bench{sdk: s, client: s.start(t), up: rig.NewUpstream(t), bin: bin}
	t.Cleanup(func() {
		for _, g := range b.started {
			g.WaitEnd(t)
		}
	})
	if bin != "" {
		b.shared = b.startGateway(t)
	}
	return b
}

func (b *bench) startGateway(t *testing.T) *rig.Gateway {
	t.Helper()
	g := rig.StartGateway(t, b.bin, chatConfiguration(b.up.URL()+"/v1"))
	b.started = append(b.started, g)
	return g
}

func (b *bench) play(t *testing.T, sc scenario) {
	want := sc.want
	if sc.direct != "" {
		want = sc.direct
	}
	sent := b.run(t, sc, route{"straight to the upstream", b.up.URL() + "/v1"}, want)
	if len(sent) != len(sc.steps) {
		t.Fatalf("direct: the SDK sent %d requests, the scenario has %d", len(sent), len(sc.steps))
	}
	if b.bin == "" || t.Failed() {
		return
	}
	g := b.shared
	if sc.faulty {
		g = b.startGateway(t)
	}
	got := b.run(t, sc, route{"through the gateway", g.URL + "/v1"}, sc.want)
	if sc.local {
		sent = nil
	}
	compareRequests(t, sent, got)
}

// route is the way that an SDK's requests take to the upstream.
type route struct{ name, baseURL string }

// run plays the scenario over a route, checks what the SDK reports, and returns
// what the upstream got.
func (b *bench) run(t *testing.T, sc scenario, over route, want string) []*rig.Received {
	t.Helper()
	b.up.Play(sc.steps)
	var cue chan struct{}
	if sc.cancel == leavesOnCue {
		cue = make(chan struct{})
		arrived := b.up.Arrived()
		go func() {
			defer close(cue)
			select {
			case <-arrived:
			case <-time.After(rig.Patience):
			}
		}()
	}
	key := rig.ClientKey
	if sc.key != "" {
		key = sc.key
	}
	report := b.client.Do(t, rig.Order{Scenario: sc.name, BaseURL: over.baseURL, Key: key}, cue)
	if diff := b.compareReport(t, want, report); diff != "" {
		t.Errorf("%s, the SDK saw something else:\n%s\nreport: %.2000s\nwant:   %.2000s", over.name, diff, report, want)
	}
	got := b.up.Requests()
	if sc.cancel != stays {
		checkAborted(t, got)
	}
	return got
}

// checkAborted holds that the upstream saw its peer go away within a second of the
// client's leaving.
func checkAborted(t *testing.T, got []*rig.Received) {
	t.Helper()
	if len(got) == 0 {
		t.Fatal("the upstream got no request to cancel")
	}
	select {
	case <-got[0].Ended:
		if !got[0].Aborted {
			t.Error("the upstream's answer ended, but not by its peer going away")
		}
	case <-time.After(time.Second):
		t.Error("the upstream still had its connection 1 s after the client left")
	}
}

// compareReport says where a report is not what is wanted, with the exception's
// name put into the SDK's own terms.
func (b *bench) compareReport(t *testing.T, want string, report []byte) string {
	t.Helper()
	var w, g any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("the scenario's report is not JSON: %v: %s", err, want)
	}
	if err := json.Unmarshal(report, &g); err != nil {
		t.Fatalf("the client's report is not JSON: %v: %s", err, report)
	}
	if top, ok := w.(map[string]any); ok {
		if e, ok := top["error"].(map[string]any); ok {
			e["class"] = b.sdk.class(e["class"].(string))
		}
	}
	return strings.Join(differences("", w, g), "\n")
}

// differences lists where got is not want. In want, "*" stands for any value that
// says something and "*?" for any value at all.
func differences(path string, want, got any) []string {
	switch w := want.(type) {
	case string:
		if w == "*?" || w == "*" && got != nil && got != "" {
			return nil
		}
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		var out []string
		for k := range w {
			out = append(out, differences(path+"."+k, w[k], g[k])...)
		}
		for k := range g {
			if _, ok := w[k]; !ok {
				out = append(out, fmt.Sprintf("  %s.%s is not expected", path, k))
			}
		}
		slices.Sort(out)
		return out
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			break
		}
		var out []string
		for i := range w {
			out = append(out, differences(fmt.Sprintf("%s[%d]", path, i), w[i], g[i])...)
		}
		return out
	}
	if a, b := rig.Compact(want), rig.Compact(got); a != b {
		return []string{fmt.Sprintf("  %s is %.300s, want %.300s", path, b, a)}
	}
	return nil
}

// compareRequests holds that the gateway asked the upstream what the SDK asks when
// there is no gateway: the same bytes, but for the model's name, with the
// provider's key and without a trace of the client's.
func compareRequests(t *testing.T, direct, got []*rig.Received) {
	t.Helper()
	if len(got) != len(direct) {
		t.Errorf("the upstream got %d requests, want %d", len(got), len(direct))
		return
	}
	for i, d := range direct {
		g := got[i]
		if g.Target != d.Target {
			t.Errorf("request %d went to %s, want %s", i, g.Target, d.Target)
		}
		if want := renameModel(d.Body); !bytes.Equal(g.Body, want) {
			t.Errorf("request %d has another body:\n%s", i, firstDifference(want, g.Body))
		}
		if media := g.Header.Get("Content-Type"); media != "application/json" {
			t.Errorf("request %d has Content-Type %q", i, media)
		}
		if a := g.Header.Values("Authorization"); !slices.Equal(a, []string{"Bearer " + rig.UpstreamKey}) {
			t.Errorf("request %d has Authorization %q, want the provider's", i, a)
		}
		for name, values := range g.Header {
			if strings.Contains(strings.Join(values, "\n"), rig.ClientKey) {
				t.Errorf("request %d carries the client's key in %s", i, name)
			}
		}
	}
}

// renameModel makes of a body as sent by an SDK what the configuration makes of it.
func renameModel(body []byte) []byte {
	return modelMember.ReplaceAllFunc(body, func(m []byte) []byte {
		part := modelMember.FindSubmatch(m)
		return fmt.Appendf(nil, "%s%q", part[1], upstreamName(string(part[2])))
	})
}

var modelMember = regexp.MustCompile(`("model": ?)"([^"]*)"`)

func firstDifference(want, got []byte) string {
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	from := max(0, i-60)
	around := func(b []byte) []byte { return b[min(from, len(b)):min(i+120, len(b))] }
	return fmt.Sprintf("at byte %d (%d bytes sent, %d came)\n  sent: …%s\n  came: …%s", i, len(want), len(got), around(want), around(got))
}

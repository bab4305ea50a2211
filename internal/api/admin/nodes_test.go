package admin

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/nodes"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// TestNodes lists nodes in every state and compares their configurations.
func TestNodes(t *testing.T) {
	w := newWorld(t).serve()
	auditor, now := w.operator(access.Auditor, ""), time.Now()
	add := func(n store.Node, text string) {
		n.Started, n.Loaded, n.Config = now.Add(-time.Hour), now, nodes.Digest(text)
		w.must(w.store.AddNode(t.Context(), n, text))
	}
	add(store.Node{ID: "gw-1.a", Name: "gw-1", Seen: now.Add(-10 * time.Second), Waiting: 99}, selfConfig)
	add(store.Node{ID: "gw-2.a", Name: "gw-2", Version: "1.1", Seen: now, Refused: now, Open: 7, Waiting: 8, Oldest: 90 * time.Second, Captured: true}, `[["listen","here"],["models.m.owned_by","x"],["retries.attempts","2"]]`)
	add(store.Node{ID: "gw-3.a", Name: "gw-3", Seen: now.Add(-2 * nodes.Silence)}, selfConfig)
	add(store.Node{ID: "gw-4.a", Name: "gw-4", Seen: now, Stopped: now}, "")
	list := read[nodeList](t, w.send(auditor, "GET", "/api/v1/nodes", ""), 200)
	var states []string
	for _, n := range list.Nodes {
		states = append(states, n.Name+" "+n.State)
	}
	if !slices.Equal(states, []string{"gw-1 running", "gw-2 running", "gw-3 silent", "gw-4 stopped"}) || list.Missing != "" {
		t.Fatalf("%v, %+v", states, list)
	}
	this, other := list.Nodes[0], list.Nodes[1]
	if !this.This || !this.SameConfig || this.Ledger.Rows != 5 || this.Open != 4 || this.Version != "1.2" {
		t.Errorf("this node: %+v", this)
	}
	if other.This || other.SameConfig || other.Refused.IsZero() || !other.Captured || other.Ledger != (ledgerView{8, 90}) || other.Version != "1.1" || !list.Nodes[2].SameConfig {
		t.Errorf("another node: %+v", other)
	}

	got := read[comparison](t, w.send(auditor, "GET", "/api/v1/nodes/gw-2.a/config", ""), 200)
	want := []nodes.Difference{{Setting: "models.m.owned_by", There: "x"}, {Setting: "retries.attempts", Here: "3", There: "2"}}
	if !slices.Equal(got.Differences, want) || got.Digest != other.Config {
		t.Errorf("the differences are %+v", got)
	}
	if same := read[comparison](t, w.send(auditor, "GET", "/api/v1/nodes/gw-3.a/config", ""), 200); len(same.Differences) != 0 || same.Text != "listen: here\nretries.attempts: 3\n" {
		t.Errorf("an equal configuration: %+v", same)
	}
	w.refusal(w.send(auditor, "GET", "/api/v1/nodes/gw-4.a/config", ""), http.StatusNotFound, "not_kept")
	add(store.Node{ID: "gw-6.a", Name: "gw-6", Version: "1.0", Seen: now}, "listen here\nretries attempts=3\n")
	w.refusal(w.send(auditor, "GET", "/api/v1/nodes/gw-6.a/config", ""), http.StatusConflict, "other_version")
	w.refusal(w.send(auditor, "GET", "/api/v1/nodes/gw-5.a/config", ""), http.StatusNotFound, "not_found")
}

// TestNodeThatTheStoreDoesNotHave lists this node before its first report.
func TestNodeThatTheStoreDoesNotHave(t *testing.T) {
	w := newWorld(t).serve()
	list := read[nodeList](t, w.send(w.operator(access.Owner, ""), "GET", "/api/v1/nodes", ""), 200)
	if len(list.Nodes) != 1 || !list.Nodes[0].This {
		t.Errorf("%+v", list)
	}
}

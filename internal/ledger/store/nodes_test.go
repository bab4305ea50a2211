package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// nodeIDs lists the ids of the nodes that are known.
func nodeIDs(t *testing.T, s *Store) (ids []string) {
	t.Helper()
	list, err := s.Nodes(bg())
	no(t, err)
	for _, n := range list {
		ids = append(ids, n.ID)
	}
	return ids
}

func TestNodes(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		one, two := open(), open()
		a := Node{ID: "a.1", Name: "a", Version: "1.0", Started: noon, Seen: noon, Config: "c1", Loaded: noon, Open: 3, Waiting: 7, Oldest: time.Second, Captured: true}
		no(t, one.AddNode(bg(), a, "listen 1"))
		no(t, two.AddNode(bg(), Node{ID: "b.1", Name: "b", Started: noon, Seen: noon, Config: "c1"}, "listen 1"))
		list, err := two.Nodes(bg())
		no(t, err)
		if len(list) != 2 || list[0] != a || !list[1].Stopped.IsZero() {
			t.Errorf("the nodes are %+v", list)
		}
		a.Seen, a.Refused, a.Config, a.Open, a.Waiting, a.Captured = noon.Add(time.Minute), noon.Add(time.Second), "c2", 0, 0, false
		no(t, one.UpdateNode(bg(), a, "listen 2"))
		no(t, one.UpdateNode(bg(), a, ""))
		if list, err = two.Nodes(bg()); err != nil || list[0] != a {
			t.Errorf("after an update: %+v %v", list, err)
		}
		for digest, want := range map[string]string{"c1": "listen 1", "c2": "listen 2"} {
			if text, err := two.NodeConfig(bg(), digest); err != nil || text != want {
				t.Errorf("%s: %q %v", digest, text, err)
			}
		}
		if _, err := two.NodeConfig(bg(), "c3"); !errors.Is(err, ErrNotFound) {
			t.Errorf("an unknown configuration: %v", err)
		}

		a.Stopped = noon.Add(2 * time.Minute)
		no(t, one.UpdateNode(bg(), a, ""))
		if list, err = two.Nodes(bg()); err != nil || !list[0].Stopped.Equal(a.Stopped) {
			t.Errorf("after the stop: %+v %v", list, err)
		}
		no(t, one.AddNode(bg(), Node{ID: "a.2", Name: "a", Started: noon, Seen: noon.Add(3 * time.Minute), Config: "c2"}, "listen 2"))
		if got := nodeIDs(t, two); !slices.Equal(got, []string{"a.2", "b.1"}) {
			t.Errorf("after a restart: %v", got)
		}
		no(t, one.AddNode(bg(), Node{ID: "c.1", Name: "c", Started: noon, Seen: noon.Add(25 * time.Hour), Config: "c2"}, strings.Repeat("x", maxConfigText+1)))
		if got := nodeIDs(t, two); !slices.Equal(got, []string{"c.1"}) {
			t.Errorf("a day later: %v", got)
		}
	})
}

// TestNodesAreBounded adds more nodes and configurations than are kept.
func TestNodesAreBounded(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		for i := range maxNodes {
			no(t, execute(bg(), s, fmt.Sprintf(`INSERT INTO nodes (`+nodeColumns+`) VALUES ('n%d', 'n', '', 0, %d, 0, '', 0, 0, 0, 0, 0, FALSE)`, i, nanos(noon)+int64(i))))
		}
		last := Node{ID: "last", Name: "last", Seen: noon.Add(time.Hour)}
		for i := range maxNodeConfigs + 5 {
			last.Config, last.Seen = fmt.Sprint("c", i), last.Seen.Add(time.Second)
			no(t, s.AddNode(bg(), last, "text"))
		}
		got := nodeIDs(t, s)
		if len(got) != maxNodes-1 && len(got) != maxNodes || slices.Contains(got, "n0") || !slices.Contains(got, "last") {
			t.Errorf("%d nodes", len(got))
		}
		kept := 0
		for i := range maxNodeConfigs + 5 {
			if _, err := s.NodeConfig(bg(), fmt.Sprint("c", i)); err == nil {
				kept++
			}
		}
		if kept != maxNodeConfigs {
			t.Errorf("%d configurations are kept, want %d", kept, maxNodeConfigs)
		}
	})
}

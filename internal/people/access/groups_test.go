package access

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
)

// TestSCIMGroups checks that groups are read once, again after a change and after a reset, and that
// without the store those that are known are used until something has changed.
func TestSCIMGroups(t *testing.T) {
	s := newSource()
	d := NewDirectory(DirectoryOptions{Source: s, Peppers: peppers(t)})
	read := func(known *SCIMGroups) (*SCIMGroups, string) {
		t.Helper()
		g, err := d.SCIMGroups(t.Context(), "ann", known)
		if err != nil {
			return nil, err.Code
		}
		return g, ""
	}
	refresh := func() {
		t.Helper()
		if err := d.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.join("ann", SCIMGroup{"acme", "id-1", "Search"}, SCIMGroup{"", "", "Staff"}, SCIMGroup{"other", "id-3", "Other"})
	refresh()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { read(nil) })
	}
	all.Wait()
	g, _ := read(nil)
	if again, _ := read(g); again != g || s.asked["groups ann"] != 1 {
		t.Errorf("%d queries, %v", s.asked["groups ann"], again)
	}
	if ids, names := g.In("acme", ExternalID), g.In("acme", DisplayName); !slices.Equal(ids, []string{"id-1"}) || !slices.Equal(names, []string{"Search", "Staff"}) {
		t.Errorf("%v %v", ids, names)
	}
	s.stored(peppers(t), 1) // no change of groups
	refresh()
	if again, _ := read(g); again != g {
		t.Error("groups are read again after a change of a key")
	}
	s.err = errAway
	if again, code := read(nil); again != g || code != "" {
		t.Error("known groups are not used without the store", code)
	}
	if _, err := d.SCIMGroups(t.Context(), "eve", nil); err == nil || err.Code != "keys_unavailable" {
		t.Errorf("unknown groups without the store: %v", err)
	}
	s.err = nil
	s.join("ann")
	refresh()
	s.err = errAway
	if _, code := read(g); code != "keys_unavailable" {
		t.Errorf("groups that have changed are used: %q", code)
	}
	s.err = nil
	if now, _ := read(g); now == nil || len(now.List) != 0 || !now.isLater(g) || now.isLater(now) {
		t.Errorf("%+v", now)
	}
	queries := s.asked["groups ann"]
	s.set(func(s *source) { s.history++ }) // the store is restored
	refresh()
	if read(nil); s.asked["groups ann"] != queries+1 {
		t.Error("groups of before a reset are used")
	}
}

// TestOlderTokenOfAMember checks that the account follows a change of SCIM groups also with an older token
// of the person, and with such a token only then.
func TestOlderTokenOfAMember(t *testing.T) {
	s := newSource()
	d := NewDirectory(DirectoryOptions{Source: s, Peppers: peppers(t)})
	token := func(team, id string, issued int64, groups *SCIMGroups, byGroups bool) *Person {
		p := somebody(team, quota.Limit{}, "")
		p.Revocation, p.Issued, p.Expires, p.Groups, p.ByGroups = id, time.Unix(issued, 0), time.Now().Add(time.Hour), groups, byGroups
		return p
	}
	first, second := &SCIMGroups{epoch: 1}, &SCIMGroups{epoch: 2}
	tokens := issued{"eyJ.a.new": token("search", "new", 2, first, true), "eyJ.a.old": token("guests", "old", 1, first, false)}
	c := NewClients(NewKeys(nil), d, tokens)
	team := func(text string) string {
		t.Helper()
		caller, err := c.Check(request(text))
		if err != nil {
			t.Fatal(err)
		}
		return caller.Team
	}
	if team("eyJ.a.new") != "search" || team("eyJ.a.old") != "search" {
		t.Error("an older token changes the account")
	}
	tokens["eyJ.a.old"] = token("guests", "old", 1, second, false) // the group is gone
	if got := team("eyJ.a.old"); got != "guests" {
		t.Errorf("an older token keeps what a group gave: %s", got)
	}
	tokens["eyJ.a.new"] = token("members", "new", 2, second, false)
	if team("eyJ.a.new") != "members" || team("eyJ.a.old") != "members" {
		t.Error("the newest token does not hold")
	}
}

// TestGroupCache checks that the groups of more than one person are kept.
func TestGroupCache(t *testing.T) {
	var c groupCache
	ann, bob := &SCIMGroups{epoch: 1}, &SCIMGroups{epoch: 2}
	c.put("ann", ann)
	c.put("bob", bob)
	if c.get("ann") != ann || c.get("bob") != bob || c.get("eve") != nil {
		t.Errorf("%v %v %v", c.get("ann"), c.get("bob"), c.get("eve"))
	}
}

package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// TestKey checks that a stored key is returned unchanged, with the limits of its team and
// organisation.
func TestKey(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		ctx := t.Context()
		no(t, s.CreateTenant(ctx, Tenant{Org: "acme", Name: "Acme", Limit: quota.Limit{Requests: 9, More: "1/2 3/4"}, Created: noon}))
		no(t, s.CreateTenant(ctx, Tenant{Org: "acme", Team: "blue", Name: "Blue", Limit: quota.Limit{Tokens: 7, More: "5/6"}, Created: noon}))
		want := sampleKey("k1")
		want.Org, want.Team, want.Role = "acme", "blue", access.Billing
		no(t, s.CreateKey(ctx, want))
		want.TeamLimit, want.OrgLimit = quota.Limit{Tokens: 7, More: "5/6"}, quota.Limit{Requests: 9, More: "1/2 3/4"}
		got, err := s.Key(ctx, "k1")
		no(t, err)
		want.Revision = got.Revision
		if !reflect.DeepEqual(got, want) || got.Revision == 0 {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		for name, err := range map[string]error{
			"again":   s.CreateKey(ctx, want),
			"no org":  s.CreateKey(ctx, access.Record{ID: "x", Org: "nobody", Digests: want.Digests}),
			"no team": s.CreateKey(ctx, access.Record{ID: "x", Org: "default", Team: "blue", Digests: want.Digests}),
			"org":     s.CreateTenant(ctx, Tenant{Org: "acme"}),
			"team":    s.CreateTenant(ctx, Tenant{Org: "acme", Team: "blue"}),
			"orphan":  s.CreateTenant(ctx, Tenant{Org: "nobody", Team: "blue"}),
			"slash":   s.CreateTenant(ctx, Tenant{Org: "acme", Team: "b/c"}),
		} {
			var own Error
			if !errors.As(err, &own) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, id := range []string{"", "k2", "k1\x00", "\xff", "K1", "k1 "} {
			if _, err := s.Key(ctx, id); !errors.Is(err, access.ErrUnknown) {
				t.Errorf("key %q: %v", id, err)
			}
		}
	})
}

func TestKeyChanges(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		ctx := t.Context()
		no(t, s.CreateTenant(ctx, Tenant{Org: "default", Team: "blue"}))
		no(t, s.CreateKey(ctx, sampleKey("k1")))
		r, err := s.UpdateKey(ctx, "k1", func(r *access.Record) error {
			r.Name, r.Team, r.Models, r.Org, r.Role = "new", "blue", nil, "elsewhere", access.Owner
			return nil
		})
		no(t, err)
		if r.Name != "new" || r.Team != "blue" || r.Models != nil || r.Org != "default" || r.Role != "" {
			t.Errorf("updated: %+v", r)
		}
		if _, err = s.UpdateKey(ctx, "k1", func(*access.Record) error { return errors.New("mine") }); err == nil {
			t.Error("an edit that fails is kept")
		}
		second, third := access.Digest{Pepper: 2, Sum: [32]byte{2}}, access.Digest{Pepper: 3, Sum: [32]byte{3}}
		_, err = s.RotateKey(ctx, "k1", second, noon)
		no(t, err)
		r, err = s.RotateKey(ctx, "k1", third, noon.Add(time.Hour))
		no(t, err)
		if second.Until = noon.Add(time.Hour); !reflect.DeepEqual(r.Digests, []access.Digest{third, second}) {
			t.Errorf("rotated: %+v", r.Digests)
		}
		r, err = s.RevokeKey(ctx, "k1", noon)
		no(t, err)
		again, err := s.RevokeKey(ctx, "k1", noon.Add(time.Hour))
		no(t, err)
		if !r.Revoked.Equal(noon) || !again.Revoked.Equal(noon) {
			t.Errorf("revoked %s and %s", r.Revoked, again.Revoked)
		}
		if _, err = s.RotateKey(ctx, "k1", third, noon); !errors.Is(err, ErrRevoked) {
			t.Errorf("a revoked key was rotated: %v", err)
		}
		if _, err = s.RevokeKey(ctx, "nobody", noon); !errors.Is(err, access.ErrUnknown) {
			t.Error(err)
		}
	})
}

func TestLists(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		ctx := t.Context()
		no(t, s.CreateTenant(ctx, Tenant{Org: "acme"}))
		no(t, s.CreateTenant(ctx, Tenant{Org: "acme", Team: "blue"}))
		for i := range 5 {
			k := sampleKey(fmt.Sprint("k", i))
			if i > 2 {
				k.Org, k.Team = "acme", "blue"
			}
			if i == 4 {
				k.Role = access.Admin
			}
			no(t, s.CreateKey(ctx, k))
		}
		for name, c := range map[string]struct {
			f     KeyFilter
			after string
			limit int
			want  string
		}{
			"all":       {want: "[k0 k1 k2 k3 k4]"},
			"page":      {after: "k1", limit: 2, want: "[k2 k3]"},
			"org":       {f: KeyFilter{Org: "acme"}, want: "[k3 k4]"},
			"team":      {f: KeyFilter{Org: "acme", Team: "blue"}, after: "k3", want: "[k4]"},
			"clients":   {f: KeyFilter{Who: Clients}, want: "[k0 k1 k2 k3]"},
			"operators": {f: KeyFilter{Who: Operators}, want: "[k4]"},
			"none":      {f: KeyFilter{Org: "' OR 1=1 --"}, want: "[]"},
		} {
			list, err := s.Keys(ctx, c.f, c.after, c.limit)
			no(t, err)
			ids := []string{}
			for _, r := range list {
				ids = append(ids, r.ID)
			}
			if got := fmt.Sprint(ids); got != c.want {
				t.Errorf("%s: got %s, want %s", name, got, c.want)
			}
		}
		o, err := s.UpdateTenant(ctx, "acme", "", func(o *Tenant) error { o.Blocked, o.Limit.Budget = true, 5; return nil })
		no(t, err)
		if got, err := s.Tenant(ctx, "acme", ""); err != nil || got != o || !got.Blocked {
			t.Errorf("org: %+v, %v", got, err)
		}
		if list, err := s.Orgs(ctx, "", 0); err != nil || len(list) != 2 || list[1].Org != "default" {
			t.Errorf("orgs: %+v, %v", list, err)
		}
		tm, err := s.UpdateTenant(ctx, "acme", "blue", func(tm *Tenant) error { tm.Name = "Blue"; return nil })
		no(t, err)
		if list, err := s.Teams(ctx, "acme", "", 0); err != nil || len(list) != 1 || list[0] != tm {
			t.Errorf("teams: %+v, %v", list, err)
		}
		if k, err := s.Key(ctx, "k3"); err != nil || !k.Blocked() {
			t.Errorf("the key of a blocked organisation: %+v, %v", k, err)
		}
		if _, err := s.UpdateTenant(ctx, "acme", "red", func(*Tenant) error { return nil }); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	})
}

// mirror follows a store like a node.
type mirror struct {
	since access.Cursor
	keys  map[string]access.Record
}

func (m *mirror) follow(t *testing.T, s *Store, limit int) {
	t.Helper()
	for calls := 0; ; calls++ {
		c, err := s.Changes(bg(), m.since, limit)
		no(t, err)
		if len(c.Records) > limit || len(c.Tenants) > limit || calls > 10_000 {
			t.Fatalf("%d records and %d tenants in a page of %d, call %d", len(c.Records), len(c.Tenants), limit, calls)
		}
		if c.Reset {
			if m.since != (access.Cursor{}) {
				t.Fatalf("the store does not know %+v", m.since)
			}
			m.keys = map[string]access.Record{}
			c.Records, err = s.KeysAfter(bg(), "", 1000)
			no(t, err)
		} else if c.Next.Revision < m.since.Revision || c.More && c.Next == m.since {
			t.Fatalf("from %+v to %+v", m.since, c.Next)
		}
		for _, r := range c.Records {
			m.keys[r.ID] = r
		}
		for _, tenant := range c.Tenants {
			m.apply(tenant)
		}
		m.since = c.Next
		if !c.More {
			return
		}
	}
}

// apply changes the keys of a team or organisation.
func (m *mirror) apply(n access.Tenant) {
	for id, r := range m.keys {
		switch {
		case r.Org != n.Org || n.Team != "" && r.Team != n.Team || n.Revision <= r.Revision:
			continue
		case n.Team == "":
			r.OrgLimit, r.OrgBlocked = n.Limit, n.Blocked
		default:
			r.TeamLimit, r.TeamBlocked = n.Limit, n.Blocked
		}
		r.Revision = n.Revision
		m.keys[id] = r
	}
}

func (m *mirror) check(t *testing.T, s *Store) {
	t.Helper()
	list, err := s.Keys(bg(), KeyFilter{}, "", 0)
	no(t, err)
	if len(list) != len(m.keys) {
		t.Errorf("%d keys, and the mirror has %d", len(list), len(m.keys))
	}
	for _, r := range list {
		if !reflect.DeepEqual(m.keys[r.ID], r) {
			t.Fatalf("the mirror has %+v\nthe store    %+v", m.keys[r.ID], r)
		}
	}
}

// TestChangesSkipNothing checks that a node that reads pages of any size gets all changes.
func TestChangesSkipNothing(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		ctx := t.Context()
		random := rand.New(rand.NewPCG(1, 2))
		for _, org := range []string{"default", "acme"} {
			if org != "default" {
				no(t, s.CreateTenant(ctx, Tenant{Org: org}))
			}
			for _, team := range []string{"blue", "red"} {
				no(t, s.CreateTenant(ctx, Tenant{Org: org, Team: team}))
			}
		}
		mirrors := map[int]*mirror{}
		for _, limit := range []int{1, 2, 7, 500} {
			mirrors[limit] = &mirror{keys: map[string]access.Record{}}
		}
		n := 0
		for round := range 120 {
			org, team := []string{"default", "acme"}[random.IntN(2)], []string{"blue", "red"}[random.IntN(2)]
			switch what := random.IntN(6); {
			case what < 3 || n == 0:
				k := sampleKey(fmt.Sprint("k", n))
				if k.Org = org; random.IntN(3) > 0 {
					k.Team = team
				}
				no(t, s.CreateKey(ctx, k))
				n++
			case what == 3:
				_, err := s.UpdateKey(ctx, fmt.Sprint("k", random.IntN(n)), func(r *access.Record) error { r.Name, r.Team = fmt.Sprint(round), team; return nil })
				no(t, err)
			case what == 4:
				_, err := s.UpdateTenant(ctx, org, team, func(tm *Tenant) error { tm.Limit.Requests++; tm.Blocked = !tm.Blocked; return nil })
				no(t, err)
			default:
				_, err := s.UpdateTenant(ctx, org, "", func(o *Tenant) error { o.Limit.Requests++; return nil })
				no(t, err)
			}
			for limit, m := range mirrors {
				if random.IntN(limit+5) < 3 || round == 119 {
					m.follow(t, s, limit)
					m.check(t, s)
				}
			}
		}
		for _, limit := range []int{1, 3, 500} { // from the start
			m := &mirror{keys: map[string]access.Record{}}
			m.follow(t, s, limit)
			m.check(t, s)
		}
	})
}

// TestChangesUnderLoad does the same with concurrent changes and followers on two nodes.
func TestChangesUnderLoad(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		nodes := []*Store{open(), open()}
		for _, team := range []string{"blue", "red"} {
			no(t, nodes[0].CreateTenant(bg(), Tenant{Org: "default", Team: team}))
		}
		var writers, followers sync.WaitGroup
		done := make(chan struct{})
		for w := range 4 {
			writers.Go(func() {
				s := nodes[w%2]
				for i := range 15 {
					k := sampleKey(fmt.Sprintf("k%d-%d", w, i))
					k.Team = []string{"blue", "red"}[i%2]
					if err := s.CreateKey(bg(), k); err != nil {
						t.Error(err)
					}
					if _, err := s.UpdateTenant(bg(), "default", k.Team, func(tm *Tenant) error { tm.Limit.Requests++; return nil }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		mirrors := []*mirror{{keys: map[string]access.Record{}}, {keys: map[string]access.Record{}}}
		for i, m := range mirrors {
			followers.Go(func() {
				for running := true; running; {
					select {
					case <-done:
						running = false
					default:
					}
					m.follow(t, nodes[i], 5+i*100)
				}
			})
		}
		writers.Wait()
		close(done)
		followers.Wait()
		for i, m := range mirrors {
			m.check(t, nodes[i])
		}
		if tm, err := nodes[0].Tenant(bg(), "default", "blue"); err != nil || tm.Limit.Requests != 4*8 {
			t.Errorf("an update was lost: %+v, %v", tm, err)
		}
	})
}

// TestChangesOfRestoredStore checks that a store is recognised that was emptied, or set back and changed
// since.
func TestChangesOfRestoredStore(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		ctx := t.Context()
		for _, id := range []string{"k1", "k2", "k3"} {
			no(t, s.CreateKey(ctx, sampleKey(id)))
		}
		at := func(since access.Cursor) access.Changes {
			t.Helper()
			c, err := s.Changes(ctx, since, 10)
			no(t, err)
			return c
		}
		before := at(access.Cursor{}).Next
		if c := at(before); c.Reset || len(c.Records) > 0 || c.Next != before {
			t.Errorf("without a change: %+v", c)
		}
		_, err := s.RevokeKey(ctx, "k3", time.Now())
		no(t, err)
		if c := at(before); c.Reset || len(c.Records) != 1 || c.More {
			t.Errorf("after a change: %+v", c)
		}
		now := at(before).Next
		// The last change is undone, as by a restore, and another one is made in its place.
		for _, query := range []string{`DELETE FROM marks WHERE revision = (SELECT revision FROM revision)`, `UPDATE keys SET revoked = 0, revision = 3 WHERE id = 'k3'`, `UPDATE revision SET revision = revision - 1`} {
			no(t, execute(ctx, s, query))
		}
		if c := at(now); !c.Reset || c.Next != before {
			t.Errorf("a lower revision: %+v", c)
		}
		if c := at(before); c.Reset {
			t.Errorf("a node that has not seen the lost change: %+v", c)
		}
		_, err = s.RevokeKey(ctx, "k1", time.Now())
		no(t, err)
		if c := at(now); !c.Reset || c.Next.Revision != now.Revision {
			t.Errorf("the same revision in another history: %+v", c)
		}
		_, err = s.RevokeKey(ctx, "k2", time.Now())
		no(t, err)
		if c := at(now); !c.Reset {
			t.Errorf("a higher revision in another history: %+v", c)
		}
		records, err := s.KeysByID(ctx, []string{"k1", "k3", "none"})
		if err != nil || len(records) != 2 {
			t.Errorf("%+v, %v", records, err)
		}
	})
}

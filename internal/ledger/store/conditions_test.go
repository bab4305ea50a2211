package store

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// claimAll claims all alerts of some receivers.
func claimAll(t *testing.T, s *Store, receivers ...string) (list []Alert) {
	t.Helper()
	for {
		a, found, err := s.ClaimAlert(t.Context(), receivers, time.Minute)
		no(t, err)
		if !found {
			return list
		}
		list = append(list, a)
	}
}

// TestConditionsAreRaisedOnce lets two nodes find the same conditions at the same time, and again while they last.
func TestConditionsAreRaisedOnce(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		rules := AlertRules{Receivers: map[string][]string{"target": {"a", "b"}}}
		nodes := []*Store{opened(t, url, Options{Migrate: true, Alerts: rules})}
		no(t, nodes[0].CreateTenant(t.Context(), Tenant{Org: "o", Name: "O"})) // the tables exist now
		nodes = append(nodes, opened(t, url, Options{Migrate: true, Alerts: rules}))
		var found []Condition
		for i := range maxConditions + 5 {
			found = append(found, Condition{Subject: fmt.Sprintf("openai/m%02d", i), Text: "0 of 34 requests succeeded"})
		}
		found = append(found, found[0]) // two models have the same target
		var wg sync.WaitGroup
		for n, s := range nodes {
			wg.Go(func() {
				for range 3 {
					no(t, s.RaiseConditions(t.Context(), "target.degraded", fmt.Sprint("node", n), found, time.Hour))
				}
			})
		}
		wg.Wait()
		got := claimAll(t, nodes[0], "a", "b", "c")
		if len(got) != 2 || got[0].Event != got[1].Event || got[0].ID == got[1].ID || got[0].Receiver == got[1].Receiver {
			t.Fatalf("%d alerts: %+v", len(got), got)
		}
		d := got[0].Detail
		if got[0].Type != "target.degraded" || !strings.HasPrefix(d.Node, "node") || len(d.Conditions) != maxConditions || d.More != 5 || d.Conditions[3] != found[3] {
			t.Errorf("%+v", got[0])
		}

		// One that lasts keeps its mark. One that has ended causes another alert when it is back.
		mark := func(subject string, age time.Duration) {
			no(t, execute(t.Context(), nodes[0], `UPDATE alert_marks SET until = until - $1 WHERE account = $2`, int64(age), "target.degraded:"+subject))
		}
		for range 3 {
			mark("openai/m01", 40*time.Minute)
			no(t, nodes[1].RaiseConditions(t.Context(), "target.degraded", "n", found[1:2], time.Hour))
		}
		if got := claimAll(t, nodes[0], "a", "b"); len(got) != 0 {
			t.Errorf("a condition that lasts: %+v", got)
		}
		mark("openai/m01", 2*time.Hour)
		no(t, nodes[1].RaiseConditions(t.Context(), "target.degraded", "n", found[:2], time.Hour))
		if got := claimAll(t, nodes[0], "a"); len(got) != 1 || len(got[0].Detail.Conditions) != 1 || got[0].Detail.Conditions[0] != found[1] {
			t.Errorf("a condition that is back: %+v", got)
		}
		no(t, nodes[1].RaiseConditions(t.Context(), "key.expires", "n", found, time.Hour)) // a topic without receivers
	})
}

// TestAdoptedAlerts renames a receiver that has alerts waiting, while another one has had them.
func TestAdoptedAlerts(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		before := opened(t, url, Options{Migrate: true, Alerts: AlertRules{Receivers: map[string][]string{"target": {"chat", "mail"}}}})
		no(t, before.CreateTenant(t.Context(), Tenant{Org: "o", Name: "O"}))
		no(t, before.RaiseConditions(t.Context(), "target.degraded", "n", []Condition{{"openai/m", "0 of 9"}}, time.Hour))
		mail := claimAll(t, before, "mail")
		no(t, before.EndAlert(t.Context(), mail[0], true))

		names := []string{"mail", "on-call"}
		after := opened(t, url, Options{Migrate: true, Alerts: AlertRules{Receivers: map[string][]string{"target": names}}})
		adopt := func(overdue time.Duration, want int) {
			t.Helper()
			if n, err := after.AdoptAlerts(t.Context(), names, overdue); err != nil || n != want {
				t.Fatalf("%d adopted, %v, want %d", n, err, want)
			}
		}
		adopt(time.Minute, 0) // a node with the old name may still be there
		time.Sleep(2 * time.Millisecond)
		adopt(time.Millisecond, 1)
		adopt(time.Millisecond, 0)
		got := claimAll(t, after, names...)
		if len(got) != 1 || got[0].Receiver != "on-call" || got[0].Event != mail[0].Event || !slices.Equal(got[0].Detail.Conditions, mail[0].Detail.Conditions) || !got[0].Created.Equal(mail[0].Created) {
			t.Errorf("%+v", got)
		}
		if got := claimAll(t, before, "chat"); len(got) != 0 {
			t.Errorf("the old name has %+v", got)
		}
	})
}

// TestExpiringKeys checks which keys are near their end.
func TestExpiringKeys(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		s := opened(t, url, Options{Migrate: true})
		no(t, s.CreateTenant(t.Context(), Tenant{Org: "o", Name: "O"}))
		const day, within = 24 * time.Hour, 14 * 24 * time.Hour
		now := time.Now()
		for id, life := range map[string][2]time.Duration{ // created ago, expires in
			"soon": {100 * day, 3 * day}, "sooner": {100 * day, day}, "later": {100 * day, 15 * day}, "over": {100 * day, -day}, "short": {day, 6 * day}, "revoked": {100 * day, day},
		} {
			no(t, s.CreateKey(t.Context(), access.Record{ID: id, Name: "name of " + id, Org: "o", Expires: now.Add(life[1]), Digests: []access.Digest{{Pepper: 1}}}))
			no(t, execute(t.Context(), s, `UPDATE keys SET created = $1 WHERE id = $2`, now.Add(-life[0]).UnixNano(), id))
		}
		no(t, s.CreateKey(t.Context(), access.Record{ID: "never", Org: "o", Digests: []access.Digest{{Pepper: 1}}}))
		no(t, execute(t.Context(), s, `UPDATE keys SET revoked = 1 WHERE id = 'revoked'`))
		list, err := s.ExpiringKeys(t.Context(), within, 10)
		no(t, err)
		var ids []string
		for _, k := range list {
			ids = append(ids, k.ID+" "+k.Name)
		}
		if want := []string{"sooner name of sooner", "soon name of soon"}; !slices.Equal(ids, want) {
			t.Errorf("%q, want %q", ids, want)
		}
		if list, err := s.ExpiringKeys(t.Context(), within, 1); err != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, err)
		}
	})
}

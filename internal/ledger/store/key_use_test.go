package store

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// TestKeyUses checks what keys have spent since a time, and the hour of their last request, which a refused one does
// not change.
func TestKeyUses(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		ctx := t.Context()
		for _, id := range []string{"k1", "k2", "k3"} {
			no(t, s.CreateKey(ctx, sampleKey(id)))
		}
		row := func(n int, key string, at time.Time, cost int64) usage.Row {
			return usage.Row{ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Key: key, Org: "default", Began: at, Outcome: usage.Answered, Status: 200, Cost: new(usage.Money(cost))}
		}
		late := noon.Add(-30 * time.Minute)
		_, err := s.Append(ctx, usage.Batch{Log: "l", To: 3, Rows: []usage.Row{row(1, "k1", noon.AddDate(0, 0, -40), 500), row(2, "k1", late, 7), row(3, "k2", noon.AddDate(0, 0, -50), 9)}})
		no(t, err)
		uses, err := s.KeyUses(ctx, []string{"k1", "k2", "k3", "unknown", "'"}, noon.AddDate(0, 0, -30))
		no(t, err)
		want := map[string]KeyUse{"k1": {Spent: 7, Last: late.Truncate(time.Hour)}, "k2": {Last: noon.AddDate(0, 0, -50).Truncate(time.Hour)}, "k3": {}}
		if len(uses) != len(want) {
			t.Errorf("%+v", uses)
		}
		for id, w := range want {
			if got := uses[id]; got.Spent != w.Spent || !got.Last.Equal(w.Last) {
				t.Errorf("%s: %+v, want %+v", id, got, w)
			}
		}
		if uses, err := s.KeyUses(ctx, nil, noon); err != nil || len(uses) != 0 {
			t.Errorf("%v, %v", uses, err)
		}
	})
}

// TestFindKeys finds keys by id and by name, and offers names only if there is none.
func TestFindKeys(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		ctx := t.Context()
		no(t, s.CreateTenant(ctx, Tenant{Org: "acme"}))
		for id, name := range map[string]string{"k1": "ci", "k2": "ci", "k3": "k1", "k4": "web"} {
			k := sampleKey(id)
			k.Name, k.Revoked = name, time.Time{}
			if id == "k4" {
				k.Org = "acme"
			}
			no(t, s.CreateKey(ctx, k))
		}
		_, err := s.RevokeKey(ctx, "k2", noon)
		no(t, err)
		for ask, want := range map[string]string{
			"k1": "[{k1 ci false}] []", "ci": "[{k1 ci false} {k2 ci true}] []", "web": "[{k4 web false}] []", "": "[] [ci ci k1 web]", "we": "[] [ci ci k1 web]", "\x00": "[] []", "'": "[] [ci ci k1 web]",
		} {
			found, others, err := s.FindKeys(ctx, KeyFilter{}, ask)
			if got := fmt.Sprint(found, others); err != nil || got != want {
				t.Errorf("%q: %s, %v; want %s", ask, got, err, want)
			}
		}
		if found, others, err := s.FindKeys(ctx, KeyFilter{Org: "acme"}, "ci"); err != nil || fmt.Sprint(found, others) != "[] [web]" {
			t.Error(found, others, err)
		}
		names, err := s.KeyNames(ctx, []string{"k1", "k4", "unknown"})
		if err != nil || fmt.Sprint(names) != "map[k1:ci k4:web]" {
			t.Error(names, err)
		}
	})
}

// TestKeyUseScale measures pages of a list of ISOGLOSS_KEYS_LARGE keys with their spend, and a filter by a name.
func TestKeyUseScale(t *testing.T) {
	total, _ := strconv.Atoi(os.Getenv("ISOGLOSS_KEYS_LARGE"))
	if total == 0 {
		t.Skip("set ISOGLOSS_KEYS_LARGE, such as 100000; it takes minutes")
	}
	each(t, func(t *testing.T, url string) {
		s := opened(t, url, Options{Migrate: true})
		ctx := t.Context()
		k := sampleKey("0")
		k.Name = "key 0"
		no(t, s.CreateKey(ctx, k))
		fillKeys(t, s, total)
		began, pages, after := time.Now(), 0, ""
		slow := time.Duration(0)
		for {
			page := time.Now()
			keys, err := s.Keys(ctx, KeyFilter{}, after, MaxPerPage)
			no(t, err)
			ids := make([]string, len(keys))
			for i := range keys {
				ids[i] = keys[i].ID
			}
			uses, err := s.KeyUses(ctx, ids, noon.AddDate(0, 0, -30))
			no(t, err)
			if len(uses) != len(ids) {
				t.Fatalf("%d uses of %d keys", len(uses), len(ids))
			}
			slow = max(slow, time.Since(page))
			pages++
			if len(keys) < MaxPerPage {
				break
			}
			after = keys[len(keys)-1].ID
		}
		t.Logf("%d pages in %v, the slowest in %v", pages, time.Since(began), slow)
		for _, ask := range []string{"key 777", "no such key"} {
			at := time.Now()
			_, _, err := s.FindKeys(ctx, KeyFilter{}, ask)
			no(t, err)
			t.Logf("a filter by %q takes %v", ask, time.Since(at))
		}
	})
}

// fillKeys copies the first key, and gives each a dozen hours of spend. The first thousand have spend in every hour of
// the month.
func fillKeys(t *testing.T, s *Store, total int) {
	t.Helper()
	const copied = `org, team, role, created, expires, revoked, models, endpoints, networks, criticality, pepper, digest, until, old_pepper, old_digest, old_until,
		limit_requests, limit_tokens, limit_concurrency, budget, budget_window, budgets`
	numbers := func(from, to int) string {
		return fmt.Sprintf(`WITH RECURSIVE g (n) AS (SELECT CAST(%d AS BIGINT) UNION ALL SELECT n + 1 FROM g WHERE n < %d)`, from, to)
	}
	hour := strconv.FormatInt(hourOf(noon), 10)
	var queries []string
	for from := 1; from < total; from += 5000 {
		of := numbers(from, min(from+5000, total)-1)
		queries = append(queries, of+` INSERT INTO keys (id, seq, revision, name, `+copied+`) SELECT 'k' || (1000000 + n), 1000 + n, 1000 + n, 'key ' || n, `+copied+` FROM keys CROSS JOIN g WHERE id = '0'`,
			of+`, h (m) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT m + 1 FROM h WHERE m < 11)
			INSERT INTO spent (account, hour, requests, unknown, cost) SELECT 'key:k' || (1000000 + n), `+hour+` - 60 * m - 1, 1, 0, 1000 FROM g CROSS JOIN h`)
	}
	for from := 1; from < min(1000, total); from += 100 {
		queries = append(queries, numbers(from, min(from+100, 1000)-1)+`, h (m) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT m + 1 FROM h WHERE m < 719)
			INSERT INTO spent (account, hour, requests, unknown, cost) SELECT 'key:k' || (1000000 + n), `+hour+` - m, 1, 0, 1000 FROM g CROSS JOIN h WHERE true ON CONFLICT (account, hour) DO NOTHING`)
	}
	for _, query := range queries {
		no(t, s.db.Write(t.Context(), func(ctx context.Context, c db.Conn) error { return c.Exec(ctx, query) }))
	}
}

// TestFindTenants finds organisations and teams by id and by name, and offers ids and names only if there is none.
func TestFindTenants(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		ctx := t.Context()
		for _, tenant := range []Tenant{
			{Org: "acme", Name: "Acme Ltd"}, {Org: "b", Name: "acme"}, {Org: "c", Name: "Same"}, {Org: "d", Name: "Same"},
			{Org: "acme", Team: "t1", Name: "Search"}, {Org: "acme", Team: "t2", Name: "t1"}, {Org: "b", Team: "t1", Name: "Other"},
		} {
			no(t, s.CreateTenant(ctx, tenant))
		}
		all := TenantFilter{}
		for _, c := range []struct {
			f         TenantFilter
			ask, want string
		}{
			{all, "acme", "[acme] []"}, {all, "Acme Ltd", "[acme] []"}, {all, "Same", "[c d] []"},
			{all, "x", "[] [acme Acme Ltd b acme c Same d Same default]"}, {all, "'", "[] [acme Acme Ltd b acme c Same d Same default]"},
			{all, "\x00", "[] []"}, {TenantFilter{Only: "b"}, "Acme Ltd", "[] [b acme]"}, {TenantFilter{Only: "b"}, "acme", "[b] []"},
			{TenantFilter{TeamsOf: "acme"}, "t1", "[t1] []"}, {TenantFilter{TeamsOf: "acme"}, "Search", "[t1] []"}, {TenantFilter{TeamsOf: "b"}, "Search", "[] [t1 Other]"},
			{TenantFilter{TeamsOf: "acme"}, "serch", "[] [t1 Search t2 t1]"}, {TenantFilter{TeamsOf: "\xff"}, "t1", "[] []"},
		} {
			found, others, err := s.FindTenants(ctx, c.f, c.ask)
			if got := fmt.Sprint(found, others); err != nil || got != c.want {
				t.Errorf("%+v %q: %s, %v; want %s", c.f, c.ask, got, err, c.want)
			}
		}
		ids := []TenantID{{Org: "acme"}, {Org: "acme", Team: "t1"}, {Org: "b", Team: "t1"}, {Org: "b", Team: "t2"}, {Org: "unknown", Team: "'"}}
		names, err := s.TenantNames(ctx, ids)
		got := ""
		for _, id := range ids {
			got += names[id] + ","
		}
		if err != nil || got != "Acme Ltd,Search,Other,,," {
			t.Errorf("%q, %v, %v", got, names, err)
		}
	})
}

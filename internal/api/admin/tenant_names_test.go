package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/isogloss-gateway/isogloss/internal/api/amounts"
	"github.com/isogloss-gateway/isogloss/internal/api/export"
	"github.com/isogloss-gateway/isogloss/internal/ledger/clickhouse"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// eachLedger runs a test with the ledger in SQLite, PostgreSQL and, if ISOGLOSS_CHDB is set, ClickHouse.
func eachLedger(t *testing.T, test func(t *testing.T, w *world)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newWorld(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, newWorldAt(t, storetest.Postgres(t).URL, testrig.Patience)) })
	t.Run("clickhouse", func(t *testing.T) {
		python := os.Getenv("ISOGLOSS_CHDB")
		if python == "" {
			t.Skip("ISOGLOSS_CHDB is not set; make clickhouse sets it")
		}
		cmd := exec.Command(python, "../../ledger/clickhouse/testdata/server.py", "0", t.TempDir()+"/data")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		port, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal("chdb does not start: ", err)
		}
		w := newWorld(t)
		d := clickhouse.New(clickhouse.Options{URL: "http://127.0.0.1:" + strings.TrimSpace(port)})
		t.Cleanup(d.Close)
		w.must(d.Create(t.Context()))
		rows, err := w.store.Rows(t.Context(), store.RowQuery{})
		w.must(err)
		events := make([]clickhouse.Row, len(rows))
		for i := range rows {
			events[i] = clickhouse.Row{Row: rows[i], Log: "l", Position: int64(i + 1)}
		}
		w.must(d.Insert(t.Context(), "rows", 0, events))
		w.options.Ledger = d
		test(t, w)
	})
}

// renamed gives the team of organisation a a name, and refuses a request of its key.
func renamed(w *world) {
	ctx := w.t.Context()
	_, err := w.store.UpdateTenant(ctx, "a", "t", func(t *store.Tenant) error { t.Name = "=Search"; return nil })
	w.must(err)
	refused, ok := w.options.Ledger.(interface {
		AppendRefusals(ctx context.Context, b usage.Refusals) error
	})
	if !ok {
		w.t.Fatal("the ledger has no refusals")
	}
	w.must(refused.AppendRefusals(ctx, usage.Refusals{Counts: []usage.RefusalCount{{Log: "r", Node: "n", Org: "a", Team: "t", Key: "ka", Reason: usage.RefusedLimit, Minute: time.Now().Add(-time.Minute), Count: 3}}}))
}

// TestTenantNames checks that lists, sums, refusals and files have the names of organisations and teams beside their ids.
func TestTenantNames(t *testing.T) {
	eachLedger(t, func(t *testing.T, w *world) {
		renamed(w)
		w.serve()
		owner := w.operator(access.Owner, "")
		r := read[amounts.RequestView](t, w.send(owner, "GET", "/api/v1/requests/"+requestOf("a"), ""), 200)
		if r.Org != "a" || r.OrgName != "Org a" || r.Team != "t" || r.TeamName != "=Search" {
			t.Errorf("%+v", r)
		}
		for group, want := range map[string]string{"org": "Org a,", "org,team": "Org a,=Search", "model": ","} {
			var got []string
			for _, s := range read[usageView](t, w.send(owner, "GET", "/api/v1/usage?org=a&group="+group, ""), 200).Sums {
				got = append(got, s.OrgName+","+s.TeamName)
			}
			if !slices.Contains(got, want) {
				t.Errorf("%s: %q, want %q", group, got, want)
			}
		}
		client := w.client("a")
		for _, k := range []keyView{read[keyList](t, w.send(owner, "GET", "/api/v1/keys?org=a", ""), 200).Keys[0], read[keyView](t, w.send(owner, "GET", "/api/v1/keys/"+client, ""), 200)} {
			if k.ID != client || k.OrgName != "Org a" || k.TeamName != "=Search" {
				t.Errorf("%+v", k)
			}
		}
		if l := read[refusalList](t, w.send(owner, "GET", "/api/v1/refusals?org=a", ""), 200).Refusals; len(l) != 1 || l[0].OrgName != "Org a" || l[0].TeamName != "=Search" || l[0].Count != 3 {
			t.Errorf("%+v", l)
		}
		for _, path := range []string{"requests?org=a&format=", "usage?org=a&group=org,team&format="} {
			g := w.send(owner, "GET", "/api/v1/"+path+"csv", "")
			records, err := csv.NewReader(strings.NewReader(g.body)).ReadAll()
			if err != nil || len(records) < 2 {
				t.Fatal(path, err, g.body)
			}
			org, team := slices.Index(records[0], "org_name"), slices.Index(records[0], "team_name")
			if org < 0 || team < 0 || records[1][org] != "Org a" || records[1][team] != "'=Search" {
				t.Errorf("%s: %s", path, g.body)
			}
		}
		g := w.send(owner, "GET", "/api/v1/requests?org=a&format=parquet", "")
		rows, err := parquet.Read[export.Request](bytes.NewReader([]byte(g.body)), int64(len(g.body)))
		if err != nil || len(rows) != 1 || rows[0].OrgName != "Org a" || rows[0].TeamName != "=Search" {
			t.Errorf("%+v, %v", rows, err)
		}
		g = w.send(owner, "GET", "/api/v1/usage?group=team&org=a&format=parquet", "")
		sums, err := parquet.Read[export.Sum](bytes.NewReader([]byte(g.body)), int64(len(g.body)))
		if err != nil || len(sums) != 1 || sums[0].TeamName != "=Search" {
			t.Errorf("%+v, %v", sums, err)
		}
	})
}

// TestFilterByTenantName checks that filters accept the names of organisations and teams, those that the operator may see.
func TestFilterByTenantName(t *testing.T) {
	eachLedger(t, func(t *testing.T, w *world) {
		renamed(w)
		w.serve()
		owner, bound := w.operator(access.Owner, ""), w.operator(access.Billing, "b")
		client := w.client("a")
		for _, filter := range []string{"org=a", "org=Org%20a", "org=a&team=t", "org=Org%20a&team=%3DSearch"} {
			if l := read[requestList](t, w.send(owner, "GET", "/api/v1/requests?outcome=answered&"+filter, ""), 200).Requests; len(l) != 1 || l[0].Org != "a" {
				t.Errorf("%s: %+v", filter, l)
			}
			if u := read[usageView](t, w.send(owner, "GET", "/api/v1/usage?"+filter, ""), 200); u.Total.Requests != 1 || u.Total.Refused != 3 {
				t.Errorf("%s: %+v", filter, u.Total)
			}
			if l := read[refusalList](t, w.send(owner, "GET", "/api/v1/refusals?"+filter, ""), 200).Refusals; len(l) != 1 {
				t.Errorf("%s: %+v", filter, l)
			}
			if l := read[keyList](t, w.send(owner, "GET", "/api/v1/keys?"+filter, ""), 200).Keys; len(l) != 1 || l[0].ID != client {
				t.Errorf("%s: %+v", filter, l)
			}
			if g := w.send(owner, "GET", "/api/v1/requests?format=csv&outcome=answered&"+filter, ""); strings.Count(g.body, "\n") != 2 {
				t.Errorf("%s: %s", filter, g.body)
			}
		}
		for filter, want := range map[string]string{
			"org=Org%20aa": `did you mean \"Org a\"`, "org=a&team=%3DSerch": `no team has this id or name; did you mean \"=Search\"?`, "team=t": "send org",
		} {
			for _, list := range []string{"requests", "usage", "refusals", "keys"} {
				if g := w.send(owner, "GET", "/api/v1/"+list+"?"+filter, ""); g.status != http.StatusUnprocessableEntity || !strings.Contains(g.body, want) {
					t.Errorf("%s?%s: %d %s", list, filter, g.status, g.body)
				}
			}
		}
		// The ledger may have organisations that the store does not.
		read[usageView](t, w.send(owner, "GET", "/api/v1/usage?org=unknown&team=none", ""), 200)
		if u := read[usageView](t, w.send(bound, "GET", "/api/v1/usage?org=Org%20b", ""), 200); u.Total.Requests != 1 {
			t.Errorf("%+v", u.Total)
		}
		for _, org := range []string{"a", "Org%20a", "Org%20", "zzz"} { // not a word about another organisation
			if g := w.send(bound, "GET", "/api/v1/usage?org="+org, ""); g.status < 400 || strings.Contains(g.body, "Org a") {
				t.Errorf("%s: %d %s", org, g.status, g.body)
			}
		}
		for _, odd := range []string{"%00", "%FF", "'", "%25", "🙂"} {
			for _, filter := range []string{"org=" + odd, "org=a&team=" + odd} {
				if g := w.send(owner, "GET", "/api/v1/requests?"+filter, ""); g.status >= 500 {
					t.Errorf("%s: %d %s", filter, g.status, g.body)
				}
			}
		}
		w.must(w.store.CreateTenant(t.Context(), store.Tenant{Org: "c", Name: "Org a"}))
		if g := w.send(owner, "GET", "/api/v1/usage?org=Org%20a", ""); g.status != http.StatusUnprocessableEntity || !strings.Contains(g.body, `2 organisations have this name; send the id of one, such as \"a\" or \"c\"`) {
			t.Errorf("%d %s", g.status, g.body)
		}
	})
}

// unnamed is a store of organisations and teams that has no names now.
type unnamed struct{ Tenants }

func (unnamed) TenantNames(context.Context, []store.TenantID) (map[store.TenantID]string, error) {
	return nil, errors.New("the store is down")
}

// TestWithoutTenantNames checks that the ledger is read while the names are not available, and that the log says so.
func TestWithoutTenantNames(t *testing.T) {
	w := newWorld(t)
	w.options.Tenants = unnamed{w.options.Tenants}
	w.serve()
	list := read[requestList](t, w.send(w.operator(access.Owner, ""), "GET", "/api/v1/requests", ""), 200).Requests
	if len(list) != 2 || list[0].OrgName != "" || !strings.Contains(fmt.Sprint(w.log), "names of organisations and teams not available") {
		t.Errorf("%+v\n%v", list, w.log)
	}
}

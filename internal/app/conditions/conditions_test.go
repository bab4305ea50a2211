package conditions

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/edge/certs"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
	"github.com/isogloss-gateway/isogloss/internal/targets/health"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
)

// texts returns conditions as lines.
func texts(found []store.Condition) (lines []string) {
	for _, c := range found {
		lines = append(lines, c.Subject+": "+c.Text)
	}
	return lines
}

func checkTexts(t *testing.T, found []store.Condition, want ...string) {
	t.Helper()
	if got := texts(found); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestDegradedTargets checks which states of targets are worth an alert.
func TestDegradedTargets(t *testing.T) {
	var all []fleet.TargetStatus
	for _, s := range []fleet.TargetState{
		{State: fleet.Ready}, {State: fleet.Failing}, {State: fleet.Saturated}, {State: health.CoolingDown},
		{State: fleet.Degraded, Recent: 34, LastError: "upstream_auth"}, {State: health.Refused}, {State: health.Ejected},
	} {
		all = append(all, fleet.TargetStatus{Target: "a/" + strings.ReplaceAll(s.State, " ", "-"), Address: "h", Live: s})
	}
	checkTexts(t, degradedTargets(all), "a/degraded at h: degraded: 0 of 34 requests of the last 15 minutes succeeded; the last error was upstream_auth",
		"a/credential-refused at h: credential refused", "a/ejected at h: ejected")
}

// TestExpiringCertificates checks what is said of a certificate before and after its end.
func TestExpiringCertificates(t *testing.T) {
	end := time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)
	list := []certs.Expiry{{Name: "tls ECDSA", Fingerprint: "0123", NotAfter: end}}
	checkTexts(t, expiringCertificates(list, end.Add(-time.Hour)), "the certificate 0123 of tls ECDSA: expires on 2026-12-01")
	checkTexts(t, expiringCertificates(list, end.Add(time.Hour)), "the certificate 0123 of tls ECDSA: has expired on 2026-12-01")
}

// TestLags checks which states of the stores are worth an alert.
func TestLags(t *testing.T) {
	well := observe.Stores{Ledger: &observe.LedgerState{Rows: 10, Oldest: time.Minute}, Keys: observe.KeysState{Age: 3 * time.Second}}
	checkTexts(t, lags(well))
	checkTexts(t, lags(observe.Stores{Keys: observe.KeysState{Age: time.Hour}})) // there is no store
	checkTexts(t, lags(observe.Stores{Ledger: &observe.LedgerState{Rows: 10, Oldest: 6 * time.Minute}, Keys: observe.KeysState{Age: 2 * time.Minute}, Quota: observe.QuotaState{Lost: true, Evicts: true}}),
		"the ledger: 10 requests are not in it yet, the oldest for 6m0s; see whether its database is slow or down",
		"the store of keys: changes of keys have not been seen for 2m0s; see whether its database is slow or down",
		"Redis: it does not respond; each node enforces its share of the limits",
		"the policy of Redis: it may evict counters, so each node enforces its share of the limits; set maxmemory-policy to noeviction")
}

// TestEndingModels has a model of the configuration and one that only requests named, and keys that expire.
func TestEndingModels(t *testing.T) {
	db, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "isogloss.db"), store.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := Sources{Store: db, Requests: db}
	now := time.Now()
	if err := db.CreateTenant(t.Context(), store.Tenant{Org: "o", Name: "O"}); err != nil {
		t.Fatal(err)
	}
	if err := db.CreateKey(t.Context(), access.Record{ID: "k", Name: "ci", Org: "o", Expires: now.Add(20 * 24 * time.Hour), Digests: []access.Digest{{Pepper: 1}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Append(t.Context(), usage.Batch{Log: "l", To: 1, Rows: []usage.Row{{ID: "1", Key: "k", Org: "o", Began: now, Model: "openai/o3"}}}); err != nil {
		t.Fatal(err)
	}
	p := &provider.Provider{Name: "openai", Preset: "openai"}
	view := models.View{Routes: route.New([]*route.Route{
		{Name: "fast", Targets: []route.Target{{Provider: p, Model: "gpt-5-mini-2025-08-07"}}}, {Name: "new", Targets: []route.Target{{Provider: p, Model: "gpt-6-luna"}}},
		{Name: "openai/*", Targets: []route.Target{{Provider: p, Model: "*"}}},
	})}
	end := time.Date(2026, 12, 11, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		at   time.Time
		want []string
	}{
		{end.AddDate(0, 0, -31), nil},
		{end.AddDate(0, 0, 31), nil},
		{end.AddDate(0, 0, -29), []string{"fast: its vendor ends it on 2026-12-11"}},
		{end.AddDate(0, 0, 2), []string{"fast: its vendor has ended it on 2026-12-11"}},
	} {
		want := c.want
		if d := c.at.Sub(now); len(want) > 0 && d > -time.Hour && d < 7*24*time.Hour { // the request was in the seven days before
			want = append(want, strings.Replace(want[0], "fast", "openai/o3", 1))
		}
		found, err := s.endingModels(t.Context(), view, c.at)
		if err != nil {
			t.Fatal(err)
		}
		checkTexts(t, found, want...)
	}
	used, err := s.endingModels(t.Context(), models.View{Routes: route.New([]*route.Route{{Name: "openai/*", Targets: []route.Target{{Provider: p, Model: "*"}}}})}, now)
	if err != nil {
		t.Fatal(err)
	}
	if near := end.Sub(now).Abs() < modelSoon; near != (len(used) == 1) {
		t.Errorf("%v", used)
	}
	keys, err := s.expiringKeys(t.Context())
	if err != nil || len(keys) != 0 {
		t.Errorf("%v, %v", keys, err)
	}
}

package app

import (
	"reflect"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/ledger/retention"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/people/identity"
)

// TestRetention checks that the job follows the configuration in use, with the budgets of identity rules.
func TestRetention(t *testing.T) {
	c := &current{cfg: &config.Config{Retention: retention.Policy{Requests: 90 * 24 * time.Hour}}}
	if got := c.retention(); !reflect.DeepEqual(got, retention.Policy{Requests: 90 * 24 * time.Hour}) {
		t.Errorf("%+v", got)
	}
	var limit quota.Limit
	if err := limit.SetBudgets([]budget.Budget{{Amount: 1, Window: time.Hour}, {Amount: 2, Window: 30 * 24 * time.Hour}}); err != nil {
		t.Fatal(err)
	}
	c.cfg = &config.Config{ // a reload
		Retention: retention.Policy{Requests: 24 * time.Hour, Hours: 48 * time.Hour},
		Identity:  []identity.Issuer{{Rules: []identity.Rule{{Grant: identity.Grant{Limit: limit}}}}},
	}
	want := retention.Policy{Requests: 24 * time.Hour, Hours: 48 * time.Hour, Windows: []time.Duration{time.Hour, 30 * 24 * time.Hour}}
	if got := c.retention(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// Package conditions finds the states of a gateway that alerts are about: of its targets, stores, certificates, keys and
// models.
package conditions

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/edge/certs"
	"github.com/isogloss-gateway/isogloss/internal/ledger/alerts"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
	"github.com/isogloss-gateway/isogloss/internal/targets/health"
)

// When an alert reminds of an end, and when it reports a store.
const (
	expirySoon = 14 * 24 * time.Hour
	modelSoon  = 30 * 24 * time.Hour
	behind     = 5 * time.Minute
	staleKeys  = time.Minute

	maxExpiring = 1000
)

// Sources are where states are looked up.
type Sources struct {
	Store        *store.Store
	Requests     Requests
	Targets      func() []fleet.TargetStatus
	Stores       func() observe.Stores
	Certificates func(before time.Time) []certs.Expiry
	Models       func() models.View
}

// Requests sums the requests of the ledger.
type Requests interface {
	Usage(ctx context.Context, q store.UsageQuery) ([]store.Sum, error)
}

// Finders returns what finds each type of state.
func Finders(s Sources) []alerts.Finder {
	return []alerts.Finder{
		{Kind: alerts.TargetDegraded, Find: func(context.Context) ([]store.Condition, error) { return degradedTargets(s.Targets()), nil }},
		{Kind: alerts.StoreLags, Find: func(context.Context) ([]store.Condition, error) { return lags(s.Stores()), nil }},
		{Kind: alerts.CertificateExpires, Find: func(context.Context) ([]store.Condition, error) {
			now := time.Now()
			return expiringCertificates(s.Certificates(now.Add(expirySoon)), now), nil
		}},
		{Kind: alerts.KeyExpires, Find: s.expiringKeys},
		{Kind: alerts.ModelEnds, Find: func(ctx context.Context) ([]store.Condition, error) {
			return s.endingModels(ctx, s.Models(), time.Now())
		}},
	}
}

// degradedTargets returns the targets that fail, or that a vendor refuses. A target that cools down works again by itself.
func degradedTargets(all []fleet.TargetStatus) (found []store.Condition) {
	for _, t := range all {
		var text string
		switch t.Live.State {
		case fleet.Degraded:
			text = fmt.Sprintf("degraded: %d of %d requests of the last 15 minutes succeeded", t.Live.RecentGood, t.Live.Recent)
		case health.Ejected, health.CheckFailed, health.NotAllowed, health.NoModel, health.Refused:
			text = t.Live.State
		default:
			continue
		}
		if t.Live.LastError != "" {
			text += "; the last error was " + t.Live.LastError
		}
		found = append(found, store.Condition{Subject: t.Target + " at " + t.Address, Text: text})
	}
	return found
}

// lags returns the stores that the node waits for. A subject is the same on all nodes.
func lags(now observe.Stores) (found []store.Condition) {
	if l := now.Ledger; l != nil && l.Rows > 0 && l.Oldest >= behind {
		found = append(found, store.Condition{Subject: "the ledger", Text: fmt.Sprintf("%d requests are not in it yet, the oldest for %s; see whether its database is slow or down", l.Rows, l.Oldest.Round(time.Second))})
	}
	if age := now.Keys.Age; now.Ledger != nil && age >= staleKeys {
		found = append(found, store.Condition{Subject: "the store of keys", Text: fmt.Sprintf("changes of keys have not been seen for %s; see whether its database is slow or down", age.Round(time.Second))})
	}
	if now.Quota.Lost {
		found = append(found, store.Condition{Subject: "Redis", Text: "it does not respond; each node enforces its share of the limits"})
	}
	if now.Quota.Evicts {
		found = append(found, store.Condition{Subject: "the policy of Redis", Text: "it may evict counters, so each node enforces its share of the limits; set maxmemory-policy to noeviction"})
	}
	return found
}

// expiringCertificates returns the certificates of the ports, each under its fingerprint.
func expiringCertificates(list []certs.Expiry, now time.Time) (found []store.Condition) {
	for _, e := range list {
		text := "expires on "
		if e.NotAfter.Before(now) {
			text = "has expired on "
		}
		found = append(found, store.Condition{Subject: "the certificate " + e.Fingerprint + " of " + e.Name, Text: text + e.NotAfter.UTC().Format(time.DateOnly)})
	}
	return found
}

func (s Sources) expiringKeys(ctx context.Context) (found []store.Condition, err error) {
	keys, err := s.Store.ExpiringKeys(ctx, expirySoon, maxExpiring)
	for _, k := range keys {
		of := k.Org
		if k.Team != "" {
			of += "/" + k.Team
		}
		found = append(found, store.Condition{Subject: "key " + k.ID, Text: fmt.Sprintf("%s of %s expires on %s", k.Name, of, k.Expires.UTC().Format(time.DateOnly))})
	}
	return found, err
}

// endingModels returns the models of the configuration, and those of the last week's requests, that their vendor ends.
func (s Sources) endingModels(ctx context.Context, view models.View, now time.Time) (found []store.Condition, err error) {
	names := map[string]bool{}
	for _, r := range view.Routes.Routes() {
		names[r.Name] = !r.Pattern()
	}
	used, err := s.Requests.Usage(ctx, store.UsageQuery{GroupBy: []store.Group{store.ByModel}, From: now.Add(-7 * 24 * time.Hour), To: now})
	if err != nil {
		return nil, err
	}
	for _, u := range used {
		names[u.Model] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		m, known := view.Find(name)
		if !known || !names[name] || m.Shutdown.IsZero() || m.Shutdown.Sub(now) > modelSoon || now.Sub(m.Shutdown) > modelSoon {
			continue
		}
		text := "its vendor ends it on "
		if m.Shutdown.Before(now) {
			text = "its vendor has ended it on "
		}
		found = append(found, store.Condition{Subject: name, Text: text + m.Shutdown.Format(time.DateOnly)})
	}
	return found, nil
}

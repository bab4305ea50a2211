package alerts

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

// The types of alerts about conditions. Each begins with its topic.
const (
	TargetDegraded     = "target.degraded"
	StoreLags          = "store.lags"
	CertificateExpires = "certificate.expires"
	KeyExpires         = "key.expires"
	ModelEnds          = "model.ends"
)

const (
	look     = 30 * time.Second // between two looks at what changes by the minute
	lasting  = time.Hour        // without the condition, after which it is a new one
	lookDays = time.Hour        // between two looks at dates
	restDays = 48 * time.Hour

	// maxFound is how many conditions of a type are looked at.
	maxFound = 1000
)

// Conditions stores conditions, so that one node sends the alert.
type Conditions interface {
	RaiseConditions(ctx context.Context, kind, node string, found []store.Condition, hold time.Duration) error
}

// Finder finds the conditions of a type.
type Finder struct {
	Kind string
	Find func(ctx context.Context) ([]store.Condition, error)
}

// Watch raises alerts about the conditions that finders find.
type Watch struct {
	Store   Conditions
	Sender  *Sender
	Node    string
	Finders []Finder

	found  map[string]map[string]bool // by type, the subjects of the last look
	told   map[string]time.Time       // conditions of stores that this node has sent itself, while no store took them
	looked map[string]time.Time
}

// Run looks for conditions until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			w.look(ctx, now)
		case <-ctx.Done():
			return
		}
	}
}

// look calls the finders that are due.
func (w *Watch) look(ctx context.Context, now time.Time) {
	if w.found == nil {
		w.found, w.told, w.looked = map[string]map[string]bool{}, map[string]time.Time{}, map[string]time.Time{}
	}
	for _, f := range w.Finders {
		days := f.Kind != TargetDegraded && f.Kind != StoreLags
		if days && !w.looked[f.Kind].IsZero() && now.Sub(w.looked[f.Kind]) < lookDays {
			continue
		}
		found, err := f.Find(ctx)
		if err != nil { // the store does not respond; the next look is soon
			continue
		}
		w.looked[f.Kind] = now
		found = found[:min(len(found), maxFound)]
		hold := restDays
		if !days {
			found, hold = w.seenTwice(f.Kind, found), lasting
		}
		if len(found) == 0 {
			continue
		}
		if err := w.Store.RaiseConditions(ctx, f.Kind, w.Node, found, hold); err != nil && ctx.Err() == nil {
			w.sendNow(ctx, f.Kind, found, now)
		}
	}
}

// seenTwice returns the conditions that the last look found too: a state of some seconds is not worth an alert.
func (w *Watch) seenTwice(kind string, found []store.Condition) (again []store.Condition) {
	before, now := w.found[kind], map[string]bool{}
	for _, c := range found {
		now[c.Subject] = true
		if before[c.Subject] {
			again = append(again, c)
		}
	}
	w.found[kind] = now
	return again
}

// sendNow sends conditions of stores that no store takes, each once while it lasts. Every node that sees them does so.
func (w *Watch) sendNow(ctx context.Context, kind string, found []store.Condition, now time.Time) {
	if kind != StoreLags || w.Sender == nil {
		return
	}
	var fresh []store.Condition
	for _, c := range found {
		if until, told := w.told[c.Subject]; !told || now.After(until) {
			fresh = append(fresh, c)
		} else {
			w.told[c.Subject] = now.Add(lasting)
		}
	}
	if len(fresh) == 0 || !w.Sender.SendNow(ctx, store.Alert{ID: "msg_" + rand.Text(), Type: kind, Created: now, Detail: store.AlertDetail{Node: w.Node, Conditions: fresh}}) {
		return
	}
	for _, c := range fresh { // there are a few stores
		w.told[c.Subject] = now.Add(lasting)
	}
}

package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

// Outcomes in the audit log. An entry's detail starts with one; a problem code may follow.
const (
	allowed = "allowed" // the change was about to be made
	failed  = "failed"  // the change was allowed and failed
	denied  = "denied"
)

// change describes a change of an object.
type change struct {
	object        string // such as key:ID, like an account
	org           string // organisation of the object; empty: none
	before, after any    // nil: none
	// withoutAudit makes the change even if the audit log cannot be written: a reload may bring the
	// store back. The gateway's log has the entry then.
	withoutAudit bool
}

// change writes an audit entry and then makes the change, so that no change is missing in the log.
// If the change fails, a second entry says so.
func (s *server) change(ctx context.Context, c *call, ch change, do func(context.Context) error) error {
	e := s.entry(c, allowed)
	e.Object, e.Org = ch.object, ch.org
	var err error
	if e.Before, err = digest(ch.before); err != nil {
		return err
	}
	if e.After, err = digest(ch.after); err != nil {
		return err
	}
	switch err := s.Audit.Audit(ctx, e); {
	case err != nil && ch.withoutAudit:
		s.logLostEntry(ctx, e, err)
	case err != nil:
		return unavailable(auditLogName, err)
	}
	if err := do(ctx); err != nil {
		e.Detail = failed + ": " + asProblem(err).Code
		s.writeAudit(ctx, e)
		return err
	}
	return nil
}

// deny writes a denial to the audit log and returns the problem. The number of denials per minute
// is bounded.
func (s *server) deny(r *http.Request, c *call, p *openapi.Problem) *openapi.Problem {
	if p.Status == http.StatusServiceUnavailable {
		return p
	}
	fits, missed := s.denials.take()
	if missed > 0 {
		s.Logger.WarnContext(r.Context(), "denials missing in the audit log", "missing", missed)
	}
	if fits {
		e := s.entry(c, denied+": "+p.Code)
		e.Object, e.Org = plain.Short(r.URL.Path, 200), boundTo(c.operator)
		s.writeAudit(r.Context(), e)
	}
	return p
}

// auditTimeout bounds how long a denied request waits for the audit log.
const auditTimeout = time.Second

// writeAudit writes an entry, also if the client has disconnected. A failure is only logged.
func (s *server) writeAudit(ctx context.Context, e store.Entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	if err := s.Audit.Audit(ctx, e); err != nil {
		s.logLostEntry(ctx, e, err)
	}
}

// logLostEntry logs an entry that could not be written to the audit log.
func (s *server) logLostEntry(ctx context.Context, e store.Entry, err error) {
	s.Logger.WarnContext(ctx, "audit entry lost", "action", e.Action, "object", e.Object, "operator", e.Actor, "address", e.Address, "outcome", e.Detail, "error", err)
}

func (s *server) entry(c *call, outcome string) store.Entry {
	return store.Entry{At: s.Now(), Actor: c.operator.ID, Address: c.address, Action: c.route, Detail: outcome}
}

// digest returns the SHA-256 of a value as JSON with sorted members, or "" for nil. With
// it, an auditor who has the value can check the entry.
func digest(v any) (string, error) {
	if v == nil {
		return "", nil
	}
	text, err := json.Marshal(v, json.Deterministic(true), json.WithMarshalers(json.MarshalToFunc(marshalDuration)))
	if err != nil {
		return "", err
	}
	value := jsontext.Value(text)
	if err := value.Format(jsontext.ReorderRawObjects(true)); err != nil {
		return "", errors.New("the object cannot be canonicalized")
	}
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:]), nil
}

// marshalDuration writes a duration as nanoseconds.
func marshalDuration(e *jsontext.Encoder, d time.Duration) error {
	return e.WriteToken(jsontext.Int(int64(d)))
}

// denialLog limits how many denials are written to the audit log per minute.
type denialLog struct {
	now func() time.Time

	mu    sync.Mutex
	since time.Time
	used  int
}

const denialsPerMinute = 30

// take reports whether one more denial may be written. At the start of a minute, missed is the
// number that was not written in the last one.
func (b *denialLog) take() (fits bool, missed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.now(); now.Sub(b.since) >= time.Minute {
		missed = max(0, b.used-denialsPerMinute)
		b.since, b.used = now, 0
	}
	b.used++
	return b.used <= denialsPerMinute, missed
}

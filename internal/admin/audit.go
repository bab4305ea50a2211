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

	"github.com/isogloss-gateway/isogloss/internal/store"
)

// The outcomes in the audit log. They begin an entry's detail; the code of a problem
// may follow.
const (
	allowed = "allowed" // it was about to be done, and nothing says that it was not
	failed  = "failed"  // it was allowed and could not be done
	denied  = "denied"
)

// change is what is done to an object.
type change struct {
	object        string // such as key:ID, as accounts are named
	org           string // that it belongs to; empty: none
	before, after any    // nil where there is none
	// anyway says that it is done also where the log cannot be written: it may be what
	// brings the store back. The gateway's own log has it then.
	anyway bool
}

// change writes to the audit log what is about to be done and does it. The entry comes
// first, so that nothing is ever done that is not in the log; should it fail then, a
// second entry says so.
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
	case err != nil && ch.anyway:
		s.lost(ctx, e, err)
	case err != nil:
		return unavailable(auditLog, err)
	}
	if err := do(ctx); err != nil {
		e.Detail = failed + ": " + asProblem(err).Code
		s.note(ctx, e)
		return err
	}
	return nil
}

// deny writes to the log that somebody was not let in, and returns the answer. Whoever
// knocks often fills neither the log nor the store.
func (s *server) deny(r *http.Request, c *call, p *Problem) *Problem {
	if p.Status == http.StatusServiceUnavailable {
		return p
	}
	fits, missed := s.denials.take()
	if missed > 0 {
		s.Logger.WarnContext(r.Context(), "denied requests are not all in the audit log", "missing", missed)
	}
	if fits {
		e := s.entry(c, denied+": "+p.Code)
		e.Object, e.Org = r.URL.Path, held(c.operator)
		s.note(r.Context(), e)
	}
	return p
}

// notePatience is short: who is denied something should not find out that it makes
// the gateway wait.
const notePatience = time.Second

// note writes an entry that nothing hangs on, also when the client is gone.
func (s *server) note(ctx context.Context, e store.Entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notePatience)
	defer cancel()
	if err := s.Audit.Audit(ctx, e); err != nil {
		s.lost(ctx, e, err)
	}
}

// lost puts an entry into the gateway's log that the audit log does not take.
func (s *server) lost(ctx context.Context, e store.Entry, err error) {
	s.Logger.WarnContext(ctx, "audit entry lost", "action", e.Action, "object", e.Object, "operator", e.Actor, "address", e.Address, "outcome", e.Detail, "error", err)
}

func (s *server) entry(c *call, outcome string) store.Entry {
	return store.Entry{At: s.Now(), Actor: c.operator.ID, Address: c.address, Action: c.route, Detail: outcome}
}

// digest is the SHA-256 of a value as JSON with its members in order; empty for nil.
// It shows that something changed and what it was, to whoever has the value.
func digest(v any) (string, error) {
	if v == nil {
		return "", nil
	}
	text, err := json.Marshal(v, json.Deterministic(true), json.WithMarshalers(json.MarshalToFunc(nanoseconds)))
	if err != nil {
		return "", err
	}
	value := jsontext.Value(text)
	if err := value.Format(jsontext.ReorderRawObjects(true)); err != nil {
		return "", errors.New("the object cannot be written in order")
	}
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:]), nil
}

// nanoseconds writes durations, for which JSON has no form of its own.
func nanoseconds(e *jsontext.Encoder, d time.Duration) error {
	return e.WriteToken(jsontext.Int(int64(d)))
}

// budget is how many denials are written: some of each minute.
type budget struct {
	now func() time.Time

	mu    sync.Mutex
	since time.Time
	used  int
}

const denialsPerMinute = 30

// take reports whether one more fits, and after a minute how many did not.
func (b *budget) take() (fits bool, missed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.now(); now.Sub(b.since) >= time.Minute {
		missed = max(0, b.used-denialsPerMinute)
		b.since, b.used = now, 0
	}
	b.used++
	return b.used <= denialsPerMinute, missed
}

package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
)

// SignIn is a sign-in of a person: a device code that waits for approval, or a session of a
// browser. The tokens are sealed with a key that the store does not have.
type SignIn struct {
	ID      string // digest of the device code, or of the session's secret
	Owner   string // key or account of a session; empty for others
	Code    string // digest of the user code; empty for a session
	Status  SignInStatus
	Seal    []byte // public key with which tokens are sealed
	Tokens  []byte // sealed
	Polled  time.Time
	Expires time.Time
}

// SignInStatus is the state of a sign-in.
type SignInStatus string

// The states of a sign-in.
const (
	SignInPending  SignInStatus = "pending"
	SignInApproved SignInStatus = "approved"
	SignInDenied   SignInStatus = "denied"
	SignInSession  SignInStatus = "session"
	tokenRevoked   SignInStatus = "revoked"
)

// maxPending is the number of device codes that may wait for approval. Another one takes the place of the
// one that was asked for least recently.
const maxPending = 10_000

// ErrNoSignIn is the error of a sign-in that does not wait.
var ErrNoSignIn = Error("there is no such sign-in, or it has expired")

// MaxSessions is the number of sessions that a key or an account has at once. Another one ends the oldest.
const MaxSessions = 20

const signInColumns = `id, code, status, seal, tokens, polled, expires, owner`

func scanSignIn(row db.Scan) (s SignIn, err error) {
	var polled, expires int64
	err = row(&s.ID, &s.Code, &s.Status, &s.Seal, &s.Tokens, &polled, &expires, &s.Owner)
	s.Polled, s.Expires = fromNanos(polled), fromNanos(expires)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNoSignIn
	}
	return s, err
}

// AddSignIn adds a sign-in and removes those that have expired. A flood of device codes does not keep others from
// signing in: if too many wait, it removes the code that was asked for least recently.
func (s *Store) AddSignIn(ctx context.Context, n SignIn, now time.Time) error {
	if n.Code == "" {
		n.Code = n.ID
	}
	return s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		if err := c.Exec(ctx, `DELETE FROM sign_ins WHERE expires < $1`, nanos(now)); err != nil {
			return err
		}
		if n.Status == SignInPending {
			var waiting int
			if err := c.Row(ctx, `SELECT count(*) FROM sign_ins WHERE status = $1`, string(SignInPending))(&waiting); err != nil {
				return err
			}
			if waiting >= maxPending { // a device that waits asks every few seconds
				if err := c.Exec(ctx, `DELETE FROM sign_ins WHERE id IN (SELECT id FROM sign_ins WHERE status = $1 ORDER BY polled, expires LIMIT $2)`, string(SignInPending), waiting-maxPending+1); err != nil {
					return err
				}
			}
		}
		if n.Owner != "" {
			if err := c.Exec(ctx, `DELETE FROM sign_ins WHERE owner = $1 AND id NOT IN (SELECT id FROM sign_ins WHERE owner = $1 ORDER BY expires DESC, id LIMIT $2)`, n.Owner, MaxSessions-1); err != nil {
				return err
			}
		}
		args := []any{n.ID, n.Code, string(n.Status), orEmpty(n.Seal), orEmpty(n.Tokens), nanos(n.Polled), nanos(n.Expires), n.Owner}
		return c.Exec(ctx, `INSERT INTO sign_ins (`+signInColumns+`) VALUES `+db.Placeholders(1, len(args)), args...)
	})
}

// orEmpty returns b, or an empty slice for nil, which the database would store as NULL.
func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Session returns a session that has not expired.
func (s *Store) Session(ctx context.Context, id string, now time.Time) (SignIn, error) {
	return s.signIn(ctx, `id = $1 AND status = $2`, id, SignInSession, now)
}

// PendingSignIn returns the sign-in that waits under a user code.
func (s *Store) PendingSignIn(ctx context.Context, code string, now time.Time) (SignIn, error) {
	return s.signIn(ctx, `code = $1 AND status = $2`, code, SignInPending, now)
}

func (s *Store) signIn(ctx context.Context, where, key string, status SignInStatus, now time.Time) (n SignIn, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		n, err = scanSignIn(c.Row(ctx, `SELECT `+signInColumns+` FROM sign_ins WHERE `+where+` AND expires >= $3`, key, string(status), nanos(now)))
		return err
	})
	return n, err
}

// FinishSignIn approves or denies a sign-in that waits. It fails if none does.
func (s *Store) FinishSignIn(ctx context.Context, code string, status SignInStatus, tokens []byte, now time.Time) error {
	return s.changeSignIn(ctx, `UPDATE sign_ins SET status = $1, tokens = $2 WHERE code = $3 AND status = $4 AND expires >= $5 RETURNING id`,
		string(status), orEmpty(tokens), code, string(SignInPending), nanos(now))
}

// RenewSession replaces the tokens of a session.
func (s *Store) RenewSession(ctx context.Context, id string, tokens []byte) error {
	return s.changeSignIn(ctx, `UPDATE sign_ins SET tokens = $1 WHERE id = $2 AND status = $3 RETURNING id`, tokens, id, string(SignInSession))
}

// EndSession removes a session.
func (s *Store) EndSession(ctx context.Context, id string) error {
	return s.changeSignIn(ctx, `DELETE FROM sign_ins WHERE id = $1 AND status = $2 RETURNING id`, id, string(SignInSession))
}

// maxRevoked is the number of revoked tokens that are kept until they expire.
const maxRevoked = 100_000

// RevokeToken records until when a token, known by its digest, must be refused. It reports whether that
// is new.
func (s *Store) RevokeToken(ctx context.Context, digest string, expires, now time.Time) (added bool, err error) {
	err = s.AddSignIn(ctx, SignIn{ID: digest, Status: tokenRevoked, Expires: expires}, now)
	if s.db.Is(err, db.Duplicate) {
		return false, nil
	}
	return err == nil, err
}

// RevokedTokens returns the digests of the tokens that must be refused.
func (s *Store) RevokedTokens(ctx context.Context, now time.Time) (digests []string, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		digests = nil
		return c.Rows(ctx, func(row db.Scan) error {
			var d string
			err := row(&d)
			digests = append(digests, d)
			return err
		}, `SELECT id FROM sign_ins WHERE status = $1 AND expires >= $2 ORDER BY expires DESC LIMIT $3`, string(tokenRevoked), nanos(now), maxRevoked)
	})
	return digests, err
}

// changeSignIn runs a statement that returns the id of the sign-in that it changes.
func (s *Store) changeSignIn(ctx context.Context, query string, args ...any) error {
	return s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		var id string
		err := c.Row(ctx, query, args...)(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNoSignIn
		}
		return err
	})
}

// TakeSignIn returns a sign-in for its device. A sign-in that is approved or denied is removed, so
// that its device code works once. One that waits has the time of the previous call in Polled. An
// unknown id costs a read only, because anybody can send one.
func (s *Store) TakeSignIn(ctx context.Context, id string, now time.Time) (n SignIn, err error) {
	var known int
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		return c.Row(ctx, `SELECT count(*) FROM sign_ins WHERE id = $1`, id)(&known)
	})
	if err == nil && known == 0 {
		err = ErrNoSignIn
	}
	if err != nil {
		return n, err
	}
	err = s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		n, err = scanSignIn(c.Row(ctx, `DELETE FROM sign_ins WHERE id = $1 AND status IN ($2, $3) RETURNING `+signInColumns, id, string(SignInApproved), string(SignInDenied)))
		if !errors.Is(err, ErrNoSignIn) {
			return err
		}
		n, err = scanSignIn(c.Row(ctx, `SELECT `+signInColumns+` FROM sign_ins WHERE id = $1 AND status = $2`, id, string(SignInPending)))
		if err != nil {
			return err
		}
		return c.Exec(ctx, `UPDATE sign_ins SET polled = $1 WHERE id = $2`, nanos(now), id)
	})
	if err == nil && n.Expires.Before(now) {
		err = ErrNoSignIn
	}
	return n, err
}

package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/isogloss-gateway/isogloss/internal/access"
)

// Key returns the key with an id, or access.ErrUnknown.
func (s *Store) Key(ctx context.Context, id string) (r access.Record, err error) {
	if !storable(id) {
		return r, access.ErrUnknown
	}
	err = s.look(ctx, func(ctx context.Context, c conn) error {
		r, err = readKey(ctx, c, id)
		return err
	})
	return r, err
}

func readKey(ctx context.Context, c conn, id string) (access.Record, error) {
	r, err := scanRecord(c.row(ctx, `SELECT `+recordColumns+` FROM `+recordTables+` WHERE k.id = $1`, id).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return r, access.ErrUnknown
	}
	return r, err
}

// KeyFilter says which keys are wanted. Empty fields want all.
type KeyFilter struct {
	Org  string
	Team string // of Org
	Who  Who
}

// Who is whose keys are wanted.
type Who int

// Whose keys they are.
const (
	Everybody Who = iota
	Clients       // keys without a role
	Operators     // keys with one
)

// MostPerPage is the most that Keys, Orgs, Teams, Rows and AuditLog return at once.
const MostPerPage = 1000

// Keys lists keys in the order of their ids, after one of them.
func (s *Store) Keys(ctx context.Context, f KeyFilter, after string, limit int) (keys []access.Record, err error) {
	var w where
	w.add("k.id > ", after)
	w.addIf(f.Org != "", "k.org = ", f.Org)
	w.addIf(f.Team != "", "k.team = ", f.Team)
	w.addIf(f.Who == Clients, "k.role = ", "")
	w.addIf(f.Who == Operators, "k.role <> ", "")
	query := `SELECT ` + recordColumns + ` FROM ` + recordTables + w.text() + ` ORDER BY k.id LIMIT ` + w.arg(most(limit))
	err = s.look(ctx, func(ctx context.Context, c conn) error {
		keys = nil
		return c.rows(ctx, func(row scan) error {
			r, err := scanRecord(row)
			keys = append(keys, r)
			return err
		}, query, w.args...)
	})
	return keys, err
}

func most(limit int) int64 {
	if limit <= 0 || limit > MostPerPage {
		return MostPerPage
	}
	return int64(limit)
}

// CreateKey adds a key. Its revision, and what its team and organisation may, are
// not taken from the record.
func (s *Store) CreateKey(ctx context.Context, r access.Record) error {
	if err := checkID("key", r.ID); err != nil {
		return err
	}
	if n := len(r.Digests); n < 1 || n > 2 {
		return &Error{"a key has one digest, or two while it is rotated"}
	}
	fields, err := keyArgs(r)
	if err != nil {
		return err
	}
	return s.change(ctx, func(ctx context.Context, c conn) error {
		if err := belongs(ctx, c, r.Org, r.Team); err != nil {
			return err
		}
		var revision, keys int64
		if err := c.row(ctx, `UPDATE revision SET revision = revision + 1, keys = keys + 1 WHERE one = 1 RETURNING revision, keys`).Scan(&revision, &keys); err != nil {
			return err
		}
		args := append([]any{r.ID, keys, revision, r.Org, string(r.Role), nanos(r.Created), nanos(r.Revoked)}, fields...)
		args = append(args, digestArgs(r.Digests)...)
		err := c.exec(ctx, `INSERT INTO keys (id, seq, revision, org, role, created, revoked,
			name, team, expires, models, endpoints, networks, criticality, limit_requests, limit_tokens, limit_concurrency, budget, budget_window,
			pepper, digest, until, old_pepper, old_digest, old_until) VALUES `+marks(1, len(args)), args...)
		if err != nil && s.kind.is(err, duplicate) {
			return ErrExists
		}
		return err
	})
}

// mostScope is the most bytes of a key's lists. Every node holds them in memory.
const mostScope = 64 << 10

// keyArgs are the columns that an operator may change, in the order of UpdateKey.
func keyArgs(r access.Record) ([]any, error) {
	models, err := toJSON(r.Models)
	if err != nil {
		return nil, &Error{"models: " + err.Error()}
	}
	endpoints, err := toJSON(r.Endpoints)
	if err != nil {
		return nil, &Error{"endpoints: " + err.Error()}
	}
	networks, err := toJSON(r.Networks)
	if err != nil {
		return nil, &Error{"networks: " + err.Error()}
	}
	if len(models)+len(endpoints)+len(networks) > mostScope {
		return nil, &Error{"the lists of models, endpoints and networks have more than 64 KiB; use patterns that end in *"}
	}
	var team any
	if r.Team != "" {
		team = r.Team
	}
	if err := checkLimit(r.Limit); err != nil {
		return nil, err
	}
	args := []any{cut(r.Name), team, nanos(r.Expires), models, endpoints, networks, cut(r.Criticality)}
	return append(args, limitArgs(r.Limit)...), nil
}

// UpdateKey lets edit change a key's name, team, expiry, models, endpoints, networks,
// criticality and limit; what else it changes is not kept. Changes of others wait for
// its end. It may be called again when another transaction was in the way.
func (s *Store) UpdateKey(ctx context.Context, id string, edit func(*access.Record) error) (r access.Record, err error) {
	return s.editKey(ctx, id, func(ctx context.Context, c conn, r access.Record, revision int64) error {
		org := r.Org // which edit cannot change
		if err := edit(&r); err != nil {
			return err
		}
		fields, err := keyArgs(r)
		if err != nil {
			return err
		}
		if err := belongs(ctx, c, org, r.Team); err != nil {
			return err
		}
		return c.exec(ctx, `UPDATE keys SET revision = $2, name = $3, team = $4, expires = $5, models = $6, endpoints = $7, networks = $8, criticality = $9,
			limit_requests = $10, limit_tokens = $11, limit_concurrency = $12, budget = $13, budget_window = $14 WHERE id = $1`,
			append([]any{id, revision}, fields...)...)
	})
}

// RevokeKey ends a key. The first time stays where it is revoked again.
func (s *Store) RevokeKey(ctx context.Context, id string, at time.Time) (access.Record, error) {
	return s.editKey(ctx, id, func(ctx context.Context, c conn, _ access.Record, revision int64) error {
		return c.exec(ctx, `UPDATE keys SET revision = $2, revoked = CASE WHEN revoked = 0 THEN $3 ELSE revoked END WHERE id = $1`, id, revision, nanos(at))
	})
}

// RotateKey gives a key a new secret. The one that it had goes on until a time, and
// the one before that ends now.
func (s *Store) RotateKey(ctx context.Context, id string, next access.Digest, oldUntil time.Time) (access.Record, error) {
	return s.editKey(ctx, id, func(ctx context.Context, c conn, r access.Record, revision int64) error {
		if !r.Revoked.IsZero() {
			return ErrRevoked
		}
		digests := []access.Digest{next}
		if len(r.Digests) > 0 {
			old := r.Digests[0]
			if old.Until.IsZero() || oldUntil.Before(old.Until) {
				old.Until = oldUntil
			}
			digests = append(digests, old)
		}
		return c.exec(ctx, `UPDATE keys SET revision = $2, pepper = $3, digest = $4, until = $5, old_pepper = $6, old_digest = $7, old_until = $8 WHERE id = $1`,
			append([]any{id, revision}, digestArgs(digests)...)...)
	})
}

// editKey changes a key under the next revision, and returns what it became. The
// revision is taken first: it is the lock that puts all changes in a row.
func (s *Store) editKey(ctx context.Context, id string, edit func(context.Context, conn, access.Record, int64) error) (r access.Record, err error) {
	if !storable(id) {
		return r, access.ErrUnknown
	}
	err = s.change(ctx, func(ctx context.Context, c conn) error {
		var revision int64
		if err := c.row(ctx, `UPDATE revision SET revision = revision + 1 WHERE one = 1 RETURNING revision`).Scan(&revision); err != nil {
			return err
		}
		old, err := readKey(ctx, c, id)
		if err != nil {
			return err
		}
		if err := edit(ctx, c, old, revision); err != nil {
			return err
		}
		r, err = readKey(ctx, c, id)
		return err
	})
	return r, err
}

// belongs checks that an organisation and a team of it exist. They are never removed.
func belongs(ctx context.Context, c conn, org, team string) error {
	var one int
	if err := c.row(ctx, `SELECT 1 FROM orgs WHERE id = $1`, org).Scan(&one); err != nil {
		return noRow(err, ErrNoOrg)
	}
	if team == "" {
		return nil
	}
	return noRow(c.row(ctx, `SELECT 1 FROM teams WHERE org = $1 AND id = $2`, org, team).Scan(&one), ErrNoTeam)
}

func noRow(err, instead error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return instead
	}
	return err
}

// longest is the most bytes of an id or a name.
const longest = 256

// checkID refuses ids that could be taken for another: accounts are written ORG/TEAM.
func checkID(what, id string) error {
	if id == "" || len(id) > longest/2 || !storable(id) || strings.ContainsFunc(id, func(r rune) bool { return r == '/' || unicode.IsControl(r) }) {
		return &Error{what + ": an id has 1 to 128 bytes, and no slash or control character"}
	}
	return nil
}

// storable reports whether a database takes a text as it is.
func storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

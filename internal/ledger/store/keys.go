package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/bounds"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// Key returns the key with an id, or access.ErrUnknown.
func (s *Store) Key(ctx context.Context, id string) (r access.Record, err error) {
	if !db.Storable(id) {
		return r, access.ErrUnknown
	}
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		r, err = readKey(ctx, c, id)
		return err
	})
	return r, err
}

func readKey(ctx context.Context, c db.Conn, id string) (access.Record, error) {
	r, err := scanRecord(c, c.Row(ctx, `SELECT `+recordColumns+` FROM `+recordTables+` WHERE k.id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return r, access.ErrUnknown
	}
	return r, err
}

// KeyFilter selects keys. An empty field selects all.
type KeyFilter struct {
	Org   string
	Team  string // of Org
	Name  string
	Owner string // account of a person, whose own keys are selected
	Who   Who
}

// where returns the conditions of the filter.
func (f *KeyFilter) where() (w db.Where) {
	w.AddIf(f.Org != "", "k.org = ", f.Org)
	w.AddIf(f.Team != "", "k.team = ", f.Team)
	w.AddIf(f.Name != "", "k.name = ", f.Name)
	w.AddIf(f.Owner != "", "k.owner = ", f.Owner)
	w.AddIf(f.Who == Clients, "k.role = ", "")
	w.AddIf(f.Who == Operators, "k.role <> ", "")
	return w
}

// Who selects the keys of clients, operators or both.
type Who int

// The values of Who.
const (
	Everybody Who = iota
	Clients       // keys without a role
	Operators     // keys with one
)

// MaxPerPage is the maximum number of results of Keys, Orgs, Teams, Rows and AuditLog.
const MaxPerPage = 1000

// Keys returns keys ordered by id, starting after the given id.
func (s *Store) Keys(ctx context.Context, f KeyFilter, after string, limit int) (keys []access.Record, err error) {
	w := f.where()
	w.Add("k.id > ", after)
	query := `SELECT ` + recordColumns + ` FROM ` + recordTables + w.Text() + ` ORDER BY k.id LIMIT ` + w.Arg(clampLimit(limit))
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		keys = nil
		return c.Rows(ctx, func(row db.Scan) error {
			r, err := scanRecord(c, row)
			keys = append(keys, r)
			return err
		}, query, w.Args...)
	})
	return keys, err
}

func clampLimit(limit int) int64 {
	if limit <= 0 || limit > MaxPerPage {
		return MaxPerPage
	}
	return int64(limit)
}

// CreateKey adds a key. It ignores the record's revision and the limits of team and organisation.
func (s *Store) CreateKey(ctx context.Context, r access.Record) error {
	return s.createKey(ctx, r, func(context.Context, db.Conn) error { return nil })
}

// ErrTooManyKeys is the error of a person who has as many keys as the rule allows.
var ErrTooManyKeys = Error("you have as many keys as you may; revoke one first")

// CreateOwnKey adds a key of a person, who may have a number of keys that are neither revoked nor expired. Keys that are
// created at once are counted one after the other.
func (s *Store) CreateOwnKey(ctx context.Context, r access.Record, most int) error {
	return s.createKey(ctx, r, func(ctx context.Context, c db.Conn) error {
		var valid int
		err := c.Row(ctx, `SELECT count(*) FROM keys WHERE owner = $1 AND owner <> '' AND revoked = 0 AND (expires = 0 OR expires > $2)`, r.Owner, nanos(r.Created))(&valid)
		if err == nil && valid >= most {
			err = ErrTooManyKeys
		}
		return err
	})
}

// createKey adds a key if check allows it. Taking the revision before it locks out other keys.
func (s *Store) createKey(ctx context.Context, r access.Record, check func(context.Context, db.Conn) error) error {
	if err := checkID("key", r.ID); err != nil {
		return err
	}
	if r.Org == "" && r.Role == "" { // only operators' keys may have none
		return ErrNoOrg
	}
	if n := len(r.Digests); n < 1 || n > 2 {
		return Error("a key has one digest, or two while it is rotated")
	}
	fields, err := keyArgs(r)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		if err := checkOrgAndTeam(ctx, c, r.Org, r.Team); err != nil {
			return err
		}
		revision, keys, err := nextRevision(ctx, c, 1)
		if err != nil {
			return err
		}
		if err := check(ctx, c); err != nil {
			return err
		}
		args := append([]any{r.ID, keys, revision, r.Org, string(r.Role), nanos(r.Created), nanos(r.Revoked)}, fields...)
		args = append(args, digestArgs(r.Digests)...)
		err = c.Exec(ctx, `INSERT INTO keys (id, seq, revision, org, role, created, revoked,
			name, team, expires, models, endpoints, networks, criticality, limit_requests, limit_tokens, limit_concurrency, budget, budget_window, budgets,
			pepper, digest, until, old_pepper, old_digest, old_until) VALUES `+db.Placeholders(1, len(args)), args...)
		if err != nil && s.db.Is(err, db.Duplicate) {
			return ErrExists
		}
		if err == nil && r.Owner != "" {
			err = c.Exec(ctx, `UPDATE keys SET owner = $2 WHERE id = $1`, r.ID, r.Owner)
		}
		if err != nil {
			return err
		}
		return saveSCIM(ctx, c, r)
	})
}

// maxScopeBytes is the maximum size of a key's lists. Every node holds them in memory.
const maxScopeBytes = 64 << 10

// keyArgs returns the columns that an operator may change, in the order of UpdateKey.
func keyArgs(r access.Record) ([]any, error) {
	models, err := toJSON(r.Models)
	if err != nil {
		return nil, Error("models: " + err.Error())
	}
	endpoints, err := toJSON(r.Endpoints)
	if err != nil {
		return nil, Error("endpoints: " + err.Error())
	}
	networks, err := toJSON(r.Networks)
	if err != nil {
		return nil, Error("networks: " + err.Error())
	}
	if len(models)+len(endpoints)+len(networks) > maxScopeBytes {
		return nil, Error("the lists of models, endpoints and networks have more than 64 KiB; use patterns that end in *")
	}
	var team any
	if r.Team != "" {
		team = r.Team
	}
	if err := checkLimit(r.Limit); err != nil {
		return nil, err
	}
	args := []any{bounds.Text(r.Name), team, nanos(r.Expires), models, endpoints, networks, bounds.Text(r.Criticality)}
	return append(args, limitArgs(r.Limit)...), nil
}

// UpdateKey lets edit change a key's name, team, expiry, models, endpoints, networks, criticality
// and limit; other changes are ignored. Concurrent changes wait. edit may be called again after a
// conflict with another transaction.
func (s *Store) UpdateKey(ctx context.Context, id string, edit func(*access.Record) error) (r access.Record, err error) {
	return s.editKey(ctx, id, func(ctx context.Context, c db.Conn, r access.Record, revision int64) error {
		org := r.Org // which edit cannot change
		if err := edit(&r); err != nil {
			return err
		}
		fields, err := keyArgs(r)
		if err != nil {
			return err
		}
		if err := checkOrgAndTeam(ctx, c, org, r.Team); err != nil {
			return err
		}
		err = c.Exec(ctx, `UPDATE keys SET revision = $2, name = $3, team = $4, expires = $5, models = $6, endpoints = $7, networks = $8, criticality = $9,
			limit_requests = $10, limit_tokens = $11, limit_concurrency = $12, budget = $13, budget_window = $14, budgets = $15 WHERE id = $1`,
			append([]any{id, revision}, fields...)...)
		if err != nil {
			return err
		}
		r.ID, r.Org = id, org
		return saveSCIM(ctx, c, r)
	})
}

// RevokeKey revokes a key. Revoking it again keeps the first time.
func (s *Store) RevokeKey(ctx context.Context, id string, at time.Time) (access.Record, error) {
	return s.editKey(ctx, id, func(ctx context.Context, c db.Conn, _ access.Record, revision int64) error {
		return c.Exec(ctx, `UPDATE keys SET revision = $2, revoked = CASE WHEN revoked = 0 THEN $3 ELSE revoked END WHERE id = $1`, id, revision, nanos(at))
	})
}

// RotateKey gives a key a new secret. The current secret stays valid until oldUntil; an older one
// ends now.
func (s *Store) RotateKey(ctx context.Context, id string, next access.Digest, oldUntil time.Time) (access.Record, error) {
	return s.editKey(ctx, id, func(ctx context.Context, c db.Conn, r access.Record, revision int64) error {
		if !r.Revoked.IsZero() {
			return ErrRevoked
		}
		if access.IsPerson(id) {
			return Error("a person has no secret to rotate; tokens come from the identity provider")
		}
		digests := []access.Digest{next}
		if len(r.Digests) > 0 {
			old := r.Digests[0]
			if old.Until.IsZero() || oldUntil.Before(old.Until) {
				old.Until = oldUntil
			}
			digests = append(digests, old)
		}
		return c.Exec(ctx, `UPDATE keys SET revision = $2, pepper = $3, digest = $4, until = $5, old_pepper = $6, old_digest = $7, old_until = $8 WHERE id = $1`,
			append([]any{id, revision}, digestArgs(digests)...)...)
	})
}

// editKey changes a key under the next revision and returns the result. Taking the revision locks
// out concurrent changes.
func (s *Store) editKey(ctx context.Context, id string, edit func(context.Context, db.Conn, access.Record, int64) error) (r access.Record, err error) {
	if !db.Storable(id) {
		return r, access.ErrUnknown
	}
	err = s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		revision, _, err := nextRevision(ctx, c, 0)
		if err != nil {
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

// checkOrgAndTeam checks that an organisation and its team exist. They are never deleted.
func checkOrgAndTeam(ctx context.Context, c db.Conn, org, team string) error {
	var one int
	if err := c.Row(ctx, `SELECT 1 FROM orgs WHERE id = $1`, org)(&one); err != nil {
		return noRow(err, ErrNoOrg)
	}
	if team == "" {
		return nil
	}
	return noRow(c.Row(ctx, `SELECT 1 FROM teams WHERE org = $1 AND id = $2`, org, team)(&one), ErrNoTeam)
}

func noRow(err, instead error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return instead
	}
	return err
}

// checkID rejects ambiguous ids: accounts are written ORG/TEAM.
func checkID(what, id string) error {
	if id == "" || len(id) > bounds.MaxText/2 || !db.Storable(id) || strings.ContainsFunc(id, func(r rune) bool { return r == '/' || unicode.IsControl(r) }) {
		return Error(what + ": an id has 1 to 128 bytes, and no slash or control character")
	}
	return nil
}

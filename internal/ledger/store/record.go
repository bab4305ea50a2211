package store

import (
	"crypto/sha256"
	"errors"
	"net/netip"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/bounds"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// recordColumns and recordTables select a key with the limits of its team and organisation. They
// read no more of a value than the gateway would have written.
const (
	recordColumns = `substr(k.id, 1, 256), substr(k.name, 1, 256), substr(k.org, 1, 256), COALESCE(substr(k.team, 1, 256), ''), substr(k.role, 1, 256), k.created, k.expires, k.revoked,
	substr(k.models, 1, 65537), substr(k.endpoints, 1, 65537), substr(k.networks, 1, 65537), substr(k.criticality, 1, 256),
	k.pepper, substr(k.digest, 1, 33), k.until, k.old_pepper, substr(k.old_digest, 1, 33), k.old_until,
	k.limit_requests, k.limit_tokens, k.limit_concurrency, k.budget, k.budget_window, substr(k.budgets, 1, 256),
	COALESCE(t.limit_requests, 0), COALESCE(t.limit_tokens, 0), COALESCE(t.limit_concurrency, 0), COALESCE(t.budget, 0), COALESCE(t.budget_window, 0), COALESCE(substr(t.budgets, 1, 256), ''),
	o.limit_requests, o.limit_tokens, o.limit_concurrency, o.budget, o.budget_window, substr(o.budgets, 1, 256),
	COALESCE(t.blocked, FALSE), o.blocked,
	substr(k.scim_name, 1, 256), k.scim_required, k.removed, substr(k.owner, 1, 256),
	k.revision, COALESCE(t.top, 0), o.top`
	recordJoins  = ` JOIN orgs o ON o.id = k.org LEFT JOIN teams t ON t.org = k.org AND t.id = k.team `
	recordTables = `keys k` + recordJoins
)

// keyColumns is a key as stored in columns.
type keyColumns struct {
	record                     access.Record
	created, expires, revoked  int64
	removed                    int64
	models, endpoints, network string
	digests                    [2]digest
	revision, team, org        int64 // of the last change of the key, its team and its organisation
}

// digest is empty if sum is nil.
type digest struct {
	pepper int
	sum    []byte
	until  int64
}

func limitDest(l *quota.Limit) []any {
	return []any{&l.Requests, &l.Tokens, &l.Concurrency, &l.Budget, &l.Window, &l.More}
}

func limitArgs(l quota.Limit) []any {
	return []any{l.Requests, l.Tokens, l.Concurrency, int64(l.Budget), int64(l.Window), string(l.More)}
}

// scanRecord reads a key. One with values that the gateway does not write is blocked: it must not
// keep the others from being read.
func scanRecord(c db.Conn, row db.Scan, more ...any) (access.Record, error) {
	var s keyColumns
	r := &s.record
	dest := []any{&r.ID, &r.Name, &r.Org, &r.Team, &r.Role, &s.created, &s.expires, &s.revoked,
		&s.models, &s.endpoints, &s.network, &r.Criticality}
	for i := range s.digests {
		dest = append(dest, &s.digests[i].pepper, &s.digests[i].sum, &s.digests[i].until)
	}
	dest = append(dest, limitDest(&r.Limit)...)
	dest = append(dest, limitDest(&r.TeamLimit)...)
	dest = append(dest, limitDest(&r.OrgLimit)...)
	dest = append(dest, &r.TeamBlocked, &r.OrgBlocked, &r.SCIMName, &r.SCIMRequired, &s.removed, &r.Owner, &s.revision, &s.team, &s.org)
	if err := row(append(dest, more...)...); err != nil {
		return access.Record{}, err
	}
	if err := s.finish(); err != nil {
		c.Log.Warn("a key in the store is invalid and is blocked", "key", bounds.Text(r.ID), "error", err)
		r.Invalid, r.Models, r.Endpoints, r.Networks, r.Limit, r.TeamLimit, r.OrgLimit = true, nil, nil, nil, quota.Limit{}, quota.Limit{}, quota.Limit{}
	}
	return *r, nil
}

func (s *keyColumns) finish() (err error) {
	r := &s.record
	r.Created, r.Expires, r.Revoked = fromNanos(s.created), fromNanos(s.expires), fromNanos(s.revoked)
	r.Removed = fromNanos(s.removed)
	r.Revision = max(s.revision, s.team, s.org)
	for _, d := range s.digests {
		if len(d.sum) == sha256.Size {
			r.Digests = append(r.Digests, access.Digest{Pepper: d.pepper, Sum: [sha256.Size]byte(d.sum), Until: fromNanos(d.until)})
		}
	}
	if len(s.models)+len(s.endpoints)+len(s.network) > maxScopeBytes {
		return errors.New("its lists have more than 64 KiB")
	}
	if r.Models, err = fromJSON[string](s.models); err != nil {
		return errors.New("its models are not a list of names") // the parser's error would quote them
	}
	if r.Endpoints, err = fromJSON[string](s.endpoints); err != nil {
		return errors.New("its endpoints are not a list of names")
	}
	if r.Networks, err = fromJSON[netip.Prefix](s.network); err != nil {
		return errors.New("its networks are not a list of networks")
	}
	return errors.Join(checkLimit(r.Limit), checkLimit(r.TeamLimit), checkLimit(r.OrgLimit))
}

// digestArgs returns the columns of up to two digests, newest first.
func digestArgs(digests []access.Digest) []any {
	args := []any{int64(0), nil, int64(0), int64(0), nil, int64(0)}
	for i, d := range digests[:min(2, len(digests))] {
		args[3*i], args[3*i+1], args[3*i+2] = int64(d.Pepper), d.Sum[:], nanos(d.Until)
	}
	return args
}

func nanos(t time.Time) int64 { return db.Nanos(t) }

func fromNanos(n int64) time.Time { return db.FromNanos(n) }

func toJSON[T any](list []T) (string, error) {
	if len(list) == 0 {
		return "[]", nil
	}
	b, err := json.Marshal(list)
	return string(b), err
}

// fromJSON returns nil for an empty list.
func fromJSON[T any](text string) (list []T, err error) {
	if text == "[]" {
		return nil, nil
	}
	err = json.Unmarshal([]byte(text), &list)
	return list, err
}

package store

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/quota"
)

// recordColumns and recordTables are a key with what its team and its organisation
// may.
const (
	recordColumns = `k.id, k.name, k.org, COALESCE(k.team, ''), k.role, k.created, k.expires, k.revoked,
	k.models, k.endpoints, k.networks, k.criticality,
	k.pepper, k.digest, k.until, k.old_pepper, k.old_digest, k.old_until,
	k.limit_requests, k.limit_tokens, k.limit_concurrency, k.budget, k.budget_window,
	COALESCE(t.limit_requests, 0), COALESCE(t.limit_tokens, 0), COALESCE(t.limit_concurrency, 0), COALESCE(t.budget, 0), COALESCE(t.budget_window, 0),
	o.limit_requests, o.limit_tokens, o.limit_concurrency, o.budget, o.budget_window,
	COALESCE(t.blocked, FALSE), o.blocked,
	k.seq, k.revision, COALESCE(t.base, 0), COALESCE(t.top, 0), o.base, o.top`
	recordJoins  = ` JOIN orgs o ON o.id = k.org LEFT JOIN teams t ON t.org = k.org AND t.id = k.team `
	recordTables = `keys k` + recordJoins
)

// stored is a record as its columns have it.
type stored struct {
	record                     access.Record
	created, expires, revoked  int64
	models, endpoints, network string
	digests                    [2]digest
	teamBlocked, orgBlocked    bool
	seq, revision              int64
	team, org                  span
}

// digest is nil where there is none.
type digest struct {
	pepper int
	sum    []byte
	until  int64
}

// span is the revisions that a change of a team or an organisation took: one for
// each key that there was, whether or not it is one of theirs.
type span struct{ base, top int64 }

// of is the revision that a key got by the change; 0 for a key that was made later.
func (s span) of(seq int64) int64 {
	if s.base+seq > s.top {
		return 0
	}
	return s.base + seq
}

func limitDest(l *quota.Limit) []any {
	return []any{&l.Requests, &l.Tokens, &l.Concurrency, &l.Budget, &l.Window}
}

func limitArgs(l quota.Limit) []any {
	return []any{l.Requests, l.Tokens, l.Concurrency, int64(l.Budget), int64(l.Window)}
}

func scanRecord(row scan, more ...any) (access.Record, error) {
	var s stored
	r := &s.record
	dest := []any{&r.ID, &r.Name, &r.Org, &r.Team, &r.Role, &s.created, &s.expires, &s.revoked,
		&s.models, &s.endpoints, &s.network, &r.Criticality}
	for i := range s.digests {
		dest = append(dest, &s.digests[i].pepper, &s.digests[i].sum, &s.digests[i].until)
	}
	dest = append(dest, limitDest(&r.Limit)...)
	dest = append(dest, limitDest(&r.TeamLimit)...)
	dest = append(dest, limitDest(&r.OrgLimit)...)
	dest = append(dest, &s.teamBlocked, &s.orgBlocked, &s.seq, &s.revision, &s.team.base, &s.team.top, &s.org.base, &s.org.top)
	if err := row(append(dest, more...)...); err != nil {
		return access.Record{}, err
	}
	return s.finish()
}

func (s *stored) finish() (access.Record, error) {
	r := &s.record
	r.Created, r.Expires, r.Revoked = fromNanos(s.created), fromNanos(s.expires), fromNanos(s.revoked)
	r.Blocked = s.teamBlocked || s.orgBlocked
	r.Revision = max(s.revision, s.team.of(s.seq), s.org.of(s.seq))
	for _, d := range s.digests {
		if len(d.sum) == sha256.Size {
			r.Digests = append(r.Digests, access.Digest{Pepper: d.pepper, Sum: [sha256.Size]byte(d.sum), Until: fromNanos(d.until)})
		}
	}
	var err error
	if r.Models, err = fromJSON[string](s.models); err != nil {
		return *r, fmt.Errorf("key %s: models: %w", r.ID, err)
	}
	if r.Endpoints, err = fromJSON[string](s.endpoints); err != nil {
		return *r, fmt.Errorf("key %s: endpoints: %w", r.ID, err)
	}
	if r.Networks, err = fromJSON[netip.Prefix](s.network); err != nil {
		return *r, fmt.Errorf("key %s: networks: %w", r.ID, err)
	}
	return *r, nil
}

// digestArgs are the columns of up to two digests, the newest first.
func digestArgs(digests []access.Digest) []any {
	args := []any{int64(0), nil, int64(0), int64(0), nil, int64(0)}
	for i, d := range digests[:min(2, len(digests))] {
		args[3*i], args[3*i+1], args[3*i+2] = int64(d.Pepper), d.Sum[:], nanos(d.Until)
	}
	return args
}

// nanos is a time as it is stored. Times that 64 bits cannot hold are cut.
func nanos(t time.Time) int64 {
	switch {
	case t.IsZero() || t.Year() < 1970:
		return 0
	case t.Year() > 2200:
		return time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

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

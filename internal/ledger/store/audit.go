package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/bounds"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
)

// Entry is an entry of the audit log.
type Entry struct {
	N       int64 // from 1 without gaps; set by the store
	At      time.Time
	Actor   string // id of the operator's key
	Org     string // of the changed object; empty: none
	Address string // of the operator
	Action  string
	Object  string
	Before  string // digests of the object
	After   string
	Detail  string // at most 4 KiB, without secrets
	Hash    [sha256.Size]byte
}

const maxDetail = 4096

// hash returns the digest of the entry and the previous entry's hash. Each field is preceded by its
// length, so that different entries never have the same bytes.
func (e *Entry) hash(before []byte) [sha256.Size]byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(len(before)))
	b = append(b, before...)
	b = binary.BigEndian.AppendUint64(b, uint64(e.N))
	b = binary.BigEndian.AppendUint64(b, uint64(nanos(e.At)))
	for _, text := range []string{e.Actor, e.Org, e.Address, e.Action, e.Object, e.Before, e.After, e.Detail} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
		b = append(b, text...)
	}
	return sha256.Sum256(b)
}

// Audit appends an entry, with texts of one line that terminals can show. Appending locks the head of the chain, so that entries of several nodes
// form one chain.
func (s *Store) Audit(ctx context.Context, e Entry) error {
	for _, text := range []*string{&e.Actor, &e.Org, &e.Address, &e.Action, &e.Object, &e.Before, &e.After} {
		*text = bounds.Text(plain.Line(*text))
	}
	e.Detail = bounds.TextTo(plain.Line(e.Detail), maxDetail)
	return s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		var before []byte
		if err := c.Row(ctx, `UPDATE audit_head SET n = n + 1 WHERE one = 1 RETURNING n, hash`)(&e.N, &before); err != nil {
			return err
		}
		e.Hash = e.hash(before)
		args := []any{e.N, nanos(e.At), e.Actor, e.Org, e.Address, e.Action, e.Object, e.Before, e.After, e.Detail, e.Hash[:]}
		if err := c.Exec(ctx, `INSERT INTO audit (`+auditColumns+`) VALUES `+db.Placeholders(1, len(args)), args...); err != nil {
			return err
		}
		return c.Exec(ctx, `UPDATE audit_head SET hash = $1 WHERE one = 1`, e.Hash[:])
	})
}

const auditColumns = `n, at, actor, org, address, action, object, before, after, detail, hash`

func scanEntry(row db.Scan) (e Entry, err error) {
	var at int64
	var hash []byte
	err = row(&e.N, &at, &e.Actor, &e.Org, &e.Address, &e.Action, &e.Object, &e.Before, &e.After, &e.Detail, &hash)
	e.At = fromNanos(at)
	copy(e.Hash[:], hash)
	return e, err
}

// AuditQuery selects entries. An empty field selects all.
type AuditQuery struct {
	Org, Actor, Action string
	Before             int64 // number of the last entry of the previous page; 0: the first page
	Limit              int
}

// AuditLog returns entries, newest first.
func (s *Store) AuditLog(ctx context.Context, q AuditQuery) (list []Entry, err error) {
	var w db.Where
	w.AddIf(q.Org != "", "org = ", q.Org)
	w.AddIf(q.Actor != "", "actor = ", q.Actor)
	w.AddIf(q.Action != "", "action = ", q.Action)
	w.AddIf(q.Before != 0, "n < ", q.Before)
	query := `SELECT ` + auditColumns + ` FROM audit` + w.Text() + ` ORDER BY n DESC LIMIT ` + w.Arg(clampLimit(q.Limit))
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		list = nil
		return c.Rows(ctx, func(row db.Scan) error {
			e, err := scanEntry(row)
			list = append(list, e)
			return err
		}, query, w.Args...)
	})
	return list, err
}

// Verdict is the result of VerifyAudit.
type Verdict struct {
	Entries int64 // valid entries from the first on
	Broken  int64 // number of the first invalid or missing entry; 0: none
}

// VerifyAudit checks the whole chain: every entry, that none is missing, and that the last one is
// the head. Entries may be added concurrently. It detects that a part was changed. An attacker who
// can write the whole log can create a new chain; keep a hash elsewhere against that.
func (s *Store) VerifyAudit(ctx context.Context) (v Verdict, err error) {
	var head int64
	var want, hash []byte
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		return c.Row(ctx, `SELECT n, hash FROM audit_head WHERE one = 1`)(&head, &want)
	})
	if errors.Is(err, sql.ErrNoRows) { // the head was removed
		return Verdict{Broken: 1}, nil
	}
	for err == nil && v.Broken == 0 && v.Entries < head {
		hash, err = s.verifyPage(ctx, &v, hash, head)
	}
	if err == nil && v.Broken == 0 && string(hash) != string(want) {
		v.Broken, v.Entries = head, max(0, head-1)
	}
	return v, err
}

// verifyPage checks the next entries up to the head.
func (s *Store) verifyPage(ctx context.Context, v *Verdict, hash []byte, head int64) ([]byte, error) {
	start, first := v.Entries, hash
	err := s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		*v, hash = Verdict{Entries: start}, first
		return c.Rows(ctx, func(row db.Scan) error {
			e, err := scanEntry(row)
			if err != nil || v.Broken != 0 {
				return err
			}
			sum := e.hash(hash)
			if e.N != v.Entries+1 || sum != e.Hash {
				v.Broken = v.Entries + 1
				return nil
			}
			v.Entries, hash = e.N, sum[:]
			return nil
		}, `SELECT `+auditColumns+` FROM audit WHERE n > $1 AND n <= $2 ORDER BY n LIMIT $3`, start, head, int64(MaxPerPage))
	})
	if err == nil && v.Broken == 0 && v.Entries == start { // the remaining entries are missing
		v.Broken = start + 1
	}
	return hash, err
}

package store

import (
	"context"
	"io/fs"
	"reflect"
	"testing"
	"testing/fstest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/labels"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// schemaBefore returns the migrations before the one with a name.
func schemaBefore(t *testing.T, name string) fs.FS {
	t.Helper()
	files := fstest.MapFS{}
	for _, file := range ownFiles(t) {
		if len(file) > len("schema/0000_") && file[len("schema/0000_"):] == name+".sql" {
			return files
		}
		data, err := ownSchema.ReadFile(file)
		no(t, err)
		files[file] = &fstest.MapFile{Data: data}
	}
	t.Fatal("there is no such migration")
	return nil
}

// TestConvertLedger writes rows as the tables before were written, and finds them after the migration.
func TestConvertLedger(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		old, err := db.Open(url, db.Options{Schema: schemaBefore(t, "ledger"), Migrate: true, Timeout: time.Minute})
		no(t, err)
		sent := rows("ab", 1234) // more than two portions
		sent[7].Cost, sent[8].Attempts = nil, nil
		for i := range sent {
			sent[i].Labels = usage.Labels{User: "u1", Tags: []usage.Tag{{Key: "feature", Value: "import"}, {Key: "team", Value: "search"}}}
		}
		no(t, old.Write(bg(), func(ctx context.Context, c db.Conn) error { return insertOld(ctx, c, sent) }))
		no(t, old.Close())

		s := opened(t, url, Options{Migrate: true})
		got, err := s.Rows(bg(), RowQuery{User: "u1", Tag: usage.Tag{Key: "team", Value: "search"}, Limit: 1000})
		no(t, err)
		last := got[len(got)-1]
		more, err := s.Rows(bg(), RowQuery{Before: &RowMark{last.Began, last.ID}, Limit: 1000})
		no(t, err)
		if got = append(got, more...); len(got) != len(sent) {
			t.Fatalf("%d rows of %d", len(got), len(sent))
		}
		for i := range got {
			if want := sent[len(sent)-1-i]; !reflect.DeepEqual(got[i], want) {
				t.Fatalf("got  %+v\nwant %+v", got[i], want)
			}
		}
		if one, err := s.Rows(bg(), RowQuery{ID: sent[3].ID}); err != nil || len(one) != 1 || one[0].ID != sent[3].ID {
			t.Errorf("%+v, %v", one, err)
		}
		no(t, put(bg(), s, sent)) // the same rows again
		if n := count(t, s, "requests"); n != len(sent) {
			t.Errorf("%d rows, want %d", n, len(sent))
		}
	})
}

// insertOld inserts rows as they were inserted before.
func insertOld(ctx context.Context, c db.Conn, rows []usage.Row) error {
	requests := db.Insert{Head: `INSERT INTO requests (id, began, took, input, cache_read, cache_write, output, reasoning, cost, status, stream, estimated,
		node, key_id, team, org, endpoint, dialect, model, target, outcome) `}
	attempts := db.Insert{Head: `INSERT INTO attempts (request_id, n, began, took, input, cache_read, cache_write, output, reasoning, cost, status, charged, target, fault) `}
	tags := db.Insert{Head: `INSERT INTO labels (request_id, label, value, began) `}
	for _, r := range rows {
		requests.Rows = append(requests.Rows, []any{r.ID, nanos(r.Began), int64(r.Took),
			r.Usage.Input, r.Usage.CacheRead, r.Usage.CacheWrite, r.Usage.Output, r.Usage.Reasoning, moneyArg(r.Cost), int64(r.Status), r.Stream, r.Estimated,
			r.Node, r.Key, r.Team, r.Org, r.Endpoint, r.Dialect, r.Model, r.Target, string(r.Outcome)})
		for n, a := range r.Attempts {
			attempts.Rows = append(attempts.Rows, []any{r.ID, int64(n), nanos(a.Began), int64(a.Took),
				a.Usage.Input, a.Usage.CacheRead, a.Usage.CacheWrite, a.Usage.Output, a.Usage.Reasoning, moneyArg(a.Cost), int64(a.Status), a.Charged, a.Target, a.Fault})
		}
		for _, l := range labels.Of(&r.Labels) {
			tags.Rows = append(tags.Rows, []any{r.ID, l.Name, l.Value, nanos(r.Began)})
		}
	}
	for _, in := range []db.Insert{requests, attempts, tags} {
		if err := in.Run(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

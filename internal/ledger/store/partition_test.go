package store

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/partition"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// checkRows checks that a store has exactly these rows: in lists, by id and by label.
func checkRows(t *testing.T, s *Store, sent []usage.Row) {
	t.Helper()
	var got []usage.Row
	for before := (*RowMark)(nil); ; {
		page, err := s.Rows(bg(), RowQuery{Limit: 7, Before: before})
		no(t, err)
		if got = append(got, page...); len(page) < 7 {
			break
		}
		before = &RowMark{page[6].Began, page[6].ID}
	}
	if len(got) != len(sent) {
		t.Errorf("%d rows, want %d", len(got), len(sent))
	}
	for i := 1; i < len(got); i++ {
		if got[i].Began.After(got[i-1].Began) {
			t.Errorf("row %d is newer than the one before it", i)
		}
	}
	for _, r := range sent {
		if one, err := s.Rows(bg(), RowQuery{ID: r.ID}); err != nil || len(one) != 1 || !one[0].Began.Equal(r.Began) {
			t.Errorf("%s: %+v, %v", r.ID, one, err)
		}
		for _, tag := range r.Tags {
			found := false
			list, err := s.Rows(bg(), RowQuery{Tag: tag, From: r.Began, To: r.Began.Add(1), Limit: 100})
			for i := range list {
				found = found || list[i].ID == r.ID
			}
			if err != nil || !found {
				t.Errorf("%s is not found by %v: %v", r.ID, tag, err)
			}
		}
	}
	if one, err := s.Rows(bg(), RowQuery{ID: uuidOf("none", 1)}); err != nil || len(one) != 0 {
		t.Errorf("%+v, %v", one, err)
	}
	numbers := 0
	no(t, s.db.Read(bg(), func(ctx context.Context, c db.Conn) error {
		return c.Row(ctx, "SELECT count(DISTINCT n) FROM requests")(&numbers)
	}))
	if numbers != len(sent) {
		t.Errorf("%d rows have %d numbers", len(sent), numbers)
	}
}

// spread returns labelled rows with times from the year 1970 to 2100.
func spread(prefix string) []usage.Row {
	list := labelled(prefix, 40)
	list[0].Began, list[1].Began = time.Unix(0, 1).UTC(), noon.AddDate(-3, 0, 0)
	list[2].Began, list[3].Began = time.Now().UTC().AddDate(0, 0, 20), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	return list
}

// TestFirstPartitions checks the partitions of new tables: rows of all times have one, and other accounts have no rights
// but those that they were given.
func TestFirstPartitions(t *testing.T) {
	url := database(t)
	s := opened(t, url, Options{Migrate: true})
	sent := spread("di")
	no(t, put(bg(), s, sent))
	no(t, put(bg(), s, sent)) // again, as after a lost acknowledgement
	more := rows("ee", 5)
	for i := range more {
		more[i].Began = noon.AddDate(0, i-2, 0)
	}
	no(t, put(bg(), s, more))
	checkRows(t, s, append(sent, more...))
	for _, table := range partition.Tables() {
		parts := partitionsOf(t, s, table)
		if len(parts) != 1 || parts[0].Name != table+"_first" {
			t.Errorf("%+v", parts)
		}
		if room := time.Until(time.Unix(0, parts[0].To)); room < 8*24*time.Hour || room > 9*24*time.Hour {
			t.Errorf("the first partition of %s has room for %v", table, room)
		}
	}
	later := 0
	for _, r := range append(sent, more...) {
		if r.Began.UnixNano() >= partitionsOf(t, s, "requests")[0].To {
			later++
		}
	}
	if n := count(t, s, "requests_rest"); n != later {
		t.Errorf("%d rows are later than the first partition, want %d", n, later)
	}
	no(t, execute(bg(), s, `CREATE ROLE divided LOGIN`))
	no(t, execute(bg(), s, `GRANT SELECT, INSERT ON requests TO divided`))
	no(t, execute(bg(), s, `GRANT USAGE ON SEQUENCE requests_n_seq TO divided`))
	no(t, execute(bg(), s, `GRANT SELECT ON schema_steps TO divided`))
	other := opened(t, strings.Replace(url, "postgres@", "divided@", 1), Options{})
	no(t, execute(bg(), other, `INSERT INTO requests (began, id, took, input, cache_read, cache_write, output, reasoning, status, stream, estimated, node, key_id, person, team, org, endpoint, dialect, model, target, outcome, fidelity, detail)
		VALUES (5, 'x', 1, 0, 0, 0, 0, 0, 200, FALSE, FALSE, '', '', '', '', '', '', '', '', '', '', '', '{}')`))
	for _, function := range []string{`isogloss_add_partition('requests', 1, 2)`, `isogloss_drop_partition('requests_first', 1)`} {
		if err := execute(bg(), other, `SELECT `+function); err == nil {
			t.Errorf("every account may call %s", function)
		}
	}
}

// TestFunctionsUseTheirSchema checks that the functions of partitions use no table that their caller has made.
func TestFunctionsUseTheirSchema(t *testing.T) {
	s := opened(t, database(t), Options{Migrate: true})
	if n := count(t, s, `pg_proc WHERE proname LIKE 'isogloss%' AND prosecdef AND proconfig @> ARRAY['search_path=public, pg_temp', 'lock_timeout=200ms']`); n != 2 {
		t.Errorf("%d functions", n)
	}
}

func partitionsOf(t *testing.T, s *Store, table string) (list []partition.Partition) {
	t.Helper()
	no(t, s.Read(bg(), func(ctx context.Context, c db.Conn) (err error) {
		list, err = partition.List(ctx, c, table)
		return err
	}))
	return list
}

// TestAddPartitions adds partitions by two nodes at once, with rows that came before their partition, and
// appends rows across them, twice.
func TestAddPartitions(t *testing.T) {
	url := database(t)
	a, b := opened(t, url, Options{Migrate: true}), opened(t, url, Options{Migrate: true})
	sent := spread("ap")
	no(t, put(bg(), a, sent))
	from := partitionsOf(t, a, "requests")[0].To
	var adding sync.WaitGroup
	for _, s := range []*Store{a, b} {
		adding.Go(func() {
			for i := range int64(5) {
				day := int64(24 * time.Hour)
				err := s.Write(bg(), func(ctx context.Context, c db.Conn) error {
					return partition.Add(ctx, c, partition.Range{From: from + 7*i*day, To: from + 7*(i+1)*day})
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	adding.Wait()
	for _, table := range partition.Tables() {
		if parts := partitionsOf(t, a, table); len(parts) != 6 {
			t.Errorf("%s: %+v", table, parts)
		}
	}
	if n := count(t, a, "requests_rest"); n != 1 { // of 2100; that in 20 days was moved
		t.Errorf("%d rows have no partition", n)
	}
	for i := range 40 {
		r := row("aq", i)
		r.Began = time.Unix(0, from).UTC().AddDate(0, 0, i-2)
		sent = append(sent, r)
	}
	no(t, put(bg(), b, sent))
	no(t, put(bg(), a, sent))
	checkRows(t, a, sent)
	if spent, err := spentSince(bg(), a, "org:default", time.Unix(0, 0)); err != nil || spent != 2*39*40/2 {
		t.Errorf("%v, %v", spent, err)
	}
}

package store

import (
	"context"
	"errors"
	"fmt"
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

// TestDivide divides tables with rows, and is interrupted before each commit. The tables then have all
// rows, once, and accounts have their rights.
func TestDivide(t *testing.T) {
	url := database(t)
	old := opened(t, url, Options{Migrate: true, schema: schemaBefore(t, "partitions")})
	sent := spread("di")
	no(t, put(bg(), old, sent))
	no(t, execute(bg(), old, `CREATE ROLE divided LOGIN`))
	no(t, execute(bg(), old, `GRANT SELECT, INSERT ON requests TO divided`))
	no(t, execute(bg(), old, `GRANT SELECT ON schema_steps TO divided`))
	lost := errors.New("the process ended")
	for at := 0; ; at++ {
		n := 0
		err := partition.Migrate(bg(), func(ctx context.Context, do func(context.Context, db.Conn) error) error {
			return old.Write(ctx, func(ctx context.Context, c db.Conn) error {
				n++
				if err := do(ctx, c); err != nil || n <= at {
					return err
				}
				return lost
			})
		})
		if err == nil {
			break
		}
		if !errors.Is(err, lost) {
			t.Fatal(err)
		}
		if at > 20 {
			t.Fatal("it does not end")
		}
		no(t, put(bg(), old, rows("dj", 1))) // an old node writes rows of today meanwhile
	}
	s := opened(t, url, Options{Migrate: true})
	no(t, put(bg(), s, sent)) // again, as after a lost acknowledgement
	more := rows("ee", 5)
	for i := range more {
		more[i].Began = noon.AddDate(0, i-2, 0)
	}
	no(t, put(bg(), s, more))
	checkRows(t, s, append(append(sent, rows("dj", 1)...), more...))
	if parts := partitionsOf(t, s, "requests"); len(parts) != 1 || parts[0].Name != "requests_first" {
		t.Errorf("%+v", parts)
	}
	if n := count(t, s, "requests_rest"); n != 4 {
		t.Errorf("%d rows are later than the first partition, want 4", n)
	}
	other := opened(t, strings.Replace(url, "postgres@", "divided@", 1), Options{})
	no(t, execute(bg(), other, `INSERT INTO requests (began, id, took, input, cache_read, cache_write, output, reasoning, status, stream, estimated, node, key_id, person, team, org, endpoint, dialect, model, target, outcome, fidelity, detail)
		VALUES (5, 'x', 1, 0, 0, 0, 0, 0, 200, FALSE, FALSE, '', '', '', '', '', '', '', '', '', '', '', '{}')`))
	if err := execute(bg(), other, `SELECT isogloss_add_partition('requests', 1, 2)`); err == nil {
		t.Error("every account may add partitions")
	}
	for _, index := range []string{"requests_once", "requests_id", "requests_of_key", "requests_of_person", "requests_of_status", "requests_of_fidelity", "requests_of_outcome"} {
		if n := count(t, s, "pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE x.relname = '"+index+"' AND i.indrelid = 'requests'::regclass AND i.indisvalid"); n != 1 {
			t.Errorf("index %s is missing or invalid", index)
		}
		if n := count(t, s, "pg_inherits WHERE inhparent = '"+index+"'::regclass AND inhrelid = 'first_"+index+"'::regclass"); n != 1 {
			t.Errorf("index %s was built again", index)
		}
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

// TestDivideUnderLoad divides the tables while two old nodes write. No call fails, and nothing is lost.
func TestDivideUnderLoad(t *testing.T) {
	url := database(t)
	old := opened(t, url, Options{Migrate: true, schema: schemaBefore(t, "partitions")})
	var load sync.WaitGroup
	stop, writing := make(chan struct{}), make(chan struct{}, 100)
	var batches [2]int
	for w := range batches {
		load.Go(func() {
			for n := 0; ; n++ {
				if err := put(bg(), old, rows(fmt.Sprintf("%d%07d", w, n), 50)); err != nil {
					t.Error("append:", err)
				}
				batches[w]++
				select {
				case <-stop:
					return
				case writing <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 6 {
		<-writing
	}
	s := opened(t, url, Options{Migrate: true})
	for deadline := time.Now().Add(30 * time.Second); s.Ready() != nil && time.Now().Before(deadline); {
		_, _ = s.Rows(bg(), RowQuery{Limit: 1})
	}
	for range 6 {
		<-writing
	}
	close(stop)
	load.Wait()
	no(t, s.Ready())
	if n, want := count(t, s, "requests"), 50*(batches[0]+batches[1]); n != want {
		t.Errorf("%d rows, want %d", n, want)
	}
	if parts := partitionsOf(t, s, "labels"); len(parts) != 1 {
		t.Errorf("%+v", parts)
	}
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

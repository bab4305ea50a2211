package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

func bothBench(b *testing.B, bench func(b *testing.B, s *Store)) {
	b.Run("sqlite", func(b *testing.B) {
		bench(b, opened(b, "sqlite:"+filepath.Join(b.TempDir(), "x.db"), Options{Migrate: true}))
	})
	b.Run("postgres", func(b *testing.B) {
		bench(b, opened(b, database(b), Options{Migrate: true}))
	})
}

func BenchmarkKey(b *testing.B) {
	bothBench(b, func(b *testing.B, s *Store) {
		for i := range 1000 {
			no(b, s.CreateKey(bg(), sampleKey(fmt.Sprint("k", i))))
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			_, err := s.Key(bg(), fmt.Sprint("k", i%1000))
			no(b, err)
		}
	})
}

// batch returns the rows that a busy gateway sends at once: 50 keys, 4 models, one attempt each.
func batch(n, serial int) []usage.Row {
	list := rows("", n)
	for i := range list {
		r := &list[i]
		r.ID = uuid.NewString()
		r.Key = fmt.Sprintf("0123456789abcdefghij%02d", i%50)
		r.Model = fmt.Sprint("model-", i%4)
		r.Began = noon.Add(time.Duration(serial*n+i) * time.Millisecond)
		r.Attempts = r.Attempts[1:]
	}
	return list
}

func BenchmarkAppend(b *testing.B) { benchAppend(b, func(int) usage.Labels { return usage.Labels{} }) }

// BenchmarkAppendWithTags is BenchmarkAppend with two tags on each row, of five teams and eight features.
func BenchmarkAppendWithTags(b *testing.B) {
	benchAppend(b, func(i int) usage.Labels {
		return usage.Labels{Tags: []usage.Tag{{Key: "team", Value: fmt.Sprint("team-", i%5)}, {Key: "feature", Value: fmt.Sprint("feature-", i%8)}}}
	})
}

func benchAppend(b *testing.B, labels func(i int) usage.Labels) {
	bothBench(b, func(b *testing.B, s *Store) {
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			b.StopTimer()
			rows := batch(500, n)
			for i := range rows {
				rows[i].Labels = labels(i)
			}
			b.StartTimer()
			no(b, put(bg(), s, rows))
			n++
		}
		b.ReportMetric(float64(500*n)/b.Elapsed().Seconds(), "rows/s")
	})
}

func BenchmarkVerifyAudit(b *testing.B) {
	bothBench(b, func(b *testing.B, s *Store) {
		const entries = 1000
		for i := range entries {
			no(b, s.Audit(bg(), Entry{At: noon, Actor: "op", Action: "keys.create", Object: fmt.Sprint(i)}))
		}
		for b.Loop() {
			if v, err := s.VerifyAudit(bg()); err != nil || v.Entries != entries || v.Broken != 0 {
				b.Fatal(v, err)
			}
		}
		b.ReportMetric(float64(entries*b.N)/b.Elapsed().Seconds(), "entries/s")
	})
}

// BenchmarkLarge measures queries on a ledger with ISOGLOSS_ROWS rows. Filling it takes minutes.
func BenchmarkLarge(b *testing.B) {
	total, _ := strconv.Atoi(os.Getenv("ISOGLOSS_ROWS"))
	if total == 0 {
		b.Skip("set ISOGLOSS_ROWS, such as 1000000")
	}
	bothBench(b, func(b *testing.B, s *Store) {
		start := time.Now()
		for i := range total / 500 {
			no(b, put(bg(), s, batch(500, i)))
		}
		b.Logf("%d rows in %s", total, time.Since(start))
		logSizes(b, s)
		b.Run("spent", func(b *testing.B) { spent(b, s, "org:default", noon) })
		b.Run("spent-org", func(b *testing.B) { spent(b, s, "org:default", noon.Add(time.Millisecond)) })
		b.Run("spent-key", func(b *testing.B) { spent(b, s, "key:0123456789abcdefghij07", noon.Add(time.Millisecond)) })
		b.Run("usage", func(b *testing.B) {
			for b.Loop() {
				_, err := s.Usage(bg(), UsageQuery{GroupBy: []Group{ByDay, ByModel}})
				no(b, err)
			}
		})
	})
}

func logSizes(b *testing.B, s *Store) {
	if !strings.Contains(b.Name(), "postgres") {
		return
	}
	no(b, s.db.Read(bg(), func(ctx context.Context, c db.Conn) error {
		return c.Rows(ctx, func(row db.Scan) error {
			var name string
			var table, indexes int64
			err := row(&name, &table, &indexes)
			b.Logf("%s: %d bytes, indexes %d", name, table, indexes)
			return err
		}, `SELECT relname, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class WHERE relname IN ('requests', 'labels', 'spent', 'spent_minutes', 'hours')`)
	}))
}

func spent(b *testing.B, s *Store, account string, since time.Time) {
	for b.Loop() {
		_, err := spentSince(bg(), s, account, since)
		no(b, err)
	}
}

package app

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/api/export"
	"github.com/isogloss-gateway/isogloss/internal/ledger/clickhouse"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
	"github.com/isogloss-gateway/isogloss/internal/money/spool"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/filled"
)

// TestEveryFieldArrives sends a row of which no field is zero on each way that rows go. It names no field, so that a
// new field of a row that is missing on a way fails it.
func TestEveryFieldArrives(t *testing.T) {
	row := filled.New[usage.Row]()
	for name, way := range map[string]func(*testing.T, usage.Row) usage.Row{
		"spool": throughSpool, "event": throughEvent, "store, with the column detail": throughStore, "ClickHouse": throughClickHouse,
	} {
		if got := way(t, row); !reflect.DeepEqual(got, row) {
			t.Errorf("%s: the row is\n%+v, want\n%+v", name, got, row)
		}
	}
	whole := exported(t, &row)
	filled.Each(&row, func(path string) {
		counted := strings.HasPrefix(path, "Attempts[") || strings.HasPrefix(path, "Losses[") // an export has their number
		if !counted && exported(t, &row) == whole {
			t.Errorf("an export does not have the field %s", path)
		}
	})
	for field, list := range map[string]func(){"Attempts": func() { row.Attempts = nil }, "Losses": func() { row.Losses = nil }} {
		before := exported(t, &row)
		if list(); exported(t, &row) == before {
			t.Errorf("an export does not have the number of %s", field)
		}
	}
}

func exported(t *testing.T, row *usage.Row) string {
	var text strings.Builder
	w := export.New[export.Request](export.CSV, &text)
	if err := w.Write([]export.Request{export.RequestOf(row)}); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// rowSink hands over the rows of a spool.
type rowSink chan usage.Row

func (s rowSink) Append(_ context.Context, b usage.Batch) (int64, error) {
	for _, r := range b.Rows {
		s <- r
	}
	return b.To, nil
}

func (rowSink) Finish(context.Context, string) error { return nil }

func throughSpool(t *testing.T, row usage.Row) usage.Row {
	s, err := spool.Open(spool.Options{Dir: t.TempDir(), Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	entry, err := s.Begin(spool.Opening{ID: row.ID})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := entry.End(row); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	sink, done := make(rowSink, 1), make(chan struct{})
	go func() { defer close(done); s.Drain(ctx, sink, nil) }()
	defer func() { stop(); <-done }()
	return <-sink
}

func throughEvent(t *testing.T, row usage.Row) usage.Row {
	sent := usagelog.EventOf("log", 1, &row)
	line, err := json.Marshal(&sent)
	if err != nil {
		t.Fatal(err)
	}
	e, err := usagelog.DecodeEvent(line)
	if err != nil {
		t.Fatal(err)
	}
	return e.Row()
}

func throughStore(t *testing.T, row usage.Row) usage.Row {
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "rows.db"), store.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Append(t.Context(), usage.Batch{Log: "log", To: 1, Rows: []usage.Row{row}}); err != nil {
		t.Fatal(err)
	}
	rows, err := s.Rows(t.Context(), store.RowQuery{ID: row.ID})
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	return rows[0]
}

// throughClickHouse has a server of one row. The server refuses columns that its table does not have.
func throughClickHouse(t *testing.T, row usage.Row) usage.Row {
	var table string
	var columns map[string]jsontext.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		body, _ := io.ReadAll(unzipped)
		switch text := string(body); {
		case strings.HasPrefix(text, "CREATE"):
			table += text
		case strings.HasPrefix(text, "ALTER"):
		case strings.HasPrefix(text, "SELECT "):
			names, _, _ := strings.Cut(strings.TrimPrefix(text, "SELECT "), " FROM ")
			var values []jsontext.Value
			for name := range strings.SplitSeq(names, ",") {
				values = append(values, columns[strings.TrimSpace(name)])
			}
			_ = json.MarshalWrite(w, values)
		default:
			err = json.Unmarshal(body, &columns)
			for name := range columns {
				if !strings.Contains(table, " "+name+" ") && !strings.Contains(table, "\t"+name+" ") {
					err = fmt.Errorf("the table has no column %s", name)
				}
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
		}
	}))
	defer server.Close()
	d := clickhouse.New(clickhouse.Options{URL: server.URL})
	defer d.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := d.Create(ctx); err != nil {
		t.Fatal(err)
	}
	if err := d.Insert(ctx, "token", 1, []clickhouse.Row{{Row: row, Log: "log", Position: 1}}); err != nil {
		t.Fatal(err)
	}
	rows, err := d.Rows(ctx, store.RowQuery{ID: row.ID})
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	return rows[0]
}

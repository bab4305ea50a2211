package clickhouse

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/test/hostile"
)

// hostileRows returns rows of which one column is not what the server sends.
func hostileRows(columns int) (all []hostile.Answer) {
	for at := range columns {
		for _, value := range hostile.Values() {
			row := make([]string, columns)
			for i := range row {
				row[i] = `"5"`
			}
			row[at] = value
			all = append(all, hostile.Fixed("column "+hostile.Clip(value), "["+strings.Join(row, ",")+"]"))
		}
	}
	for _, row := range []string{`[]`, `[1]`, `["",1,2,3]`, `[""]`, `["\u0000","x"]`, `[null,null]`, `["-","99999999999999999999"]`, `[{},[]]`} {
		all = append(all, hostile.Fixed("row "+row, row))
	}
	return all
}

// TestHostileServer reads answers that no ClickHouse sends: nothing goes elsewhere, and no answer ends
// the process.
func TestHostileServer(t *testing.T) {
	var current atomic.Pointer[hostile.Server]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { current.Load().ServeHTTP(w, r) }))
	defer server.Close()
	d := New(Options{URL: server.URL, Username: "u", Password: "secret-of-test"})
	defer d.Close()
	columns := 1 + len(counts())
	answers := func(elsewhere string) []hostile.Answer {
		return append(hostile.Answers(`{"data":[["m","5"]],"rows":1}`, elsewhere), hostileRows(columns)...)
	}
	tried := hostile.Try(t, answers, func(ctx context.Context, h *hostile.Server) {
		current.Store(h)
		_, err := d.Usage(ctx, store.UsageQuery{GroupBy: []store.Group{store.ByModel}})
		if one := strings.HasPrefix(h.Answer.Name, "column"); err == nil && !one && h.Answer.Name != "empty" {
			t.Errorf("%s: no error", h.Answer.Name)
		}
	})
	if tried < 300 {
		t.Errorf("%d answers", tried)
	}
}

// TestPackedResponses checks that no response is decompressed, of a query or of an error: a small one could become
// a large one.
func TestPackedResponses(t *testing.T) {
	for name, status := range map[string]int{"rows": http.StatusOK, "error": http.StatusInternalServerError} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Value
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Store(r.Header.Get("Accept-Encoding"))
				w.Header().Set("Content-Encoding", "gzip")
				w.WriteHeader(status)
				z := gzip.NewWriter(w)
				line := []byte(strings.Repeat(" ", 1<<20) + "\n")
				for range 8 {
					_, _ = z.Write(line) // until the client leaves
				}
				_ = z.Close()
			}))
			defer server.Close()
			d := New(Options{URL: server.URL})
			defer d.Close()
			text, err := d.call(t.Context(), "SELECT 1", nil, nil)
			if err == nil || !strings.Contains(err.Error(), "compressed") || len(text) > 0 {
				t.Errorf("%d bytes, %v", len(text), err)
			}
			if got := asked.Load(); got != "" {
				t.Errorf("the client asks for %q", got)
			}
		})
	}
}

// TestEndlessErrors checks that of the text of an error only the beginning is read, and that it is of one line that
// terminals can show.
func TestEndlessErrors(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte("Code: 1.\x1b[31m DB::Exception"))
		block := make([]byte, 64<<10)
		for r.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	d := New(Options{URL: server.URL})
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // only a client that reads on waits for it
	defer cancel()
	if _, err := d.call(ctx, "SELECT 1", nil, nil); err == nil || !strings.Contains(err.Error(), "Code: 1.\ufffd[31m DB::Exception") || len(err.Error()) > 4*maxError {
		t.Error(err)
	}
}

// answered is a server that answers every query with one text.
type answered string

func (a answered) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}

// FuzzResponse reads any text as the answer to every kind of query.
func FuzzResponse(f *testing.F) {
	for _, a := range hostileRows(2) {
		f.Add(a.Text)
	}
	f.Add(`["m",` + strings.TrimSuffix(strings.Repeat(`"1",`, len(counts())), ",") + "]\n")
	f.Fuzz(func(t *testing.T, text string) {
		d := New(Options{URL: "http://127.0.0.1"})
		d.client.Transport = answered(text)
		for _, by := range []store.Group{store.ByModel, store.ByHour, store.ByTeam, store.ByUser} {
			_, _ = d.Usage(t.Context(), store.UsageQuery{GroupBy: []store.Group{by}})
		}
		_, _ = d.Positions(t.Context(), 1, []string{"l"}, time.Now())
		_, _ = d.Rows(t.Context(), store.RowQuery{ID: "id"})
	})
}

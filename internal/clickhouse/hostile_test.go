package clickhouse

import (
	"compress/gzip"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/hostile"
	"github.com/isogloss-gateway/isogloss/internal/store"
)

// TestHostileServer reads answers that no ClickHouse sends: nothing goes elsewhere, and no answer ends
// the process.
func TestHostileServer(t *testing.T) {
	var astray atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { astray.Add(1) }))
	defer elsewhere.Close()
	h := hostile.New()
	server := httptest.NewServer(h)
	defer server.Close()
	d := New(Options{URL: server.URL, Username: "u", Password: "secret-of-test"})
	defer d.Close()
	answers := hostile.Answers(`{"data":[["m","5"]],"rows":1}`, elsewhere.URL)
	for _, row := range []string{`[]`, `[1]`, `["",1,2,3]`, `[""]`, `["\u0000","x"]`, `[null,null]`, `["-","99999999999999999999"]`, `[{},[]]`} {
		answers = append(answers, hostile.Fixed("row "+row, row))
	}
	for _, a := range answers {
		if strings.HasPrefix(a.Name, "endless") { // maxResponse is for results
			continue
		}
		h.Answer = a
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			select {
			case <-h.Stuck:
				cancel()
			case <-ctx.Done():
			}
		}()
		if _, err := d.Usage(ctx, store.UsageQuery{GroupBy: []store.Group{"model"}}); err == nil && a.Name != "empty" {
			t.Errorf("%s: no error", a.Name)
		}
		cancel()
		if astray.Swap(0) > 0 {
			t.Errorf("%s: a request went elsewhere", a.Name)
		}
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

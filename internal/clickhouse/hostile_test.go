package clickhouse

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

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

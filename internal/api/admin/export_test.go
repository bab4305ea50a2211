package admin

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/isogloss-gateway/isogloss/internal/api/export"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// fill appends rows of the organisation a, with a user that a spreadsheet would run.
func (w *world) fill(n int) {
	w.t.Helper()
	for at := 0; at < n; at += 500 {
		var rows []usage.Row
		for i := at; i < min(at+500, n); i++ {
			rows = append(rows, usage.Row{ID: fmt.Sprintf("30000000-0000-4000-8000-%012d", i), Org: "a", Key: "k", Began: time.Now().Add(-time.Hour + time.Duration(i)*time.Millisecond), Model: "m",
				Status: 200, Outcome: usage.Answered, Cost: new(usage.Money(1000)), Labels: usage.Labels{User: "=cmd()"}})
		}
		w.append(fmt.Sprint("fill", at), rows)
	}
}

// TestExport checks files of requests and sums: each row once, only of the operator's organisation.
func TestExport(t *testing.T) {
	w := newWorld(t).serve()
	owner, billing := w.operator(access.Owner, ""), w.operator(access.Billing, "b")
	w.fill(2000) // whole pages
	for as, want := range map[string]int{owner: 2002, billing: 1} {
		g := w.send(as, "GET", "/api/v1/requests?format=csv", "")
		records, err := csv.NewReader(strings.NewReader(g.body)).ReadAll()
		if err != nil || g.status != 200 || len(records) != want+1 || g.header.Get("Content-Type") != "text/csv; charset=utf-8" || g.header.Get("Content-Disposition") != `attachment; filename="requests.csv"` {
			t.Fatalf("%d %v: %d records, %v", g.status, g.header, len(records), err)
		}
		seen := map[string]bool{}
		for _, r := range records[1:] {
			seen[r[0]] = true
		}
		if len(seen) != want {
			t.Errorf("%d requests, want %d", len(seen), want)
		}
		if as == owner && !strings.Contains(g.body, ",'=cmd(),") {
			t.Error("a spreadsheet would run the name of a user")
		}
		g = w.send(as, "GET", "/api/v1/requests?format=parquet", "")
		rows, err := parquet.Read[export.Request](bytes.NewReader([]byte(g.body)), int64(len(g.body)))
		if err != nil || g.status != 200 || len(rows) != want || g.header.Get("Content-Type") != "application/vnd.apache.parquet" {
			t.Fatalf("%d %v: %d rows, %v", g.status, g.header, len(rows), err)
		}
	}
	g := w.send(owner, "GET", "/api/v1/requests?format=csv&user=%3Dcmd()&limit=3&model=none", "")
	if strings.Count(g.body, "\n") != 1 {
		t.Errorf("an empty file: %s", g.body)
	}
	g = w.send(owner, "GET", "/api/v1/usage?format=csv&group=org,user", "")
	if text := g.body; strings.Count(text, "\n") != 4 || !strings.Contains(text, "a,,,,,'=cmd(),2000,") || !strings.HasPrefix(text, "start,org,") {
		t.Errorf("%d: %s", g.status, text)
	}
	g = w.send(owner, "GET", "/api/v1/usage?format=parquet&group=day,org", "")
	if sums, err := parquet.Read[export.Sum](bytes.NewReader([]byte(g.body)), int64(len(g.body))); err != nil || len(sums) < 2 || sums[0].Start == nil || *sums[0].Cost == 0 {
		t.Errorf("%+v, %v", sums, err)
	}
	if list := read[requestList](t, w.send(owner, "GET", "/api/v1/requests?format=json&limit=3", ""), 200); len(list.Requests) != 3 || list.Next == "" {
		t.Errorf("%+v", list)
	}
	for _, query := range []string{"requests?format=xml", "requests?format=csv&after=1-x", "requests?format=csv&team=t", "usage?format=csv&group=day,hour"} {
		w.refusal(w.send(owner, "GET", "/api/v1/"+query, ""), http.StatusUnprocessableEntity, "invalid")
	}
	if g := w.send(w.operator(access.KeyManager, "a"), "GET", "/api/v1/requests?format=csv", ""); g.status != http.StatusForbidden {
		t.Errorf("a key manager gets %d", g.status)
	}
}

// pagedLedger counts pages, and fails from one on.
type pagedLedger struct {
	Ledger
	pages atomic.Int32
	fails int32
	waits int32 // the page that is returned when the request has ended
}

func (p *pagedLedger) Rows(ctx context.Context, q store.RowQuery) ([]usage.Row, error) {
	n := p.pages.Add(1)
	if p.fails > 0 && n >= p.fails {
		return nil, errors.New("the store is down")
	}
	if n == p.waits {
		<-ctx.Done()
		ctx = context.WithoutCancel(ctx)
	}
	rows, err := p.Ledger.Rows(ctx, q)
	if q.Before != nil { // for ever: the second page again and again
		for i := range rows {
			rows[i].Agent = strings.Repeat("x", 100)
		}
	}
	return rows, err
}

// TestExportEnds checks that a file that cannot be completed is cut, and that a client that goes ends its export.
func TestExportEnds(t *testing.T) {
	w := newWorld(t)
	p := &pagedLedger{Ledger: w.options.Ledger, fails: 3}
	w.options.Ledger = p
	api, ended := New(w.options), make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		api.ServeHTTP(rw, r)
	}))
	defer server.Close()
	w.url = server.URL
	owner := w.operator(access.Owner, "")
	w.fill(4000)
	get := func(ctx context.Context) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/api/v1/requests?format=csv", nil)
		w.must(err)
		r.Header.Set("Authorization", "Bearer "+owner)
		return http.DefaultClient.Do(r)
	}
	answer, err := get(t.Context())
	w.must(err)
	body, err := io.ReadAll(answer.Body)
	w.must(answer.Body.Close())
	if !errors.Is(err, io.ErrUnexpectedEOF) || !bytes.HasPrefix(body, []byte("id,began,")) {
		t.Errorf("%d bytes, then %v", len(body), err)
	}
	p.pages.Store(2)
	if g := w.send(owner, "GET", "/api/v1/requests?format=csv", ""); g.status != http.StatusServiceUnavailable {
		t.Errorf("without the first page: %d", g.status)
	}
	for range 2 {
		<-ended
	}
	p.pages.Store(-1000)
	p.waits = -1000 + 3
	ctx, cancel := context.WithCancel(t.Context())
	if answer, err = get(ctx); err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadFull(answer.Body, make([]byte, 100))
	w.must(err)
	cancel()
	w.must(answer.Body.Close())
	<-ended
	if read := p.pages.Load() + 1000; read > 4 {
		t.Errorf("%d pages were read, want that none follows the end of the request", read)
	}
	http.DefaultClient.CloseIdleConnections()
}

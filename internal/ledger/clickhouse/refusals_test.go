package clickhouse

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// answering returns a database whose server answers queries by what they contain, and records all queries.
func answering(t *testing.T, answers map[string]string) (*DB, *[]string) {
	t.Helper()
	var queries []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		body, _ := io.ReadAll(unzipped)
		query := r.URL.Query().Get("query") + string(body)
		queries = append(queries, query)
		for part, answer := range answers {
			if strings.Contains(query, part) {
				if strings.HasPrefix(answer, "Code:") {
					w.WriteHeader(http.StatusNotFound)
				}
				_, _ = io.WriteString(w, answer)
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	d := New(Options{URL: server.URL})
	t.Cleanup(d.Close)
	return d, &queries
}

// TestRefusedInSums checks that sums have the counts of refused requests and not their rows, and that a server without
// the table has none.
func TestRefusedInSums(t *testing.T) {
	const sum = `["m"` // the rows are those of another model
	row := sum + strings.Repeat(`,"5"`, len(counts())) + "]"
	for name, c := range map[string]struct {
		answer string
		want   []int64
	}{
		"refused":           {`["","7"]` + "\n" + `["m","2"]`, []int64{7, 5 + 2}},
		"none":              {"", []int64{5}},
		"a table before it": {"Code: 60. DB::Exception: Table refusals does not exist", []int64{5}},
	} {
		d, queries := answering(t, map[string]string{"FROM refusals": c.answer, "count() AS c0": row})
		sums, err := d.Usage(t.Context(), store.UsageQuery{Org: "o", From: time.Unix(7200, 0), GroupBy: []store.Group{store.ByModel}})
		var got []int64
		for _, s := range sums {
			got = append(got, s.Refused)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
		all := strings.Join(*queries, "\n")
		for _, want := range []string{"sum(sign * (c0 - c10)), ", "HAVING sum(sign * (c0 - c10)) > 0", "SELECT '' AS g0, sum(count) FROM refusals FINAL WHERE minute >= 120 AND org = 'o' GROUP BY g0"} {
			if !strings.Contains(all, want) {
				t.Errorf("%s: no %q in\n%s", name, want, all)
			}
		}
	}
	if counts()[refusedCount] != "countIf(outcome = 'refused')" {
		t.Error("refusedCount is not the place of the refused requests")
	}
}

// TestAppendRefusals checks that rows that the table has are not inserted again.
func TestAppendRefusals(t *testing.T) {
	at := time.Unix(1_790_000_000, 0)
	d, queries := answering(t, map[string]string{"SELECT id FROM requests": `["old"]`})
	rows := []usage.Row{{ID: "new", Began: at, Outcome: usage.Refused}, {ID: "old", Began: at, Outcome: usage.Refused}, {ID: "new", Began: at, Outcome: usage.Refused}}
	err := d.AppendRefusals(t.Context(), usage.Refusals{Counts: []usage.RefusalCount{{Log: "l", Key: "k'", Reason: usage.RefusedLimit, Minute: at, Count: 3}}, Rows: rows})
	if err != nil || len(*queries) != 3 {
		t.Fatalf("%v, %q", err, *queries)
	}
	counts, ids, block := (*queries)[0], (*queries)[1], (*queries)[2]
	if !strings.HasPrefix(counts, "INSERT INTO refusals") || !strings.Contains(counts, `"key_id":"k'","reason":"limit","log":"l","node":"","count":3}`) || !strings.Contains(ids, "id IN ('new', 'old')") {
		t.Errorf("%s\n%s", counts, ids)
	}
	if strings.Count(block, `"id":"new"`) != 1 || strings.Contains(block, `"id":"old"`) || !strings.Contains(block, `"cost":0`) {
		t.Error(block)
	}
}

package clickhouse

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/llm"
)

// TestUnitsOfSums adds the amounts of units to the sums of their groups. A table without the column has none.
func TestUnitsOfSums(t *testing.T) {
	hour := llm.Units()[llm.CacheWrite1h].Key
	for name, c := range map[string]struct {
		status int
		answer string
		want   int64
	}{
		"a unit":            {http.StatusOK, `["m","` + hour + `","7"]` + "\n" + `["other","` + hour + `","9"]` + "\n" + `["m","newer","9"]`, 7},
		"no unit":           {http.StatusOK, "", 0},
		"a table before it": {http.StatusNotFound, "Code: 47. DB::Exception: Unknown identifier units", 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				unzipped, err := gzip.NewReader(r.Body)
				if err != nil {
					t.Error(err)
					return
				}
				query, _ := io.ReadAll(unzipped)
				if strings.Contains(string(query), "ARRAY JOIN") {
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, c.answer)
					return
				}
				if strings.Contains(string(query), "FROM refusals") {
					return
				}
				_, _ = io.WriteString(w, `["m"`+strings.Repeat(`,"5"`, len(counts()))+`]`)
			}))
			defer server.Close()
			d := New(Options{URL: server.URL})
			defer d.Close()
			sums, err := d.Usage(t.Context(), store.UsageQuery{Org: "o", GroupBy: []store.Group{store.ByModel}})
			if err != nil || len(sums) != 1 || *sums[0].Usage.At(llm.CacheWrite1h) != c.want || sums[0].Usage.CacheWrite != 5 {
				t.Errorf("%+v, %v", sums, err)
			}
		})
	}
	query := unitQuery(&store.UsageQuery{Org: "o"}, []string{"org", "model"})
	want := "SELECT org AS g0, model AS g1, unit, sum(amount) FROM requests ARRAY JOIN mapKeys(units) AS unit, mapValues(units) AS amount WHERE org = 'o' AND hasAny(mapKeys(units), ["
	if !strings.HasPrefix(query, want) || !strings.HasSuffix(query, " GROUP BY g0, g1, unit") {
		t.Error(query)
	}
}

package clickhouse

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// TestServer inserts into a real server of any age, without the settings that old ones do not know.
// ISOGLOSS_CLICKHOUSE is its address.
func TestServer(t *testing.T) {
	address := os.Getenv("ISOGLOSS_CLICKHOUSE")
	if address == "" {
		t.Skip("ISOGLOSS_CLICKHOUSE is not set")
	}
	d := New(Options{URL: address})
	old, _, _ := strings.Cut(strings.NewReplacer("LowCardinality(String)", "String", "IF NOT EXISTS ", "").Replace(table()), "SETTINGS")
	head, rest, _ := strings.Cut(old, ",\n\tINDEX")
	_, tail, _ := strings.Cut(rest, "\n) ENGINE")
	for _, query := range []string{"DROP TABLE IF EXISTS requests", head + "\n) ENGINE" + tail} {
		if _, err := d.call(t.Context(), query, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	rows := generate(5000)
	var cost usage.Money
	var list []Row
	for i := range rows {
		list = append(list, Row{Row: rows[i], Log: "l", Position: int64(i + 1)})
		if rows[i].Cost != nil {
			cost += *rows[i].Cost
		}
	}
	data, err := encode(1, list)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.call(t.Context(), insertQuery, data, nil); err != nil {
		t.Fatal(err)
	}
	got, err := d.call(t.Context(), "SELECT count(), sum(cost), uniqExact(id), max(position), sum(length(tag_names)) > 0 FROM requests FORMAT TabSeparated", nil, nil)
	if want := fmt.Sprintf("5000\t%d\t5000\t5000\t1\n", int64(cost)); err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if _, err := d.call(t.Context(), "SELECT nonsense", nil, nil); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("a wrong query gives %v", err)
	}
}

package consume

import (
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMetricsOfPages checks that the metrics of the consumer that the alert rules and the pages name exist.
func TestMetricsOfPages(t *testing.T) {
	c := New(Options{Log: newLog(1)})
	c.written.Store(1)
	w := httptest.NewRecorder()
	c.writeMetrics(w)
	var exist []string
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(w.Body.String(), -1) {
		exist = append(exist, m[1])
	}
	for _, name := range []string{"../../../../deploy/prometheus/alerts.yaml", "../../../../docs/operations/usage-log.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		used := regexp.MustCompile(`isogloss_consume_[a-z_]+`).FindAllString(string(text), -1)
		if len(used) == 0 {
			t.Errorf("%s names no metric of the consumer", name)
		}
		for _, u := range used {
			if !slices.Contains(exist, u) {
				t.Errorf("%s: %s does not exist; there are %s", name, u, strings.Join(exist, ", "))
			}
		}
	}
}

package scale

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// record writes the figures of a test into the page that ISOGLOSS_SCALE_PAGE names, with the run. A test that fails keeps its older
// row, so each row has its date.
func record(t *testing.T, format string, args ...any) {
	t.Helper()
	page := os.Getenv("ISOGLOSS_SCALE_PAGE")
	if page == "" || t.Failed() {
		return
	}
	runs, err1 := testrig.ReadSection(page, "scale", "run")
	table, err2 := testrig.ReadSection(page, "scale", "results")
	run := testrig.NewOrigin("make scale")
	line, err3 := testrig.MergeOrigins(runs, run, true)
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := testrig.WritePage(page, "scale", map[string]string{"run": line, "results": withRow(table, t.Name(), fmt.Sprintf(format, args...)+", "+run.When.Format(time.DateOnly))}); err != nil {
		t.Fatal(err)
	}
}

// withRow returns a table of results in which a test's row is new.
func withRow(table, test, measured string) string {
	rows := [][]string{{"test", "measured"}, {"`" + test + "`", measured}}
	for line := range strings.Lines(table) {
		cells := strings.SplitN(strings.Trim(line, "| \n"), " | ", 2)
		if strings.HasPrefix(line, "| `") && len(cells) == 2 && cells[0] != "`"+test+"`" {
			rows = append(rows, cells)
		}
	}
	slices.SortFunc(rows[1:], slices.Compare)
	return testrig.MarkdownTable(rows)
}

func TestRowsOfOtherTestsStay(t *testing.T) {
	table := withRow(withRow(withRow("", "TestNATS", "1 request"), "TestCost", "2 s"), "TestNATS", "3 requests")
	if want := "| test | measured |\n|---|---|\n| `TestCost` | 2 s |\n| `TestNATS` | 3 requests |\n"; table != want {
		t.Errorf("%s, want %s", table, want)
	}
}

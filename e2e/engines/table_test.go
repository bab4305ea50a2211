package engines

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// table has a row for each pair of client and upstream, in the order of the run.
type table struct {
	rows  [][]string // the header first
	cells int
}

func newTable() *table { return &table{rows: [][]string{{"client", "engine over"}}} }

func (b *table) put(client, upstream, feature, mark string) {
	if header := b.rows[0]; header[len(header)-1] != feature {
		if slices.Contains(header, feature) {
			panic("a feature is in the table twice")
		}
		b.rows[0] = append(header, feature)
	}
	i := slices.IndexFunc(b.rows, func(row []string) bool { return row[0] == client && row[1] == upstream })
	if i < 0 {
		i, b.rows = len(b.rows), append(b.rows, []string{client, upstream})
	}
	b.rows[i] = append(b.rows[i], mark)
	b.cells++
}

// publish prints the table and checks that the page has it. A partial run checks nothing.
func (b *table) publish(t *testing.T) {
	text := testrig.MarkdownTable(b.rows)
	fmt.Println(text)
	if t.Failed() || b.cells < len(features())*len(spoken)*len(upstreams) {
		return
	}
	page, err := os.ReadFile("page.md")
	if err != nil {
		t.Fatal(err)
	}
	rig.Page(t, "engines", strings.Replace(string(page), "$TABLE", strings.TrimSpace(text), 1))
}

package engines

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// table is what has come of each cell, in the order of the run.
type table struct {
	rows, columns []string
	marks         map[string]string
}

func newTable() *table { return &table{marks: map[string]string{}} }

func (b *table) put(client, upstream, feature, mark string) {
	row := "| " + client + " | " + upstream + " |"
	if _, ok := b.marks[row+feature]; ok {
		panic("a feature is in the table twice")
	}
	if len(b.columns) == 0 || b.columns[len(b.columns)-1] != feature {
		b.columns = append(b.columns, feature)
	}
	if !slices.Contains(b.rows, row) {
		b.rows = append(b.rows, row)
	}
	b.marks[row+feature] = mark
}

// publish prints the table and holds that the page has it. A run of some of it says
// nothing of the rest.
func (b *table) publish(t *testing.T) {
	var out strings.Builder
	out.WriteString("| client | engine over | " + strings.Join(b.columns, " | ") + " |\n" + strings.Repeat("|---", len(b.columns)+2) + "|\n")
	for _, row := range b.rows {
		out.WriteString(row)
		for _, f := range b.columns {
			fmt.Fprintf(&out, " %s |", b.marks[row+f])
		}
		out.WriteString("\n")
	}
	fmt.Println(out.String())
	if t.Failed() || len(b.marks) < len(features())*len(rig.Dialects())*len(upstreams) {
		return
	}
	page, err := os.ReadFile("page.md")
	if err != nil {
		t.Fatal(err)
	}
	rig.Page(t, "engines", strings.Replace(string(page), "$TABLE", strings.TrimSpace(out.String()), 1))
}

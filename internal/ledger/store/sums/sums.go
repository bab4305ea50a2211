// Package sums has the tables of the ledger's sums: by hour and by day, with fewer or more columns. Add writes
// them in the transaction of the rows, and Usage reads the smallest of them that has what is asked.
package sums

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/labels"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// column is a column of the key of a table of sums, besides the time.
type column int

const (
	labelColumn column = iota
	valueColumn
	orgColumn
	teamColumn
	keyColumn
	modelColumn
	targetColumn
	columnCount
)

func (c column) String() string {
	return [...]string{"label", "value", "org", "team", "key_id", "model", "target"}[c]
}

// key identifies a row of a table of sums. Texts that the table does not have are empty.
type key struct {
	at   int64 // the hour or the day
	text [columnCount]string
}

func keyOf(r *usage.Row, l labels.Label) key {
	return key{HourOf(r.Began), [...]string{l.Name, l.Value, r.Org, r.Team, r.Key, r.Model, r.Target}}
}

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.at, o.at), slices.Compare(k.text[:], o.text[:]))
}

// table is a table of sums.
type table struct {
	name string
	at   string // the column of the time: hour, or day of UTC
	per  int64  // hours of a row
	by   []column
	most []string // columns with a maximum
}

// The tables of sums by label and of all sums, those with fewer rows first. Usage reads the first that has all
// columns of a question. They are written in this order.
var (
	labelTables = []table{
		{name: "value_days", at: "day", per: 24, by: []column{labelColumn, valueColumn, orgColumn}},
		{name: "value_model_days", at: "day", per: 24, by: []column{labelColumn, valueColumn, orgColumn, modelColumn, targetColumn}},
		{name: "label_hours", at: "hour", per: 1, by: []column{labelColumn, valueColumn, orgColumn, teamColumn, keyColumn, modelColumn, targetColumn}},
	}
	allTables = []table{
		{name: "model_days", at: "day", per: 24, by: []column{orgColumn, modelColumn, targetColumn}},
		{name: "key_days", at: "day", per: 24, by: []column{orgColumn, teamColumn, keyColumn}},
		{name: "days", at: "day", per: 24, by: []column{orgColumn, teamColumn, keyColumn, modelColumn, targetColumn}},
		{name: "model_hours", at: "hour", per: 1, by: []column{orgColumn, modelColumn, targetColumn}, most: []string{"longest", "dearest"}},
		{name: "hours", at: "hour", per: 1, by: []column{orgColumn, teamColumn, keyColumn, modelColumn, targetColumn}},
	}
)

// sums is the sum of rows.
type sums struct {
	requests, unknown, estimated int64
	usage                        llm.Usage
	cost                         int64
	errors, refused              int64
	firstToken                   usage.Histogram
	longest, dearest             int64
}

func (t *sums) add(r *usage.Row) {
	t.requests++
	if r.Cost != nil {
		t.cost += int64(*r.Cost)
		t.dearest = max(t.dearest, int64(*r.Cost))
	} else {
		t.unknown++
	}
	if r.Estimated {
		t.estimated++
	}
	if r.Outcome == usage.Failed || r.Outcome == usage.Lost {
		t.errors++
	}
	t.firstToken.Add(r.FirstToken)
	t.longest = max(t.longest, int64(r.Took))
	t.usage = t.usage.Add(r.Usage)
}

// merge adds the sum of other rows.
func (t *sums) merge(o *sums) {
	t.requests += o.requests
	t.unknown += o.unknown
	t.estimated += o.estimated
	t.usage = t.usage.Add(o.usage)
	t.cost += o.cost
	t.errors += o.errors
	t.refused += o.refused
	for i := range t.firstToken {
		t.firstToken[i] += o.firstToken[i]
	}
	t.longest, t.dearest = max(t.longest, o.longest), max(t.dearest, o.dearest)
}

// HourOf returns the hour of a time, counted from 1970.
func HourOf(t time.Time) int64 { return db.Nanos(t) / int64(time.Hour) }

// Add adds rows to all tables, in a fixed order: tables one after the other, and the rows of each by their keys.
func Add(ctx context.Context, c db.Conn, rows []usage.Row) error {
	labelled, err := sumsByLabel(ctx, c, rows)
	if err != nil {
		return err
	}
	all := map[key]*sums{}
	for i := range rows {
		sumsOf(all, keyOf(&rows[i], labels.Label{})).add(&rows[i])
	}
	if err := addTables(ctx, c, labelTables, labelled); err != nil {
		return err
	}
	if err := addTables(ctx, c, allTables, all); err != nil {
		return err
	}
	return addUnits(ctx, c, labelled, all)
}

// sumsByLabel returns the sums by label and hour of rows, and admits new values. Most rows have no labels.
func sumsByLabel(ctx context.Context, c db.Conn, rows []usage.Row) (map[key]*sums, error) {
	day := func(r *usage.Row) labels.Day { return labels.Day{Org: r.Org, Day: HourOf(r.Began) / 24} }
	wanted := map[labels.Value]bool{}
	for i := range rows {
		for _, l := range labels.Of(&rows[i].Labels) {
			wanted[labels.Value{Day: day(&rows[i]), Label: labels.Label{Name: l.Name}}] = true
			wanted[labels.Value{Day: day(&rows[i]), Label: l}] = true
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	admitted, added, err := labels.Tx{Exec: c.Exec, Rows: c.Rows}.Admit(ctx, wanted)
	if err != nil {
		return nil, err
	}
	in := db.Insert{Head: `INSERT INTO label_values (org, day, label, value) `}
	for _, v := range added {
		in.Rows = append(in.Rows, []any{v.Org, v.Day.Day, v.Name, v.Value})
	}
	if err := in.Run(ctx, c); err != nil {
		return nil, err
	}
	out := map[key]*sums{}
	for i := range rows {
		r := &rows[i]
		for _, l := range admitted.CountedAs(day(r), labels.Of(&r.Labels)) {
			sumsOf(out, keyOf(r, l)).add(r)
		}
	}
	return out, nil
}

func sumsOf(m map[key]*sums, k key) *sums {
	if m[k] == nil {
		m[k] = &sums{}
	}
	return m[k]
}

// countColumns are the columns of all tables of sums that are added.
var countColumns = [...]string{"requests", "unknown", "estimated", "input", "cache_read", "cache_write", "output", "reasoning", "cost",
	"errors", "refused", "token_1", "token_2", "token_3", "token_4", "token_5", "token_6", "token_7", "token_8"}

// addTables adds sums by hour with all columns to tables.
func addTables(ctx context.Context, c db.Conn, tables []table, finest map[key]*sums) error {
	for i := range tables {
		if err := tables[i].add(ctx, c, finest); err != nil {
			return err
		}
	}
	return nil
}

// add adds sums by hour with all columns to the rows of the table.
func (t *table) add(ctx context.Context, c db.Conn, finest map[key]*sums) error {
	list := make(map[key]*sums, len(finest))
	for k, sum := range finest {
		own := key{at: k.at / t.per}
		for _, column := range t.by {
			own.text[column] = k.text[column]
		}
		sumsOf(list, own).merge(sum)
	}
	in := t.insert()
	for _, k := range slices.SortedFunc(maps.Keys(list), key.compare) {
		in.Rows = append(in.Rows, list[k].args(t, k))
	}
	return in.Run(ctx, c)
}

// insert returns the statement that adds counts to the row with the same key.
func (t *table) insert() db.Insert {
	key := t.at + ", " + joined(t.by)
	set := make([]string, len(countColumns))
	for i, name := range countColumns {
		set[i] = name + " = " + t.name + "." + name + " + excluded." + name
	}
	for _, name := range t.most {
		set = append(set, name+" = CASE WHEN "+t.name+"."+name+" < excluded."+name+" THEN excluded."+name+" ELSE "+t.name+"."+name+" END")
	}
	return db.Insert{
		Head: `INSERT INTO ` + t.name + ` (` + key + `, ` + strings.Join(slices.Concat(countColumns[:], t.most), ", ") + `) `,
		Tail: ` ON CONFLICT (` + key + `) DO UPDATE SET ` + strings.Join(set, ", "),
	}
}

// joined returns a list of columns.
func joined(columns []column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.String()
	}
	return strings.Join(names, ", ")
}

// args returns the arguments of a row.
func (t *sums) args(to *table, k key) []any {
	out := append(make([]any, 0, 1+len(to.by)+len(countColumns)+len(to.most)), k.at)
	for _, column := range to.by {
		out = append(out, k.text[column])
	}
	out = append(out, t.requests, t.unknown, t.estimated,
		t.usage.Input, t.usage.CacheRead, t.usage.CacheWrite, t.usage.Output, t.usage.Reasoning, t.cost, t.errors, t.refused)
	for _, n := range t.firstToken {
		out = append(out, n)
	}
	if len(to.most) > 0 {
		out = append(out, t.longest, t.dearest)
	}
	return out
}

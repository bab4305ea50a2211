package sums

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/labels"
	"github.com/isogloss-gateway/isogloss/llm"
)

// unitTable is the table with the sums of all units that have no column in the other tables: one row for each hour,
// label, value, organisation, team, key, model, target and unit. The sums of all requests have an empty label.
const unitTable = "unit_hours"

// unitColumns are the columns of its key besides the hour and the unit.
var unitColumns = []column{labelColumn, valueColumn, orgColumn, teamColumn, keyColumn, modelColumn, targetColumn}

// addUnits adds the amounts of units without a column to their table. Most requests have none.
func addUnits(ctx context.Context, c db.Conn, lists ...map[key]*sums) error {
	columns := "hour, " + joined(unitColumns) + ", unit"
	in := db.Insert{
		Head: `INSERT INTO ` + unitTable + ` (` + columns + `, amount) `,
		Tail: ` ON CONFLICT (` + columns + `) DO UPDATE SET amount = ` + unitTable + `.amount + excluded.amount`,
	}
	for _, list := range lists {
		maps.DeleteFunc(list, func(_ key, s *sums) bool { return s.usage.Other == llm.Amounts{} })
		for _, k := range slices.SortedFunc(maps.Keys(list), key.compare) {
			for i, u := range llm.OtherUnits() {
				if n := list[k].usage.Other[i]; n != 0 {
					row := []any{k.at}
					for _, column := range unitColumns {
						row = append(row, k.text[column])
					}
					in.Rows = append(in.Rows, append(row, u.Key, n))
				}
			}
		}
	}
	return in.Run(ctx, c)
}

// readUnits sets the amounts of units without a column in the sums of a result.
func (q *Query) readUnits(ctx context.Context, c db.Conn, by groups, l labels.Label, list []Sum) error {
	var w db.Where
	parts := []string{q.unitPart(&w, by, l, "value", "amount")}
	if l.Name != "" && l.Value == "" { // the requests without the label are all requests less those with it
		parts = append(parts, q.unitPart(&w, by, labels.Label{}, "''", "amount"), q.unitPart(&w, by, l, "''", "-amount"))
	}
	columns := strings.Join(append(by.names(), "unit"), ", ")
	query := `SELECT ` + columns + `, CAST(sum(amount) AS BIGINT) FROM (` + strings.Join(parts, ` UNION ALL `) + `) parts GROUP BY ` + columns
	places := make(map[Place]*Sum, len(list))
	for i := range list {
		places[list[i].Place()] = &list[i]
	}
	return c.Rows(ctx, func(row db.Scan) error {
		var own Sum
		var at, amount int64
		var unit string
		err := row(append(by.dest(&own, &at), &unit, &amount)...)
		own.Start = by.start(at)
		i := slices.IndexFunc(llm.OtherUnits(), func(u llm.Unit) bool { return u.Key == unit })
		if to := places[own.Place()]; to != nil && i >= 0 { // otherwise a newer release has the unit
			to.Usage.Other[i] = amount
		}
		return err
	}, query, w.Args...)
}

// unitPart returns the query for the amounts of the units of a label. value and amount are the SQL expressions of
// the columns with these names.
func (q *Query) unitPart(w *db.Where, by groups, l labels.Label, value, amount string) string {
	from, to := q.hours()
	w.Conditions = nil
	w.Add("label = ", l.Name)
	w.Add("hour >= ", from)
	w.Add("hour < ", to)
	for c, text := range q.filter(l) {
		w.AddIf(text != "" && column(c) != labelColumn, column(c).String()+" = ", text)
	}
	var columns []string
	for _, name := range by.names() {
		switch {
		case name == "at" && by.per > 1:
			name = "hour / 24 AS at"
		case name == "at":
			name = "hour AS at"
		case name == valueColumn.String():
			name = value + " AS value"
		}
		columns = append(columns, name)
	}
	return `SELECT ` + strings.Join(append(columns, "unit", amount+" AS amount"), ", ") + ` FROM ` + unitTable + w.Text()
}

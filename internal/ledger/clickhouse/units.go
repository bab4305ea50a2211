package clickhouse

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/llm"
)

// addUnits adds the amounts of units without a column to sums. The index of the column skips nearly all rows that have
// none.
func (d *DB) addUnits(ctx context.Context, q *store.UsageQuery, by []string, sums []store.Sum) error {
	places := make(map[store.Place]*store.Sum, len(sums))
	for i := range sums {
		places[sums[i].Place()] = &sums[i]
	}
	settings := url.Values{"max_rows_to_group_by": {strconv.Itoa(store.MaxGroups * llm.OtherCount)}}
	err := d.query(ctx, unitQuery(q, by), store.MaxGroups*llm.OtherCount, settings, func(row []jsontext.Value) error {
		var own store.Sum
		var unit string
		var amount int64
		err := scanGroups(row, q.GroupBy, &own, []any{&unit, &amount})
		i := slices.IndexFunc(llm.OtherUnits(), func(u llm.Unit) bool { return u.Key == unit })
		if sum := places[own.Place()]; sum != nil && i >= 0 {
			sum.Usage.Other[i] = amount
		}
		return err
	})
	if isUnknownColumn(err) { // no consumer of this release has added it yet
		return nil
	}
	return err
}

// unitQuery returns the query for the amounts of units by columns.
func unitQuery(q *store.UsageQuery, by []string) string {
	var keys, names, columns []string
	for _, u := range llm.OtherUnits() {
		keys = append(keys, quote(u.Key))
	}
	where := append(filterOf(q), spansOf(q, true, false)[0].where...)
	where = append(where, "hasAny(mapKeys(units), ["+strings.Join(keys, ", ")+"])")
	for i, column := range by {
		names = append(names, "g"+strconv.Itoa(i))
		columns = append(columns, column+" AS "+names[i])
	}
	group := strings.Join(append(names, "unit"), ", ")
	return "SELECT " + strings.Join(append(columns, "unit", "sum(amount)"), ", ") +
		" FROM requests ARRAY JOIN mapKeys(units) AS unit, mapValues(units) AS amount" + where.text() +
		" AND unit IN (" + strings.Join(keys, ", ") + ") GROUP BY " + group
}

func isUnknownColumn(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Code: 47.") // UNKNOWN_IDENTIFIER
}

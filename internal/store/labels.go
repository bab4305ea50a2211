package store

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/store/db"
	"github.com/isogloss-gateway/isogloss/internal/store/labels"
	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// appendLabels adds the labels of rows that are new.
func appendLabels(ctx context.Context, c db.Conn, rows []usage.Row) error {
	in := db.Insert{Head: `INSERT INTO labels (label, value, began, request_id) VALUES `}
	for i := range rows {
		for _, l := range labels.Of(&rows[i].Labels) {
			in.Rows = append(in.Rows, []any{l.Name, l.Value, nanos(rows[i].Began), rows[i].ID})
		}
	}
	return in.Run(ctx, c)
}

// labelKey identifies a row of the table label_hours.
type labelKey struct {
	labels.Label
	hoursKey
}

// addLabels adds rows to the sums by label. Most rows have no labels.
func addLabels(ctx context.Context, c db.Conn, rows []usage.Row) error {
	day := func(r *usage.Row) labels.Day { return labels.Day{Org: r.Org, Day: hourOf(r.Began) / 24} }
	wanted := map[labels.Value]bool{}
	for i := range rows {
		for _, l := range labels.Of(&rows[i].Labels) {
			wanted[labels.Value{Day: day(&rows[i]), Label: labels.Label{Name: l.Name}}] = true
			wanted[labels.Value{Day: day(&rows[i]), Label: l}] = true
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	admitted, added, err := labels.Tx{Exec: c.Exec, Rows: c.Rows}.Admit(ctx, wanted)
	if err != nil {
		return err
	}
	in := db.Insert{Head: `INSERT INTO label_values (org, day, label, value) VALUES `}
	for _, v := range added {
		in.Rows = append(in.Rows, []any{v.Org, v.Day.Day, v.Name, v.Value})
	}
	if err := in.Run(ctx, c); err != nil {
		return err
	}
	hours := map[labelKey]*sums{}
	for i := range rows {
		r := &rows[i]
		for _, l := range admitted.CountedAs(day(r), labels.Of(&r.Labels)) {
			sumsOf(hours, labelKey{l, hoursKey{r.Org, hourOf(r.Began), r.Team, r.Key, r.Model, r.Target}}).add(r)
		}
	}
	return addLabelHours(ctx, c, hours)
}

func addLabelHours(ctx context.Context, c db.Conn, sums map[labelKey]*sums) error {
	in := addCounts("label_hours", "org, label, hour, value, team, key_id, model, target")
	for _, k := range slices.SortedFunc(maps.Keys(sums), func(a, b labelKey) int {
		return cmp.Or(a.compare(b.hoursKey), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value))
	}) {
		in.Rows = append(in.Rows, sums[k].args(k.org, k.Name, k.hour, k.Value, k.team, k.key, k.model, k.target))
	}
	return in.Run(ctx, c)
}

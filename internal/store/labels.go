package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/store/db"
	"github.com/isogloss-gateway/isogloss/internal/store/labels"
	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// appendLabels adds the labels of rows that are new.
func appendLabels(ctx context.Context, c db.Conn, rows []usage.Row) error {
	in := db.Insert{Head: `INSERT INTO labels (request_id, label, value, began) VALUES `}
	for i := range rows {
		for _, l := range labels.Of(&rows[i].Labels) {
			in.Rows = append(in.Rows, []any{rows[i].ID, l.Name, l.Value, nanos(rows[i].Began)})
		}
	}
	return in.Run(ctx, c)
}

// readLabels loads the labels of rows.
func readLabels(ctx context.Context, c db.Conn, rows []usage.Row) error {
	w, in, places := whereIn(rows)
	return c.Rows(ctx, func(row db.Scan) error {
		var id string
		var l labels.Label
		if err := row(&id, &l.Name, &l.Value); err != nil {
			return err
		}
		r := &rows[places[id]]
		if key, ok := strings.CutPrefix(l.Name, labels.TagPrefix); ok {
			r.Tags = append(r.Tags, usage.Tag{Key: key, Value: l.Value})
		} else {
			r.User = l.Value
		}
		return nil
	}, `SELECT request_id, label, value FROM labels WHERE request_id IN (`+in+`) ORDER BY request_id, label`, w.Args...)
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
	in := db.Insert{
		Head: `INSERT INTO label_hours (org, label, hour, value, team, key_id, model, target, requests, unknown, estimated, input, cache_read, cache_write, output, reasoning, cost) VALUES `,
		Tail: ` ON CONFLICT (org, label, hour, value, team, key_id, model, target) DO UPDATE SET requests = label_hours.requests + excluded.requests,
			unknown = label_hours.unknown + excluded.unknown, estimated = label_hours.estimated + excluded.estimated,
			input = label_hours.input + excluded.input, cache_read = label_hours.cache_read + excluded.cache_read, cache_write = label_hours.cache_write + excluded.cache_write,
			output = label_hours.output + excluded.output, reasoning = label_hours.reasoning + excluded.reasoning, cost = label_hours.cost + excluded.cost`,
	}
	for _, k := range slices.SortedFunc(maps.Keys(sums), func(a, b labelKey) int {
		return cmp.Or(a.compare(b.hoursKey), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value))
	}) {
		in.Rows = append(in.Rows, sums[k].args(k.org, k.Name, k.hour, k.Value, k.team, k.key, k.model, k.target))
	}
	return in.Run(ctx, c)
}

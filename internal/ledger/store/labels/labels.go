// Package labels decides which labels of requests have sums of their own in the ledger. An
// organisation's labels have a bounded number of values on each day; what exceeds it is counted
// together, so that the sums stay complete.
package labels

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Bounds of the sums, for an organisation and a day.
const (
	MaxValues = 1000 // of a label
	MaxKeys   = 32   // of tags
)

// User is the name of the end user's label, and TagPrefix begins the names of tags.
const (
	User      = "user"
	TagPrefix = "tag:"
)

// Other is the value of sums that exceed the bounds, and otherTag the label of tags whose keys do.
const (
	Other    = "other"
	otherTag = TagPrefix + Other
)

// Label is a label as the tables have it: user or tag:KEY, and the value.
type Label struct{ Name, Value string }

// Of returns the labels of a request.
func Of(l *usage.Labels) (out []Label) {
	if l.User != "" {
		out = append(out, Label{User, l.User})
	}
	for _, t := range l.Tags {
		out = append(out, Label{TagPrefix + t.Key, t.Value})
	}
	return out
}

// Day is the scope of the bounds: a day of an organisation.
type Day struct {
	Org string
	Day int64 // since 1970
}

// Value is a value that has sums of its own. An empty value stands for the label itself.
type Value struct {
	Day
	Label
}

// Admitted are the values that have sums of their own.
type Admitted map[Value]bool

// CountedAs returns the labels in whose sums a request is counted, each name once.
func (a Admitted) CountedAs(d Day, all []Label) (out []Label) {
	for _, l := range all {
		switch {
		case !a[Value{d, Label{l.Name, ""}}]:
			l = Label{otherTag, Other}
		case !a[Value{d, l}]:
			l.Value = Other
		}
		if !slices.ContainsFunc(out, func(o Label) bool { return o.Name == l.Name }) {
			out = append(out, l)
		}
	}
	return out
}

// Tx is a transaction of the store.
type Tx struct {
	Exec func(ctx context.Context, query string, args ...any) error
	Rows func(ctx context.Context, each func(scan func(dest ...any) error) error, query string, args ...any) error
}

// Admit returns the values that have sums of their own. It admits new values while their day has
// room; the caller inserts these in the same transaction. All nodes decide alike: who adds values
// holds the lock of the day, and values stay.
func (tx Tx) Admit(ctx context.Context, wanted map[Value]bool) (admitted Admitted, added []Value, err error) {
	admitted = make(Admitted, len(wanted))
	missing := make([]Value, 0, len(wanted))
	for v := range wanted {
		missing = append(missing, v)
	}
	if err := tx.read(ctx, missing, admitted); err != nil {
		return nil, nil, err
	}
	missing = slices.DeleteFunc(missing, func(v Value) bool { return admitted[v] })
	slices.SortFunc(missing, func(a, b Value) int { // in the order in which all transactions lock
		return cmp.Or(cmp.Compare(a.Org, b.Org), cmp.Compare(a.Day.Day, b.Day.Day), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value))
	})
	for first := 0; first < len(missing); {
		end := first + 1
		for end < len(missing) && missing[end].Day == missing[first].Day {
			end++
		}
		if added, err = tx.add(ctx, missing[first:end], admitted, added); err != nil {
			return nil, nil, err
		}
		first = end
	}
	return admitted, added, nil
}

// add admits values of one day, which are sorted, up to its bounds.
func (tx Tx) add(ctx context.Context, missing []Value, admitted Admitted, added []Value) ([]Value, error) {
	d := missing[0].Day
	err := tx.Exec(ctx, `INSERT INTO label_days (org, day) VALUES ($1, $2) ON CONFLICT (org, day) DO UPDATE SET day = excluded.day`, d.Org, d.Day)
	if err != nil {
		return nil, err
	}
	if err := tx.read(ctx, missing, admitted); err != nil { // another node may have added them
		return nil, err
	}
	values, keys, err := tx.count(ctx, d)
	if err != nil {
		return nil, err
	}
	for _, v := range missing {
		switch {
		case admitted[v]:
			continue
		case v.Value != "":
			if !admitted[Value{d, Label{v.Name, ""}}] || values[v.Name] >= MaxValues || v.Value == Other {
				continue
			}
			values[v.Name]++
		case isCounted(v.Name):
			if keys >= MaxKeys {
				continue
			}
			keys++
		}
		admitted[v] = true
		added = append(added, v)
	}
	return added, nil
}

// count returns the number of values of each label on a day, and the number of tag keys.
func (tx Tx) count(ctx context.Context, d Day) (values map[string]int64, keys int, err error) {
	values = map[string]int64{}
	err = tx.Rows(ctx, func(scan func(...any) error) error {
		var name string
		var n int64
		err := scan(&name, &n)
		values[name] = n - 1 // without the label itself
		if isCounted(name) {
			keys++
		}
		return err
	}, `SELECT label, count(*) FROM label_values WHERE org = $1 AND day = $2 GROUP BY label`, d.Org, d.Day)
	return values, keys, err
}

// isCounted reports whether a label counts against the bound of tag keys.
func isCounted(name string) bool { return strings.HasPrefix(name, TagPrefix) && name != otherTag }

// read marks those of the values that the table has.
func (tx Tx) read(ctx context.Context, wanted []Value, have Admitted) error {
	const most = 100 // values of a query
	for part := range slices.Chunk(wanted, most) {
		var args []any
		var each []string
		for _, v := range part {
			n := len(args)
			each = append(each, `(org = $`+strconv.Itoa(n+1)+` AND day = $`+strconv.Itoa(n+2)+` AND label = $`+strconv.Itoa(n+3)+` AND value = $`+strconv.Itoa(n+4)+`)`)
			args = append(args, v.Org, v.Day.Day, v.Name, v.Value)
		}
		err := tx.Rows(ctx, func(scan func(...any) error) error {
			var v Value
			err := scan(&v.Org, &v.Day.Day, &v.Name, &v.Value)
			have[v] = true
			return err
		}, `SELECT org, day, label, value FROM label_values WHERE `+strings.Join(each, ` OR `), args...)
		if err != nil {
			return err
		}
	}
	return nil
}

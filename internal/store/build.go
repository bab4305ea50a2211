package store

import (
	"context"
	"strconv"
	"strings"
)

// marks is the list of arguments for one row, "($1, $2)".
func marks(first, n int) string {
	b := make([]byte, 0, 8*n)
	for i := range n {
		b = append(b, ", $"...)
		b = strconv.AppendInt(b, int64(first+i), 10)
	}
	b[0] = '('
	return strings.Replace(string(append(b, ')')), " ", "", 1)
}

// insert adds rows of the same width, with as few statements as can be had, and calls
// each for what they return, if they do.
type insert struct {
	head, tail string
	rows       [][]any
}

func (in insert) run(ctx context.Context, c conn, each func(scan) error) error {
	for rows := in.rows; len(rows) > 0; {
		n := min(len(rows), c.kind.rows)
		var query strings.Builder
		query.WriteString(in.head)
		var args []any
		for i, row := range rows[:n] {
			if i > 0 {
				query.WriteByte(',')
			}
			query.WriteString(marks(len(args)+1, len(row)))
			args = append(args, row...)
		}
		query.WriteString(in.tail)
		rows = rows[n:]
		if each != nil {
			if err := c.rows(ctx, each, query.String(), args...); err != nil {
				return err
			}
		} else if err := c.exec(ctx, query.String(), args...); err != nil {
			return err
		}
	}
	return nil
}

// where gathers conditions and their arguments. Conditions are constants; what comes
// from outside is only ever an argument.
type where struct {
	conditions []string
	args       []any
}

func (w *where) add(condition string, arg any) {
	w.conditions = append(w.conditions, condition+w.arg(arg))
}

func (w *where) addIf(wanted bool, condition string, arg any) {
	if wanted {
		w.add(condition, arg)
	}
}

// arg adds an argument and returns how a query writes it.
func (w *where) arg(v any) string {
	w.args = append(w.args, v)
	return "$" + strconv.Itoa(len(w.args))
}

func (w *where) text() string {
	if len(w.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conditions, " AND ")
}

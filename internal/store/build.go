package store

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// placeholders returns the placeholders of a row, "($1, $2)".
func placeholders(first, n int) string {
	b := make([]byte, 0, 8*n)
	for i := range n {
		b = append(b, ", $"...)
		b = strconv.AppendInt(b, int64(first+i), 10)
	}
	b[0] = '('
	return strings.Replace(string(append(b, ')')), " ", "", 1)
}

// insert inserts rows of the same width.
type insert struct {
	head, tail string
	rows       [][]any
	inserted   func(id string) // called with the first column of each row that is new; may be nil
}

func (in insert) run(ctx context.Context, c conn) error {
	if len(in.rows) == 0 {
		return nil
	}
	for _, row := range in.rows {
		if err := checkText(row); err != nil {
			return err
		}
	}
	return c.kind.insert(ctx, c, in)
}

// batchRows is the number of rows per statement.
const batchRows = 500

// insertBatch sends many rows in one statement, for a database on the network.
func insertBatch(ctx context.Context, c conn, in insert) error {
	for rows := range slices.Chunk(in.rows, batchRows) { // PostgreSQL allows 65,535 arguments
		if err := in.runBatch(ctx, c, rows); err != nil {
			return err
		}
	}
	return nil
}

func (in insert) runBatch(ctx context.Context, c conn, rows [][]any) error {
	args := make([]any, 0, len(rows)*len(rows[0]))
	var query strings.Builder
	query.Grow(len(in.head) + len(in.tail) + 8*cap(args)) // a placeholder such as ",$10500"
	query.WriteString(in.head)
	for i, row := range rows {
		if i > 0 {
			query.WriteByte(',')
		}
		query.WriteString(placeholders(len(args)+1, len(row)))
		args = append(args, row...)
	}
	query.WriteString(in.tail)
	if in.inserted == nil {
		return c.exec(ctx, query.String(), args...)
	}
	query.WriteString(" RETURNING id")
	return c.rows(ctx, func(row scan) error {
		var id string
		err := row(&id)
		in.inserted(id)
		return err
	}, query.String(), args...)
}

// insertRowByRow executes one prepared statement per row, for a database in this process: a
// statement with many rows would be parsed again for each batch, which costs most. It checks the
// context between rows instead of passing it, because the driver would start a goroutine per row. A
// row does not wait: the transaction has the lock.
func insertRowByRow(ctx context.Context, c conn, in insert) error {
	unbounded := context.WithoutCancel(ctx)
	// Unnumbered placeholders have no names, which the driver would look up each time.
	unnamed := "(?" + strings.Repeat(", ?", len(in.rows[0])-1) + ")"
	one, err := c.h.PrepareContext(ctx, in.head+unnamed+in.tail)
	if err != nil {
		return err
	}
	defer one.Close()
	for _, row := range in.rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		done, err := one.ExecContext(unbounded, row...)
		if err != nil {
			return err
		}
		if in.inserted == nil {
			continue
		}
		if n, err := done.RowsAffected(); err != nil {
			return err
		} else if n > 0 {
			in.inserted(row[0].(string)) //nolint:forcetypeassert // an id
		}
	}
	return nil
}

// where collects conditions and their arguments. Conditions are constants; external values are
// always arguments.
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

// arg adds an argument and returns its placeholder.
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

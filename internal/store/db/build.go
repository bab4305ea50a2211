package db

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// Placeholders returns the placeholders of a row, "($1, $2)".
func Placeholders(first, n int) string {
	b := make([]byte, 0, 8*n)
	for i := range n {
		b = append(b, ", $"...)
		b = strconv.AppendInt(b, int64(first+i), 10)
	}
	b[0] = '('
	return strings.Replace(string(append(b, ')')), " ", "", 1)
}

// Insert inserts rows of the same width.
type Insert struct {
	Head, Tail string // the statement before and after the values
	Rows       [][]any
	Inserted   func(id string) // called with the first column of each row that is new; may be nil
}

// Run runs the statement. It does nothing without rows.
func (in Insert) Run(ctx context.Context, c Conn) error {
	if len(in.Rows) == 0 {
		return nil
	}
	for _, row := range in.Rows {
		if err := checkText(row); err != nil {
			return err
		}
	}
	return c.kind.insert(ctx, c, in)
}

// batchRows is the number of rows per statement.
const batchRows = 500

// insertBatch sends many rows in one statement, for a database on the network.
func insertBatch(ctx context.Context, c Conn, in Insert) error {
	for rows := range slices.Chunk(in.Rows, batchRows) { // PostgreSQL allows 65,535 arguments
		if err := in.runBatch(ctx, c, rows); err != nil {
			return err
		}
	}
	return nil
}

func (in Insert) runBatch(ctx context.Context, c Conn, rows [][]any) error {
	args := make([]any, 0, len(rows)*len(rows[0]))
	var query strings.Builder
	query.Grow(len(in.Head) + len(in.Tail) + 8*cap(args)) // a placeholder such as ",$10500"
	query.WriteString(in.Head)
	for i, row := range rows {
		if i > 0 {
			query.WriteByte(',')
		}
		query.WriteString(Placeholders(len(args)+1, len(row)))
		args = append(args, row...)
	}
	query.WriteString(in.Tail)
	if in.Inserted == nil {
		return c.Exec(ctx, query.String(), args...)
	}
	query.WriteString(" RETURNING id")
	return c.Rows(ctx, func(row Scan) error {
		var id string
		err := row(&id)
		in.Inserted(id)
		return err
	}, query.String(), args...)
}

// insertRowByRow executes one prepared statement per row, for a database in this process: a
// statement with many rows would be parsed again for each batch, which costs most. It checks the
// context between rows instead of passing it, because the driver would start a goroutine per row. A
// row does not wait: the transaction has the lock.
func insertRowByRow(ctx context.Context, c Conn, in Insert) error {
	unbounded := context.WithoutCancel(ctx)
	// Unnumbered placeholders have no names, which the driver would look up each time.
	unnamed := "(?" + strings.Repeat(", ?", len(in.Rows[0])-1) + ")"
	one, err := c.h.PrepareContext(ctx, in.Head+unnamed+in.Tail)
	if err != nil {
		return err
	}
	defer one.Close()
	for _, row := range in.Rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		done, err := one.ExecContext(unbounded, row...)
		if err != nil {
			return err
		}
		if in.Inserted == nil {
			continue
		}
		if n, err := done.RowsAffected(); err != nil {
			return err
		} else if n > 0 {
			in.Inserted(row[0].(string)) //nolint:forcetypeassert // an id
		}
	}
	return nil
}

// Where collects conditions and their arguments. Conditions are constants; external values are
// always arguments.
type Where struct {
	Conditions []string
	Args       []any
}

// Add adds a condition that ends with an argument.
func (w *Where) Add(condition string, arg any) {
	w.Conditions = append(w.Conditions, condition+w.Arg(arg))
}

// AddIf adds a condition if it is wanted.
func (w *Where) AddIf(wanted bool, condition string, arg any) {
	if wanted {
		w.Add(condition, arg)
	}
}

// Arg adds an argument and returns its placeholder.
func (w *Where) Arg(v any) string {
	w.Args = append(w.Args, v)
	return "$" + strconv.Itoa(len(w.Args))
}

// Text returns the clause, or nothing without conditions.
func (w *Where) Text() string {
	if len(w.Conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.Conditions, " AND ")
}

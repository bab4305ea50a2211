package store

import (
	"context"
	"slices"
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

// insert adds rows of the same width.
type insert struct {
	head, tail string
	rows       [][]any
	took       func(id string) // told of each row that is new, by its first column; nil where that does not matter
}

func (in insert) run(ctx context.Context, c conn) error {
	if len(in.rows) == 0 {
		return nil
	}
	for _, row := range in.rows {
		if err := clean(row); err != nil {
			return err
		}
	}
	return c.kind.insert(ctx, c, in)
}

// insertTogether sends many rows in one statement, for a database that is a round trip
// away.
func insertTogether(ctx context.Context, c conn, in insert) error {
	for rows := range slices.Chunk(in.rows, batchRows) { // PostgreSQL takes 65,535 arguments
		if err := in.together(ctx, c, rows); err != nil {
			return err
		}
	}
	return nil
}

func (in insert) together(ctx context.Context, c conn, rows [][]any) error {
	args := make([]any, 0, len(rows)*len(rows[0]))
	var query strings.Builder
	query.Grow(len(in.head) + len(in.tail) + 8*cap(args)) // an argument is written as ",$10500"
	query.WriteString(in.head)
	for i, row := range rows {
		if i > 0 {
			query.WriteByte(',')
		}
		query.WriteString(marks(len(args)+1, len(row)))
		args = append(args, row...)
	}
	query.WriteString(in.tail)
	if in.took == nil {
		return c.exec(ctx, query.String(), args...)
	}
	query.WriteString(" RETURNING id")
	return c.rows(ctx, func(row scan) error {
		var id string
		err := row(&id)
		in.took(id)
		return err
	}, query.String(), args...)
}

// insertEach runs one statement for every row, for a database in this process: there a
// statement with many rows is parsed anew for each batch, which costs more than all
// else. The context is looked at between rows and not given to them, because the driver
// would start a goroutine for each to listen to it. A row waits for nobody: the
// transaction has the lock.
func insertEach(ctx context.Context, c conn, in insert) error {
	unbounded := context.WithoutCancel(ctx)
	// Arguments without numbers have no names, which the driver would ask for each time.
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
		if in.took == nil {
			continue
		}
		if n, err := done.RowsAffected(); err != nil {
			return err
		} else if n > 0 {
			in.took(row[0].(string)) //nolint:forcetypeassert // an id
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

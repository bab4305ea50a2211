package db

import (
	"context"
	"fmt"
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
	Head, Tail string // the statement before and after the values, for example "INSERT INTO t (a) " and " ON CONFLICT (a) DO NOTHING"
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

// insertBatch sends many rows in one statement, for a database on the network. Each column is one argument, an
// array: a placeholder for each value would make the server parse and plan thousands of them.
func insertBatch(ctx context.Context, c Conn, in Insert) error {
	for rows := range slices.Chunk(in.Rows, batchRows) {
		if err := in.runBatch(ctx, c, rows); err != nil {
			return err
		}
	}
	return nil
}

func (in Insert) runBatch(ctx context.Context, c Conn, rows [][]any) error {
	args, types := make([]any, len(rows[0])), make([]string, len(rows[0]))
	for i := range args {
		var err error
		if args[i], types[i], err = columnOf(rows, i); err != nil {
			return err
		}
		types[i] = "$" + strconv.Itoa(i+1) + "::" + types[i]
	}
	query := in.Head + "SELECT * FROM unnest(" + strings.Join(types, ", ") + ")" + in.Tail
	if in.Inserted == nil {
		return c.Exec(ctx, query, args...)
	}
	return c.Rows(ctx, func(row Scan) error {
		var id string
		err := row(&id)
		in.Inserted(id)
		return err
	}, query+" RETURNING id", args...)
}

// columnOf returns the values of a column as an array, and the type of the array.
func columnOf(rows [][]any, i int) (array any, name string, err error) {
	for _, row := range rows {
		switch row[i].(type) {
		case nil: // another row has the type
			continue
		case string:
			array, err = arrayOf[string](rows, i)
			return array, "text[]", err
		case int64:
			array, err = arrayOf[int64](rows, i)
			return array, "bigint[]", err
		case bool:
			array, err = arrayOf[bool](rows, i)
			return array, "boolean[]", err
		default:
			return nil, "", fmt.Errorf("a column of %T cannot be inserted", row[i])
		}
	}
	array, err = arrayOf[int64](rows, i) // all are NULL
	return array, "bigint[]", err
}

// arrayOf returns the values of a column, as pointers if one is NULL.
func arrayOf[T any](rows [][]any, i int) (array any, err error) {
	values, list, null := make([]T, len(rows)), []*T(nil), false
	for n, row := range rows {
		var ok bool
		if values[n], ok = row[i].(T); !ok && row[i] != nil {
			return nil, fmt.Errorf("a column has %T and %T", row[i], values[n])
		}
		null = null || !ok
	}
	if !null {
		return values, nil
	}
	for n, row := range rows {
		list = append(list, &values[n])
		if row[i] == nil {
			list[n] = nil
		}
	}
	return list, nil
}

// insertRowByRow executes one prepared statement per row, for a database in this process: a
// statement with many rows would be parsed again for each batch, which costs most. It checks the
// context between rows instead of passing it, because the driver would start a goroutine per row. A
// row does not wait: the transaction has the lock.
func insertRowByRow(ctx context.Context, c Conn, in Insert) error {
	unbounded := context.WithoutCancel(ctx)
	// Unnumbered placeholders have no names, which the driver would look up each time.
	unnamed := "(?" + strings.Repeat(", ?", len(in.Rows[0])-1) + ")"
	one, err := c.h.PrepareContext(ctx, in.Head+"VALUES "+unnamed+in.Tail)
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

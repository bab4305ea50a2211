package db

import (
	"context"
	"database/sql"
	"log/slog"
	"strings"
	"unicode/utf8"
)

// handle is a pool, a connection or a transaction.
type handle interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// Scan reads the columns of a row.
type Scan = func(dest ...any) error

// Conn runs queries. Placeholders are $1, $2, …; they are rewritten for SQLite.
type Conn struct {
	h    handle
	kind *backend
	Log  *slog.Logger // of the database
}

// Exec runs a statement.
func (c Conn) Exec(ctx context.Context, query string, args ...any) error {
	if err := checkText(args); err != nil {
		return err
	}
	_, err := c.h.ExecContext(ctx, c.kind.rewrite(query), args...)
	return err
}

// Row returns the scan function of the first row. It returns sql.ErrNoRows if there is none.
func (c Conn) Row(ctx context.Context, query string, args ...any) Scan {
	if err := checkText(args); err != nil {
		return func(...any) error { return err }
	}
	return c.h.QueryRowContext(ctx, c.kind.rewrite(query), args...).Scan
}

// Rows calls each for every row.
func (c Conn) Rows(ctx context.Context, each func(Scan) error, query string, args ...any) error {
	if err := checkText(args); err != nil {
		return err
	}
	rows, err := c.h.QueryContext(ctx, c.kind.rewrite(query), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// List returns a query for the texts of a JSON array, which is the first argument.
func (c Conn) List() string { return c.kind.list }

// Fenced returns an expression that is true if the server accepts no writes.
func (c Conn) Fenced() string { return c.kind.fenced }

// Partitions reports whether the database divides tables into partitions.
func (c Conn) Partitions() bool { return c.kind.lock != "" }

// Lock locks the texts of a JSON array. Until this transaction ends, others wait when they lock one
// of these texts.
func (c Conn) Lock(ctx context.Context, list string) error {
	if c.kind.lock == "" {
		return nil
	}
	return c.Exec(ctx, c.kind.lock, list)
}

// errText rejects text that a database would reject or change.
var errText = Error("a text is not UTF-8 or has a zero byte in it")

func checkText(args []any) error {
	for _, a := range args {
		if text, ok := a.(string); ok && !Storable(text) {
			return errText
		}
	}
	return nil
}

// Storable reports whether a database stores a text unchanged.
func Storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

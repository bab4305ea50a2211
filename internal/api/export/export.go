// Package export writes requests and sums of the ledger as CSV and Parquet, some rows at a time.
package export

import (
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// The formats.
const (
	CSV     = "csv"
	Parquet = "parquet"
)

// Media returns the media type of a format.
func Media(format string) string {
	if format == Parquet {
		return "application/vnd.apache.parquet"
	}
	return "text/csv; charset=utf-8"
}

// Writer writes rows of a type whose fields have the tag parquet.
type Writer[T any] interface {
	// Write writes rows.
	Write(rows []T) error
	// Close writes the end. A file without it is not complete.
	Close() error
}

// New returns a writer of a format.
func New[T any](format string, w io.Writer) Writer[T] {
	if format == Parquet {
		return newParquet[T](w)
	}
	return newCSV[T](w)
}

// columnName returns the name of the column of a field.
func columnName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
	return name
}

type csvWriter[T any] struct {
	out    *csv.Writer
	record []string
}

func newCSV[T any](w io.Writer) *csvWriter[T] {
	t := reflect.TypeFor[T]()
	c := &csvWriter[T]{out: csv.NewWriter(w), record: make([]string, t.NumField())}
	for i := range c.record {
		c.record[i] = columnName(t.Field(i))
	}
	_ = c.out.Write(c.record) // Write returns the error of the first flush
	return c
}

func (c *csvWriter[T]) Write(rows []T) error {
	for i := range rows {
		v := reflect.ValueOf(&rows[i]).Elem()
		for n := range c.record {
			c.record[n] = cell(v.Field(n).Interface())
		}
		if err := c.out.Write(c.record); err != nil {
			return err
		}
	}
	c.out.Flush()
	return c.out.Error()
}

func (c *csvWriter[T]) Close() error {
	c.out.Flush()
	return c.out.Error()
}

// cell returns the text of a value.
func cell(v any) string {
	switch v := v.(type) {
	case string:
		return harmless(v)
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return v.UTC().Format(time.RFC3339Nano)
	case *time.Time:
		if v == nil {
			return ""
		}
		return v.UTC().Format(time.RFC3339Nano)
	case *usage.Money:
		if v == nil {
			return ""
		}
		return v.Decimal()
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// harmless returns a text that no spreadsheet runs as a formula: what would be one has a quote before it. It would
// be at the beginning, and behind what some spreadsheets take for the end of a cell: in many countries a semicolon
// separates the cells of a CSV file.
func harmless(text string) string {
	if strings.IndexFunc(text, beginsFormula) < 0 && !endsCell(firstByte(text)) {
		return text
	}
	var b strings.Builder
	if endsCell(firstByte(text)) {
		b.WriteByte('\'')
	}
	begins := true
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRuneInString(text[i:])
		if begins && beginsFormula(c) {
			b.WriteByte('\'')
		}
		begins = endsCell(c) || c == ';' || begins && (c == ' ' || c == '"')
		b.WriteString(text[i : i+size])
		i += size
	}
	return b.String()
}

// beginsFormula reports whether a cell that begins with a character is a formula. Spreadsheets of East Asia take
// full-width characters for the others.
func beginsFormula(c rune) bool {
	return strings.ContainsRune("=+-@＝＋－＠", c) && c != utf8.RuneError
}

func endsCell(c rune) bool { return c == '\t' || c == '\r' || c == '\n' }

// firstByte returns the first byte of a text, 0 if it is empty.
func firstByte(text string) rune {
	if text == "" {
		return 0
	}
	return rune(text[0])
}

// Package clickhouse stores the requests of the ledger in ClickHouse and answers the questions of the admin API
// from it, over ClickHouse's HTTP interface.
package clickhouse

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

// Options are those of the server.
type Options struct {
	URL                string // of the HTTP interface
	Database           string // default: default
	Username, Password string
	TLS                *tls.Config // nil: the system's certificates
}

// Bounds of a call.
const (
	callTimeout  = 30 * time.Second
	queryTimeout = 10 * time.Second
	maxResponse  = 1 << 20 // bytes of a response that has no rows
	maxRow       = 1 << 20 // bytes of a row
	maxError     = 512     // bytes of an error's text
)

// DB is a database of ClickHouse. It connects when it is used.
type DB struct {
	o      Options
	client *http.Client
}

// New returns a database.
func New(o Options) *DB {
	// Without DisableCompression the transport would ask for compressed responses, which may become a thousand times as
	// large. ClickHouse sends none unless a setting asks for them.
	t := &http.Transport{TLSClientConfig: o.TLS, DisableCompression: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second, ResponseHeaderTimeout: callTimeout, MaxResponseHeaderBytes: 64 << 10}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // a redirect would carry the password elsewhere
	return &DB{o, &http.Client{Transport: t, Timeout: callTimeout, CheckRedirect: stay}}
}

// Close closes idle connections.
func (d *DB) Close() { d.client.CloseIdleConnections() }

// Version returns the version of the server.
func (d *DB) Version(ctx context.Context) (string, error) {
	text, err := d.call(ctx, "SELECT version() FORMAT TabSeparated", nil, nil)
	return strings.TrimSpace(string(text)), err
}

// call sends a query, with data after it, and returns its result.
func (d *DB) call(ctx context.Context, query string, data []byte, settings url.Values) ([]byte, error) {
	result, err := d.open(ctx, query, data, settings)
	if err != nil {
		return nil, err
	}
	defer result.Close()
	text, err := io.ReadAll(io.LimitReader(result, maxResponse+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("clickhouse: %w", err)
	case len(text) > maxResponse:
		return nil, errors.New("clickhouse: a response is too large")
	}
	return text, nil
}

// open sends a query, with data after it, and returns its result to be read.
func (d *DB) open(ctx context.Context, query string, data []byte, settings url.Values) (io.ReadCloser, error) {
	if settings == nil {
		settings = url.Values{}
	}
	if d.o.Database != "" {
		settings.Set("database", d.o.Database)
	}
	body := []byte(query)
	if data != nil {
		settings.Set("query", query)
		body = data
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(d.o.URL, "/")+"/?"+settings.Encode(), &packed)
	if err != nil {
		return nil, errors.New("clickhouse: the address is invalid")
	}
	r.Header.Set("Content-Encoding", "gzip")
	if d.o.Username != "" {
		r.Header.Set("X-ClickHouse-User", d.o.Username)
		r.Header.Set("X-ClickHouse-Key", d.o.Password)
	}
	response, err := d.client.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) { // its text has the query
			err = u.Err
		}
		return nil, fmt.Errorf("clickhouse: %w", err)
	}
	switch {
	case response.Header.Get("Content-Encoding") != "":
		_ = response.Body.Close()
		return nil, fmt.Errorf("clickhouse: status %d: the response is compressed, which was not asked for", response.StatusCode)
	case response.StatusCode == http.StatusOK:
		return response.Body, nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxError))
	if err != nil {
		return nil, fmt.Errorf("clickhouse: %w", err)
	}
	return nil, fmt.Errorf("clickhouse: status %d: %s", response.StatusCode, firstLine(text))
}

// firstLine returns the beginning of an error without the values of the query.
func firstLine(text []byte) string {
	line, _, _ := strings.Cut(string(text[:min(len(text), maxError)]), "\n")
	line, _, _ = strings.Cut(line, ": While executing")
	return plain.Line(line)
}

// query calls each for every row of a query, which may have so many. It may have settings of its own. It keeps no
// more than a row of the response in memory.
func (d *DB) query(ctx context.Context, query string, most int, own url.Values, each func([]jsontext.Value) error) error {
	settings := url.Values{"output_format_json_quote_64bit_integers": {"1"}, "wait_end_of_query": {"1"}, "max_execution_time": {fmt.Sprint(int(queryTimeout.Seconds()))},
		"max_rows_to_group_by": {strconv.Itoa(store.MaxGroups)}, "group_by_overflow_mode": {"throw"}} // it ends as soon as it has more groups
	maps.Copy(settings, own)
	result, err := d.open(ctx, query+" FORMAT JSONCompactEachRow", nil, settings)
	if err != nil {
		return err
	}
	defer result.Close()
	lines := bufio.NewScanner(result)
	lines.Buffer(nil, maxRow)
	for n := 0; lines.Scan(); n++ {
		if n == most {
			return fmt.Errorf("clickhouse: a response has more than %d rows", most)
		}
		var row []jsontext.Value
		if err := json.Unmarshal(lines.Bytes(), &row, jsontext.AllowInvalidUTF8(true)); err != nil {
			return fmt.Errorf("clickhouse: a row is malformed: %w", err)
		}
		if err := each(row); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("clickhouse: %w", err)
	}
	return nil
}

// scan reads the columns of a row.
func scan(row []jsontext.Value, dest ...any) error {
	if len(row) != len(dest) {
		return fmt.Errorf("clickhouse: a row has %d columns, want %d", len(row), len(dest))
	}
	for i, v := range row {
		to := dest[i] //nolint:gosec // there are as many as columns
		var n int64
		var err error
		if text, ok := to.(*string); ok {
			err = json.Unmarshal(v, text, jsontext.AllowInvalidUTF8(true))
		} else {
			n, err = integer(v)
		}
		if err != nil {
			return fmt.Errorf("clickhouse: column %d: %w", i+1, err)
		}
		switch d := to.(type) {
		case *string:
		case *int64:
			*d = n
		case *int:
			*d = int(n)
		case *bool:
			*d = n != 0
		case *sql.NullInt64:
			*d = sql.NullInt64{Int64: n, Valid: v.Kind() != 'n'}
		default:
			panic(fmt.Sprintf("clickhouse: no column is a %T", d))
		}
	}
	return nil
}

// integer reads a number, which servers quote if it has 64 bits.
func integer(v jsontext.Value) (n int64, err error) {
	if v.Kind() == '"' {
		v = v[1 : len(v)-1]
	}
	err = json.Unmarshal(v, &n)
	return n, err
}

// quote returns a text as a literal.
func quote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\x00", `\0`, "\n", `\n`).Replace(text) + "'"
}

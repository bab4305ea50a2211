package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// The ledger is read from its tables, not with the gateway's own queries.
const (
	rowsSQL = `SELECT r.id, r.key_id, r.node, r.status, r.outcome, r.estimated, r.input + r.cache_read + r.cache_write, r.output + r.reasoning, coalesce(r.cost, -1),
	jsonb_array_length(coalesce(r.detail::jsonb -> 'a', '[]')), jsonb_array_length(jsonb_path_query_array(r.detail::jsonb, '$.a[*] ? (@.c == true)'))
	FROM requests r`
	// The sums of budgets and bills that differ from the sums of the rows.
	sumsSQL = `SELECT account, coalesce(s.cost, 0), coalesce(r.cost, 0)
	FROM (SELECT account, sum(cost) AS cost FROM spent WHERE account LIKE 'key:%' GROUP BY account) s
	FULL JOIN (SELECT 'key:' || key_id AS account, sum(coalesce(cost, 0)) AS cost FROM requests WHERE key_id <> '' GROUP BY key_id) r USING (account)
	WHERE coalesce(s.cost, 0) <> coalesce(r.cost, 0)`
)

// row is one request in the ledger.
type row struct {
	id, key, node     string
	status            int
	outcome           string
	estimated         bool
	input, output     int
	cost              int // billionths of a dollar; -1: not known
	attempts, charged int
}

// query runs SQL with psql and returns the fields of each row.
func (c *cluster) query(ctx context.Context, sql string) ([][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	out, err := output(ctx, "psql", "-X", "-q", "-A", "-t", "-F", "\x1f", "-v", "ON_ERROR_STOP=1", "-c", sql, c.postgres.URL)
	if err != nil {
		return nil, err
	}
	var all [][]string
	for line := range strings.Lines(string(out)) {
		all = append(all, strings.Split(strings.TrimSuffix(line, "\n"), "\x1f"))
	}
	return all, nil
}

// ledger returns all rows.
func (c *cluster) ledger(ctx context.Context) ([]row, error) {
	fields, err := c.query(ctx, rowsSQL)
	if err != nil {
		return nil, err
	}
	rows := make([]row, len(fields))
	for i, f := range fields {
		if len(f) != 11 {
			return nil, fmt.Errorf("a row of the ledger has %d fields", len(f))
		}
		rows[i] = row{id: f[0], key: f[1], node: f[2], status: number(f[3]), outcome: f[4], estimated: f[5] == "t",
			input: number(f[6]), output: number(f[7]), cost: number(f[8]), attempts: number(f[9]), charged: number(f[10])}
	}
	return rows, nil
}

func number(s string) int {
	n, _ := strconv.Atoi(s) // the database has numbers there
	return n
}

// spent returns the cost of all rows of a key.
func spent(rows []row, k key) (total int) {
	for _, r := range rows {
		if r.key == k.ID && r.cost > 0 {
			total += r.cost
		}
	}
	return total
}

// settled returns the rows as soon as there is one for every request that delivered
// something, or when the time is over.
func (c *cluster) settled(ctx context.Context, within time.Duration) []row {
	for end := time.Now().Add(within); ; testrig.Pause(ctx, 100*time.Millisecond) {
		rows, err := c.ledger(ctx)
		over := time.Now().After(end) || ctx.Err() != nil
		if over {
			testrig.NoError(errors.Join(err, ctx.Err()))
		}
		if over || err == nil && len(missing(c.exchanges.List(), rows)) == 0 {
			return rows
		}
	}
}

// settledFor waits a second longer than settled, for rows of requests that delivered nothing
// and for duplicates.
func (c *cluster) settledFor(ctx context.Context, within time.Duration) []row {
	c.settled(ctx, within)
	testrig.Pause(ctx, time.Second)
	return testrig.Must(c.ledger(ctx))
}

// sums returns a problem for each account whose sum differs from its rows.
func (c *cluster) sums(ctx context.Context) []string {
	fields, err := c.query(ctx, sumsSQL)
	if err != nil {
		return []string{err.Error()}
	}
	var wrong []string
	for _, f := range fields {
		wrong = append(wrong, fmt.Sprintf("%s has spent %s by its sum and %s by its rows", f[0], f[1], f[2]))
	}
	return wrong
}

// ledgerAgrees waits for the ledger and compares the three histories.
func (s *stage) ledgerAgrees(ctx context.Context, check string, within time.Duration) {
	began := time.Now()
	rows := s.settled(ctx, within)
	s.Check(check, fmt.Sprintf("%d rows", len(rows)), began, s.compared(ctx, rows)...)
}

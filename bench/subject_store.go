package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/testrig"
	_ "modernc.org/sqlite" // the ledger's file is read to see what has arrived in it
)

// storeConfig turns keys, limits and the ledger on, and gives the scripted models
// prices, so that budgets have something to count.
func storeConfig(data, redis string) string {
	text := fmt.Sprintf("data: %q\nstore: { url: sqlite }\n", data)
	if redis != "" {
		text += fmt.Sprintf("redis: { url: \"redis://%s/0\" }\n", redis)
	}
	return text + "prices:\n  models:\n    \"chat/*\": { input: 0.15, output: 0.60 }\n    \"messages/*\": { input: 3, output: 15 }\n"
}

// makeKey makes a client's key as an operator would. Everything about it is limited,
// and no limit is ever reached.
func (b *bench) makeKey(ctx context.Context, conf string) (string, error) {
	out, err := testrig.Output(exec.CommandContext(ctx, b.bin, "keys", "create", "-c", conf, "--json", "--name", "bench", "--models", "*", //nolint:gosec // our own program
		"--requests", "1000000000", "--tokens", "1000000000000", "--budget", "1000000", "--window", "720h"))
	if err != nil {
		return "", err
	}
	var made struct{ Key string }
	if err := json.Unmarshal(out, &made); err != nil || made.Key == "" {
		return "", fmt.Errorf("isogloss keys create printed no key: %q", out)
	}
	return made.Key, nil
}

// ledger is the store of a gateway, seen from outside. Rows reach it some time after
// the answer, and what that costs belongs to the request: CPU is read when all have
// arrived. That one row comes for each request is seen at the same time.
type ledger struct {
	db   *sql.DB
	owed int64 // rows, of all that was asked until now
}

func openLedger(data string) (*ledger, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(data, "isogloss.db")+"?_pragma=busy_timeout(2000)&_pragma=query_only(1)")
	return &ledger{db: db}, err
}

// owe says that so many more rows will come.
func (l *ledger) owe(rows int) {
	if l != nil {
		l.owed += int64(rows)
	}
}

// settle waits until every row has arrived. The sums are read, which are written with
// the rows and are few.
func (l *ledger) settle(ctx context.Context) error {
	if l == nil {
		return nil
	}
	const patience = 20 * time.Second
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		var rows int64
		if err := l.db.QueryRowContext(ctx, "SELECT COALESCE(SUM(requests), 0) FROM hours").Scan(&rows); err != nil {
			return fmt.Errorf("the ledger: %w", err)
		}
		if rows == l.owed {
			return nil
		}
		if rows > l.owed || time.Now().After(deadline) {
			err := fmt.Errorf("the ledger has %d rows, and %d requests were sent", rows, l.owed)
			l.owed = rows
			return err
		}
	}
}

// startRedis starts a Redis that stores nothing on disk. It has no upstream.
func (b *bench) startRedis(ctx context.Context, _ string) *process {
	addr := testrig.Must(testrig.Address())
	host, port, _ := strings.Cut(addr, ":")
	return start(ctx, launch{name: "redis", addr: addr, health: "tcp://" + addr, dir: b.dir,
		args: []string{"redis-server", "--bind", host, "--port", port, "--dir", b.dir, "--save", "", "--appendonly", "no", "--daemonize", "no"}})
}

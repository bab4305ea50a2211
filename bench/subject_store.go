package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	_ "github.com/jackc/pgx/v5/stdlib" // the ledger is read to see what has arrived in it
	_ "modernc.org/sqlite"
)

// storage is where a gateway keeps keys, limits and the ledger.
type storage struct {
	data     string // its data folder, with a SQLite file if postgres is empty
	postgres string // URL of a database
	redis    string // address of the server for limits; "" is in memory
	nats     string // address of the server of usage events; "": rows go to the store
}

// config turns keys, limits and the ledger on, and gives the scripted models prices, so that budgets have
// something to count.
func (s *storage) config() string {
	text := fmt.Sprintf("data: %q\nstore: { url: sqlite }\n", s.data)
	if s.postgres != "" {
		text = fmt.Sprintf("data: %q\nstore: { url: %q, peppers: [%q] }\n", s.data, s.postgres, strings.Repeat("pepper", 8))
	}
	if s.redis != "" {
		text += fmt.Sprintf("redis: { url: \"redis://%s/0\" }\n", s.redis)
	}
	if s.nats != "" {
		text += fmt.Sprintf("usage: { sink: { nats: { servers: [\"nats://%s\"], replicas: 1 } } }\n", s.nats)
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

func (s *storage) openLedger() (*ledger, error) {
	driver, source := "sqlite", "file:"+filepath.Join(s.data, "isogloss.db")+"?_pragma=busy_timeout(2000)&_pragma=query_only(1)"
	if s.postgres != "" {
		driver, source = "pgx", s.postgres
	}
	db, err := sql.Open(driver, source)
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

// startPostgres starts a PostgreSQL. It has no upstream.
func (b *bench) startPostgres(context.Context, string) *process {
	s := testrig.Must(storetest.RunPostgres(testrig.Must(os.MkdirTemp(b.dir, "postgres"))))
	return &process{name: "postgres", addr: s.URL, end: s.Close}
}

// startNATS starts a server of JetStream. It has no upstream.
func (b *bench) startNATS(ctx context.Context, _ string) *process {
	addr := testrig.Must(testrig.Address())
	host, port, _ := strings.Cut(addr, ":")
	return start(ctx, launch{name: "nats", addr: addr, health: "tcp://" + addr, dir: b.dir,
		args: []string{"nats-server", "-js", "-sd", testrig.Must(os.MkdirTemp(b.dir, "nats")), "-a", host, "-p", port}})
}

// startConsumer starts what writes usage events into the store.
func (b *bench) startConsumer(ctx context.Context, dir, conf string) {
	addr := testrig.Must(testrig.Address())
	b.kept = append(b.kept, start(ctx, launch{name: "consume", addr: addr, health: "http://" + addr + "/ready", dir: dir,
		args: []string{b.bin, "consume", "-c", conf, "--listen", addr}}))
}

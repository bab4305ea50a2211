package main

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
)

// A figure is taken when the ledger has every row, and never when it has another number
// of them than there were requests.
func TestLedgerSettles(t *testing.T) {
	dir := t.TempDir()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "isogloss.db")+"?_pragma=busy_timeout(2000)&_pragma=journal_mode(wal)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	write := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	write("CREATE TABLE hours (requests BIGINT)")
	l, err := (&storage{data: dir}).openLedger()
	if err != nil {
		t.Fatal(err)
	}
	defer l.db.Close()
	if err := l.settle(t.Context()); err != nil {
		t.Errorf("nothing was asked: %v", err)
	}
	l.owe(2)
	l.owe(3)
	arrived := make(chan error)
	go func() { arrived <- l.settle(t.Context()) }()
	write("INSERT INTO hours VALUES (2)")
	write("INSERT INTO hours VALUES (3)")
	if err := <-arrived; err != nil {
		t.Errorf("all have arrived: %v", err)
	}
	write("INSERT INTO hours VALUES (1)")
	if err := l.settle(t.Context()); err == nil || !strings.Contains(err.Error(), "6 rows, and 5") {
		t.Errorf("a row too many: %v", err)
	}
	if err := l.settle(t.Context()); err != nil {
		t.Errorf("it was told once: %v", err)
	}
	var none *ledger // of a gateway without a store
	none.owe(9)
	if err := none.settle(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStoreGrid(t *testing.T) {
	r := &report{}
	if storeGrid(r) != nil {
		t.Error("there is a table where nothing was measured")
	}
	for name, values := range map[string][]float64{bareChat: {100, 200}, ours: {100, 210}, oursStore: {150, 310}} {
		c := r.of("store-request", &arm{name: name, base: bareChat}, 0)
		for i, v := range values {
			c.Rounds[i] = v
		}
	}
	grid := storeGrid(r)
	if len(grid) != 2 {
		t.Fatalf("%v", grid)
	}
	if got, want := strings.Join(grid[1], " | "), "CPU per request, 2 KB in, 1 KB out | 155 µs, 1.02 × | 230 µs, 1.52 × | – | – | –"; got != want {
		t.Errorf("the row is %q; want %q", got, want)
	}
}

// A key for what is measured with keys, and for the rest one that nobody checks.
func TestLoadSendsItsKey(t *testing.T) {
	for key, want := range map[string]string{"": "Bearer sk-bench\r\n", "gw_live_x": "Bearer gw_live_x\r\n"} {
		if c := newConn(&job{Key: key}); !strings.Contains(string(c.head), want) {
			t.Errorf("%q: %s", key, c.head)
		}
	}
}

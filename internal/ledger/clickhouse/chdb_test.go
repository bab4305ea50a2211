package clickhouse

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// serve starts chdb, the engine of ClickHouse, with its data in a folder. ISOGLOSS_CHDB is a Python with the
// package chdb; without it the test is skipped.
func serve(t testing.TB, folder string) *DB {
	t.Helper()
	python := os.Getenv("ISOGLOSS_CHDB")
	if python == "" {
		t.Skip("ISOGLOSS_CHDB is not set; make clickhouse sets it")
	}
	cmd := exec.Command(python, "testdata/server.py", "0", filepath.Join(folder, "data"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal("chdb does not start: ", err)
	}
	d := New(Options{URL: fmt.Sprintf("http://127.0.0.1:%s", strings.TrimSpace(line))})
	if err := d.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

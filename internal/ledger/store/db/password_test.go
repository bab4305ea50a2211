package db

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// TestPasswordChange changes the password of the role and the passfile, and closes all connections. The
// database goes on with the new password.
func TestPasswordChange(t *testing.T) {
	pg := storetest.Postgres(t)
	admin, err := openPostgres(pg.URL, patient, &atomic.Bool{})
	no(t, err)
	defer admin.Close()
	run := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			_, err := admin.ExecContext(t.Context(), statement)
			no(t, err)
		}
	}
	access := filepath.Join(pg.Dir(), "pg_hba.conf")
	rules, err := os.ReadFile(access)
	no(t, err)
	no(t, os.WriteFile(access, append([]byte("host all gateway all scram-sha-256\n"), rules...), 0o600))
	run(`CREATE ROLE gateway LOGIN SUPERUSER PASSWORD 'first'`, `SELECT pg_reload_conf()`)
	passfile := filepath.Join(t.TempDir(), "passfile")
	write := func(password string) { no(t, os.WriteFile(passfile, []byte("*:*:*:gateway:"+password+"\n"), 0o600)) }
	write("first")
	d := opened(t, strings.Replace(pg.URL, "postgres@", "gateway@", 1)+"&passfile="+passfile, Options{Migrate: true})
	eventually(t, "the database is ready", d.Ready)
	no(t, notes(d))

	const closeAll = `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = 'gateway'`
	run(`ALTER ROLE gateway PASSWORD 'second'`, closeAll)
	if err := notes(d); err == nil || !strings.Contains(err.Error(), "correct the password in store.url or in its passfile") {
		t.Errorf("with the old password: %v", err)
	}
	write("second")
	if err := notes(d); err != nil {
		t.Errorf("with the new password: %v", err)
	}
	run(closeAll)
	if err := notes(d); err != nil {
		t.Errorf("on a connection that was closed: %v", err)
	}
}

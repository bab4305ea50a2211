package storetest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// PgBouncer runs PgBouncer in transaction mode before a PostgreSQL, with its default settings otherwise.
func PgBouncer(t testing.TB, postgres *Server) *Server {
	t.Helper()
	return start(t, pgBouncer(postgres, "transaction"))
}

// PgBouncerIn is PgBouncer in another mode: session or statement.
func PgBouncerIn(t testing.TB, mode string, postgres *Server) *Server {
	t.Helper()
	return start(t, pgBouncer(postgres, mode))
}

// RunPgBouncer does the same in a folder until it is closed.
func RunPgBouncer(dir string, postgres *Server) (*Server, error) {
	return run(pgBouncer(postgres, "transaction"), dir)
}

func pgBouncer(postgres *Server, mode string) kind {
	return kind{
		name: "pgbouncer",
		prepare: func(s *Server) error {
			host, port, err := net.SplitHostPort(postgres.Addr)
			if err != nil {
				return err
			}
			text := fmt.Sprintf("[databases]\n* = host=%s port=%s user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nauth_type = any\npool_mode = %s\nunix_socket_dir =\n", host, port, s.port(), mode)
			if err := os.WriteFile(s.settings(), []byte(text), 0o644); err != nil { //nolint:gosec // its account reads it
				return err
			}
			return ownedByPostgres(s)
		},
		command: func(s *Server) *exec.Cmd {
			cmd := exec.Command("pgbouncer", s.settings()) //nolint:noctx,gosec // it is killed by its group, and the arguments are ours
			cmd.SysProcAttr = asPostgres()
			return cmd
		},
		url:   func(addr string) string { return "postgres://postgres@" + addr + "/postgres?sslmode=disable" },
		ready: postgresReady,
	}
}

func (s *Server) settings() string { return filepath.Join(s.data(), "pgbouncer.ini") }

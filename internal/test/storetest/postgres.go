package storetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// Postgres runs PostgreSQL for a test. Its database is called postgres and needs no password.
func Postgres(t testing.TB) *Server {
	t.Helper()
	return start(t, postgres())
}

// RunPostgres runs PostgreSQL in a folder until it is closed.
func RunPostgres(dir string) (*Server, error) { return run(postgres(), dir) }

func postgres() kind {
	return kind{
		name:    "postgres",
		prepare: initdb,
		command: func(s *Server) *exec.Cmd {
			// Shared buffers are small, so that several servers fit on one machine. Without fsync a
			// restart is fast on a busy disk. A killed process still loses nothing that it has
			// committed: the kernel has it.
			cmd := exec.Command(PostgresProgram("postgres"), "-D", s.data(), "-h", "127.0.0.1", "-p", s.port(), "-k", "", //nolint:noctx,gosec // it is killed by its group, and the arguments are ours
				"-c", "shared_buffers=32MB", "-c", "max_connections=100", "-c", "fsync=off")
			cmd.SysProcAttr = asPostgres()
			return cmd
		},
		url:   func(addr string) string { return "postgres://postgres@" + addr + "/postgres?sslmode=disable" },
		ready: postgresReady,
	}
}

// PostgresProgram returns the path of a PostgreSQL program, which Debian does not put on the path, in the newest
// installed version.
func PostgresProgram(name string) string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return name
	}
	return slices.Max(found)
}

func initdb(s *Server) error {
	if err := ownedByPostgres(s); err != nil {
		return err
	}
	cmd := exec.Command(PostgresProgram("initdb"), "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync") //nolint:noctx,gosec // it ends by itself, and the arguments are ours
	cmd.SysProcAttr = asPostgres()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s; install it with apt-get install postgresql", err, out)
	}
	return nil
}

// ownedByPostgres gives the folder to the account that PostgreSQL runs as.
func ownedByPostgres(s *Server) error {
	for dir := s.data(); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // its account has to reach its folder
			break
		}
	}
	if c := asPostgres().Credential; c != nil {
		if err := os.Chown(s.data(), int(c.Uid), int(c.Gid)); err != nil {
			return err
		}
	}
	return nil
}

func asPostgres() *syscall.SysProcAttr {
	who, err := nobody("postgres")
	if err != nil {
		return &syscall.SysProcAttr{} // it then says itself that it will not be root
	}
	return &syscall.SysProcAttr{Credential: who}
}

func lookUp(name string) (uid, gid int, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, err
	}
	return atoi(u.Uid), atoi(u.Gid), nil
}

// postgresReady runs pg_isready: an open port does not mean that the server accepts connections.
func postgresReady(ctx context.Context, addr string) error {
	cmd := exec.CommandContext(ctx, PostgresProgram("pg_isready"), "-q", "-d", "postgres://postgres@"+addr+"/postgres") //nolint:gosec // the arguments are ours
	if err := cmd.Run(); err != nil {
		return errors.New("it is starting")
	}
	return nil
}

// RunStandby runs a standby of a PostgreSQL in a folder until it is closed. It streams from the
// given address, which leads to the primary.
func RunStandby(dir, primary string) (*Server, error) {
	k := postgres()
	k.prepare = func(s *Server) error {
		if err := ownedByPostgres(s); err != nil {
			return err
		}
		host, port, _ := net.SplitHostPort(primary)
		cmd := exec.Command(PostgresProgram("pg_basebackup"), "-h", host, "-p", port, "-U", "postgres", "-D", s.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync") //nolint:noctx,gosec // it ends by itself, and the arguments are ours
		cmd.SysProcAttr = asPostgres()
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("pg_basebackup: %w: %s", err, out)
		}
		return os.Chmod(s.data(), 0o700) //nolint:gosec // a folder, as PostgreSQL wants it
	}
	return run(k, dir)
}

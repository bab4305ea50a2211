package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// Postgres runs one for a test. Its database is called postgres and asks for no
// password.
func Postgres(t testing.TB) *Server {
	t.Helper()
	return start(t, postgres())
}

// RunPostgres runs one in a folder until it is closed.
func RunPostgres(dir string) (*Server, error) { return run(postgres(), dir) }

func postgres() kind {
	return kind{
		name:    "postgres",
		prepare: initdb,
		command: func(s *Server) *exec.Cmd {
			// Shared buffers are small, so that several fit on one machine. It is not
			// told to skip fsync: a kill must not lose what was committed.
			cmd := exec.Command(postgresBinary("postgres"), "-D", s.data(), "-h", "127.0.0.1", "-p", s.port(), "-k", "", //nolint:noctx,gosec // it is killed by its group, and the arguments are ours
				"-c", "shared_buffers=32MB", "-c", "max_connections=100")
			cmd.SysProcAttr = asPostgres()
			return cmd
		},
		url:   func(addr string) string { return "postgres://postgres@" + addr + "/postgres?sslmode=disable" },
		ready: postgresReady,
	}
}

// postgresBinary finds a program that Debian does not put on the path, in the
// newest version that is installed.
func postgresBinary(name string) string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return name
	}
	return slices.Max(found)
}

func initdb(s *Server) error {
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
	cmd := exec.Command(postgresBinary("initdb"), "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync") //nolint:noctx,gosec // it ends by itself, and the arguments are ours
	cmd.SysProcAttr = asPostgres()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s; install it with apt-get install postgresql", err, out)
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

// postgresReady asks as its own tool does: a port that is open is not yet a server
// that takes connections.
func postgresReady(ctx context.Context, addr string) error {
	cmd := exec.CommandContext(ctx, postgresBinary("pg_isready"), "-q", "-d", "postgres://postgres@"+addr+"/postgres") //nolint:gosec // the arguments are ours
	if err := cmd.Run(); err != nil {
		return errors.New("it is starting")
	}
	return nil
}

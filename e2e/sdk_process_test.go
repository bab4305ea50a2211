package e2e

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

// patience is how long a scenario may take. Each takes milliseconds; only one that
// hangs needs this.
const patience = 30 * time.Second

// cacheDir is where setup.sh put the SDKs.
func cacheDir(t *testing.T) string {
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

// process is a client in another language. It reads one line per scenario (its name,
// the base URL, the key and perhaps a model) and writes one line of JSON for each.
type process struct {
	in     io.Writer
	lines  <-chan []byte
	stderr *logBuffer
	kill   func() error
}

func startProcess(t *testing.T, dir, program string, args ...string) *process {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("an SDK is missing: %v; run ./setup.sh", err)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	// A bare environment: no proxy, no key and no base URL of the user leaks in.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1"}
	stderr := &logBuffer{}
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
	return &process{in: in, lines: lines, stderr: stderr, kill: cmd.Process.Kill}
}

func readLines(r io.Reader, lines chan<- []byte) {
	defer close(lines)
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<24)
	for scan.Scan() {
		lines <- append([]byte(nil), scan.Bytes()...)
	}
}

func (p *process) do(t *testing.T, o order, cue <-chan struct{}) []byte {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, o.scenario, o.baseURL, o.key, o.model); err != nil {
		t.Fatalf("the client is gone: %v\n%s", err, p.stderr)
	}
	if cue != nil {
		<-cue
		if _, err := fmt.Fprintln(p.in, "now"); err != nil {
			t.Fatalf("the client is gone: %v\n%s", err, p.stderr)
		}
	}
	select {
	case line, ok := <-p.lines:
		if !ok {
			t.Fatalf("the client ended in the middle of a scenario\n%s", p.stderr)
		}
		return line
	case <-time.After(patience):
		_ = p.kill() // a late report would be taken for the next scenario's
		t.Fatalf("the client said nothing for %s\n%s", patience, p.stderr)
	}
	return nil
}

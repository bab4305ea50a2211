package deploytest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// root is the folder of the repository.
const root = "../.."

// run runs a command and returns its output, or fails the test.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := testrig.Output(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// process is a program that runs until the end of the test. Its log is in a file, which
// it shares with the processes that replace it.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	file string
	done chan struct{}
}

// launch starts a program in a process group of its own.
func launch(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, file: filepath.Join(t.TempDir(), "log"), done: make(chan struct{})}
	log, err := os.Create(p.file)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // ProcessState has the result
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the group may have ended
		<-p.done
		if t.Failed() {
			log := p.log()
			t.Logf("%s: the end of the log:\n%s", cmd, log[max(0, len(log)-4000):])
		}
	})
	return p
}

func (p *process) log() string {
	text, _ := os.ReadFile(p.file)
	return string(text)
}

// ended returns an error when the program has ended.
func (p *process) ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended with %s: %s", p.cmd, p.cmd.ProcessState, p.log())
	default:
		return nil
	}
}

// stop sends SIGTERM to a process of the program and waits for the program's end.
func (p *process) stop(pid int) {
	p.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if err := testrig.Until(p.t.Context(), patience, "the program does not end after SIGTERM", func() bool { return p.ended() != nil }); err != nil {
		p.t.Fatal(err)
	}
}

// descendant returns the pid of the process below another one that runs a file of this name.
func descendant(t *testing.T, ancestor int, name string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	parent, found := map[int]int{}, 0
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		head, tail, _ := strings.Cut(string(text), ") ")
		number, comm, _ := strings.Cut(head, " (")
		pid, _ := strconv.Atoi(number)
		above, _ := strconv.Atoi(strings.Fields(tail)[1])
		parent[pid] = above
		if comm == name {
			for p := pid; p > 1; p = parentOf(parent, p) {
				if p == ancestor {
					found = pid
				}
			}
		}
	}
	if found == 0 {
		t.Fatalf("no process %s below %d", name, ancestor)
	}
	return found
}

// parentOf returns the parent of a process from a map, or from /proc.
func parentOf(known map[int]int, pid int) int {
	if p, ok := known[pid]; ok {
		return p
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, tail, _ := strings.Cut(string(text), ") ")
	var state string
	var parent int
	_, _ = fmt.Sscan(tail, &state, &parent) // 0 if the process has ended
	return parent
}

// otherFolder returns a copy of the repository in which the tests build again. They share
// what is built there.
func otherFolder(t *testing.T) string {
	t.Helper()
	dir, err := other()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var other = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "source")
	return dir, copyRepository(dir)
})

// copySource copies the files of the repository to a new folder, without git.
func copySource(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := copyRepository(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func copyRepository(to string) error {
	list := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	list.Dir = root
	names, err := testrig.Output(list)
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if err := copyFile(filepath.Join(root, name), filepath.Join(to, name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

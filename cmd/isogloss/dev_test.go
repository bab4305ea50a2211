package main

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// TestDev runs what `make dev` runs, with the built binary in place of the sources: the
// printed command gets a response, a new binary is started, and nothing is left at the end.
func TestDev(t *testing.T) {
	addresses, ports := freePorts(t, 3)
	source := filepath.Join(t.TempDir(), "isogloss")
	if err := os.Link(binary, source); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs(filepath.Join(root, "examples/dev/run.sh"))
	if err != nil {
		t.Fatal(err)
	}
	temporary := t.TempDir()
	cmd := exec.Command("bash", script)
	cmd.Env = append(os.Environ(), "ISOGLOSS="+source, "PORTS="+ports, "TMPDIR="+temporary)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dev := watch(t, cmd)
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // fails if all have ended

	dev.log.WaitFor(t, `"msg":"listening"`, 1, dev.ended)
	printed := dev.out.WaitFor(t, "curl http", 1, dev.ended)
	_, rest, _ := strings.Cut(printed, "curl ")
	out, err := exec.Command("bash", "-c", "curl "+rest).Output()
	if err != nil || !strings.Contains(string(out), "Hello from the engine.") {
		t.Errorf("the command prints %s (%v)\n%s", out, err, printed)
	}
	if status, body := get(t, "http://"+addresses[1]+"/console/"); status != http.StatusOK {
		t.Errorf("the console: %d %s", status, body)
	}
	if key := regexp.MustCompile(`console .* gw_admin_\w+`).FindString(dev.out.String()); key == "" {
		t.Errorf("no key of an owner is printed:\n%s", dev.out)
	}

	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(source, later, later); err != nil {
		t.Fatal(err)
	}
	dev.log.WaitFor(t, `"msg":"listening"`, 2, dev.ended)

	dev.signal(t, syscall.SIGTERM)
	dev.exit(t)
	for _, a := range addresses {
		if c, err := net.Dial("tcp", a); err == nil {
			_ = c.Close()
			t.Errorf("%s is still open", a)
		}
	}
	if left, err := filepath.Glob(filepath.Join(temporary, "tmp.*")); err != nil || len(left) > 0 {
		t.Errorf("%v was left (%v)", left, err)
	}
}

// freePorts returns n addresses that nothing listens on, and their ports as the scripts of examples/ take them.
func freePorts(t *testing.T, n int) (addresses []string, ports string) {
	t.Helper()
	addresses, err := testrig.Addresses(n)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, a := range addresses {
		_, port, err := net.SplitHostPort(a)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, port)
	}
	return addresses, strings.Join(all, " ")
}

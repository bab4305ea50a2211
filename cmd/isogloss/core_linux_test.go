package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
)

// TestNoCoreDump checks that a gateway writes no core dump, even where the environment
// allows core dumps and asks Go for them.
func TestNoCoreDump(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", `ulimit -c unlimited || ulimit -c hard; exec "$0" serve --listen 127.0.0.1:0`, binary)
	cmd.Dir, cmd.Env = t.TempDir(), []string{"OPENAI_API_KEY=sk-canary-0123456789", "GOTRACEBACK=crash"}
	p := watch(t, cmd)
	p.log.WaitFor(t, `"msg":"listening"`, 1, p.ended)
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^Max core file size +0 +0 `).Match(limits) {
		t.Errorf("the limits are\n%s", limits)
	}
	p.signal(t, syscall.SIGABRT)
	p.exit(t)
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.CoreDump() {
		t.Errorf("it has ended with %v", cmd.ProcessState)
	}
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"unsafe"
)

// openTerminal returns both ends of a new pseudo-terminal. Closing the first end closes
// the terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there are no terminals: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	var unlock, number int32
	for _, c := range []struct {
		request uintptr
		value   *int32
	}{{syscall.TIOCSPTLCK, &unlock}, {syscall.TIOCGPTN, &number}} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), c.request, uintptr(unsafe.Pointer(c.value))); errno != 0 {
			t.Skipf("there are no terminals: %v", errno)
		}
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals: %v", err)
	}
	return master, slave
}

// TestTerminalThatIsClosedEndsTheGateway checks that a gateway exits when its terminal is
// closed.
func TestTerminalThatIsClosedEndsTheGateway(t *testing.T) {
	master, slave := openTerminal(t)
	cmd := exec.Command(binary, "serve", "--listen", "127.0.0.1:0")
	cmd.Env, cmd.Stdin = []string{"OPENAI_API_KEY=sk-1"}, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p := watch(t, cmd)
	_ = slave.Close()
	p.log.WaitFor(t, `"msg":"listening"`, 1, p.ended)
	if err := master.Close(); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t); code != 0 {
		t.Errorf("the exit code is %d", code)
	}
	p.log.WaitFor(t, `"msg":"draining"`, 1, p.ended)
}

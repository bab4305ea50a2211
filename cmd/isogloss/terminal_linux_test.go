package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"unsafe"
)

// openTerminal returns both ends of a new terminal. It is gone when the first one is
// closed.
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

// TestTerminalThatIsClosedEndsTheGateway is for whoever closes a window: no process
// may live on behind it.
func TestTerminalThatIsClosedEndsTheGateway(t *testing.T) {
	master, slave := openTerminal(t)
	cmd := exec.Command(binary, "serve", "--listen", "127.0.0.1:0")
	cmd.Env, cmd.Stdin = []string{"OPENAI_API_KEY=sk-1"}, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p := watch(t, cmd)
	_ = slave.Close()
	p.log.waitFor(t, `"msg":"listening"`, p.ended)
	if err := master.Close(); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t); code != 0 {
		t.Errorf("the exit code is %d", code)
	}
	p.log.waitFor(t, `"msg":"draining"`, p.ended)
}

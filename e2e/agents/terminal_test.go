//go:build signin

package agents

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// A terminal runs a program as a person runs it, with keys and a screen.
type terminal struct {
	t      *testing.T
	master *os.File
	screen *rig.Log
	read   int // how much of the screen was expected so far
	close  func()
}

// newTerminal starts a program in a terminal. It ends with close, or with t.
func newTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	master, slave, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close() // the program has it
	x := &terminal{t: t, master: master, screen: &rig.Log{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1<<16)
		for {
			n, err := master.Read(buf)
			_, _ = x.screen.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	x.close = sync.OnceFunc(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // killed
		_ = master.Close()
		<-done
	})
	t.Cleanup(x.close)
	return x
}

// openTerminal opens a pair of pseudo-terminals with 120 columns and 50 rows.
func openTerminal() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err != nil {
		return nil, nil, err
	}
	var number, unlock uint32
	size := [4]uint16{50, 120}
	for _, c := range []struct {
		request uintptr
		value   unsafe.Pointer
	}{{syscall.TIOCSPTLCK, unsafe.Pointer(&unlock)}, {syscall.TIOCGPTN, unsafe.Pointer(&number)}, {syscall.TIOCSWINSZ, unsafe.Pointer(&size)}} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), c.request, uintptr(c.value)); errno != 0 {
			_ = master.Close()
			return nil, nil, errno
		}
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		_ = master.Close()
	}
	return master, slave, err
}

// Control sequences of terminals, and white space, which sequences replace in part.
var control = regexp.MustCompile(`\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[()][0-9A-B]|\x1b[=>78]|\s+`)

// expect waits until one of the texts has been written since the last expected one, and returns it.
// White space does not matter.
func (x *terminal) expect(texts ...string) string {
	x.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		all := control.ReplaceAllString(x.screen.String(), "")
		fresh := all[min(x.read, len(all)):]
		for _, text := range texts {
			if at := strings.Index(fresh, control.ReplaceAllString(text, "")); at >= 0 {
				x.read += at + 1
				time.Sleep(300 * time.Millisecond) // the program listens for keys after it has drawn
				return text
			}
		}
	}
	x.t.Fatalf("the terminal does not show any of %q but\n%s", texts, control.ReplaceAllString(x.screen.Tail(), " "))
	return ""
}

// keys types.
func (x *terminal) keys(text string) {
	x.t.Helper()
	for _, part := range strings.SplitAfter(text, "\r") {
		body, enter := strings.CutSuffix(part, "\r")
		for _, s := range []string{body, map[bool]string{true: "\r"}[enter]} {
			if s == "" {
				continue
			}
			if _, err := x.master.WriteString(s); err != nil {
				x.t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond) // text and Enter at once would be a paste
		}
	}
}

package handover

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// manager is the socket of a service manager. As systemd does, it asks the kernel for
// the pid of each sender.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

func newManager(t *testing.T) (m *manager, env string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the processes are gone
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var option error
	if err := raw.Control(func(fd uintptr) { option = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) }); err != nil || option != nil {
		t.Fatal(err, option)
	}
	return &manager{t, conn}, "NOTIFY_SOCKET=" + name
}

// expect reads the next message and compares its sender and its text.
func (m *manager) expect(sender int, pattern string) {
	m.t.Helper()
	text, control := make([]byte, 4096), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	_ = m.conn.SetReadDeadline(time.Now().Add(patience))
	n, c, _, _, err := m.conn.ReadMsgUnix(text, control)
	if err != nil {
		m.t.Fatalf("no message %q: %v", pattern, err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:c])
	if err != nil || len(messages) != 1 {
		m.t.Fatal(messages, err)
	}
	from, err := unix.ParseUnixCredentials(&messages[0])
	if err != nil {
		m.t.Fatal(err)
	}
	if !regexp.MustCompile("^"+pattern+"$").Match(text[:n]) || int(from.Pid) != sender {
		m.t.Errorf("process %d says %q; want %q from process %d", from.Pid, text[:n], pattern, sender)
	}
}

// TestNotifications checks what systemd learns of a start, a restart, a failed restart
// and a stop, and from which process.
func TestNotifications(t *testing.T) {
	const reloading = "RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]*\n"
	m, env := newManager(t)
	p := start(t, "linger", env)
	old := p.pid()
	m.expect(old, fmt.Sprintf("READY=1\nMAINPID=%d\n", old))

	p.order("fail")
	p.signal(old, syscall.SIGHUP)
	m.expect(old, reloading)
	m.expect(old, "READY=1\n")

	p.order("linger")
	p.signal(old, syscall.SIGHUP)
	m.expect(old, reloading)
	p.until("there is no new process", func() bool { return p.pid() != old })
	next := p.pid()
	m.expect(next, fmt.Sprintf("READY=1\nMAINPID=%d\n", next))

	p.until("the old process does not know that it is replaced", func() bool {
		return strings.Contains(p.said(), fmt.Sprintln("replaced", old))
	})
	// The end of the replaced process is not the end of the service: the next message is
	// that of the new process.
	p.signal(old, syscall.SIGTERM)
	p.until("the old process does not end", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", old))
		return err != nil || strings.Contains(string(stat), ") Z")
	})
	p.signal(next, syscall.SIGTERM)
	m.expect(next, "STOPPING=1\n")
}

//go:build linux

package observe

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/isogloss-gateway/isogloss/llm"
)

// terminal opens a pseudo-terminal and returns its two ends.
func terminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	fd := int(screen.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return screen, tty
}

// TestTerminal checks that a terminal shows readable text, in colour unless that is
// disabled, and that "json" gives JSON there too.
func TestTerminal(t *testing.T) {
	for _, c := range []struct {
		name   string
		format string
		plain  bool
		want   []string
		not    []string
	}{
		{"auto", "auto", false, []string{"\x1b[", "exchange", "target=\x1b[0mlocal/llama"}, []string{"{", "bytes_in", "upstream_stream"}},
		{"without colour", "auto", true, []string{"INF exchange id=", "target=local/llama", `failed="local/llama upstream"`}, []string{"\x1b[", "{", "bytes_in"}},
		{"json", "json", false, []string{`{"time":`, `"target":"local/llama`, `"bytes_in":`}, []string{"\x1b["}},
	} {
		t.Run(c.name, func(t *testing.T) {
			screen, tty := terminal(t)
			o, err := New(Options{Log: tty, Format: c.format, Plain: c.plain})
			if err != nil {
				t.Fatal(err)
			}
			x := whole(o)
			x.Target, x.target, x.status = "local/llama", "local/llama", 0
			x.Failed(&llm.Error{Kind: llm.Upstream})
			x.End()
			shown, err := bufio.NewReader(screen).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(shown, want) {
					t.Errorf("the terminal lacks %q: %q", want, shown)
				}
			}
			for _, not := range c.not {
				if strings.Contains(shown, not) {
					t.Errorf("the terminal has %q: %q", not, shown)
				}
			}
		})
	}
	var log strings.Builder
	o, err := New(Options{Log: &log, Format: "auto"})
	if err != nil {
		t.Fatal(err)
	}
	o.Logger().Info("m")
	if !strings.HasPrefix(log.String(), `{"time":`) {
		t.Errorf("without a terminal the log has %s", log.String())
	}
}

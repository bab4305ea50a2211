package deploytest

import (
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/unit"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	earlier     = "64b7a962d4c640c481d08939c36d991923a3dea2" // a commit of which the first package is made: before the gateway notified systemd
	dynamicUser = 61_999
	unitFile    = "usr/lib/systemd/system/isogloss.service"
)

// systemctl stands for the real one, which needs systemd as process 1. It records its
// arguments and runs the unit's own ExecReload.
const systemctl = `#!/bin/sh
echo "$@" >>/run/systemctl.log
MAINPID=
[ ! -f /run/mainpid ] || MAINPID=$(cat /run/mainpid)
case "$*" in
*is-active*) [ -n "$MAINPID" ] ;;
reload*) eval "$(sed -n 's/^ExecReload=//p' /usr/lib/systemd/system/isogloss.service)" ;;
*disable*--now*) kill -TERM "$MAINPID" ;;
esac
`

// machine is the root of a small Debian system: dpkg's database, a shell, and what stands
// for systemd.
type machine struct {
	t      *testing.T
	root   string
	notify *net.UnixConn
}

func newMachine(t *testing.T, authority string) *machine {
	t.Helper()
	m := &machine{t: t, root: filepath.Join(t.TempDir(), "root")}
	for _, dir := range []string{"bin", "etc/ssl/certs", "run/systemd/system", "tmp", "usr/bin", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"} {
		if err := os.MkdirAll(m.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	for to, from := range map[string]string{"bin/busybox": busybox, "etc/ssl/certs/ca-certificates.crt": authority} {
		if err := copyFile(from, m.path(to)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(m.path("tmp"), 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	run(t, exec.Command("chroot", m.root, "/bin/busybox", "--install", "-s", "/bin"))
	for _, file := range []string{"var/lib/dpkg/status", "var/lib/dpkg/available"} {
		write(t, m.path(file), "")
	}
	write(t, m.path("usr/bin/systemctl"), systemctl)
	if err := os.Chmod(m.path("usr/bin/systemctl"), 0o755); err != nil {
		t.Fatal(err)
	}
	if m.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path("run/notify"), Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.notify.Close() }) // the processes have ended
	if err := os.Chmod(m.path("run/notify"), 0o777); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.root, name) }

func (m *machine) dpkg(args ...string) {
	m.t.Helper()
	cmd := exec.Command("dpkg", append([]string{"--root=" + m.root, "--log=/dev/null"}, args...)...)
	cmd.Env = append(os.Environ(), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	run(m.t, cmd)
}

// files lists everything on the machine but dpkg's and the test's own files.
func (m *machine) files() (all []string) {
	m.t.Helper()
	err := filepath.WalkDir(m.root, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, m.root)
		if err != nil || strings.HasPrefix(name, "/var/lib/dpkg/") || strings.HasPrefix(name, "/run/") || strings.HasPrefix(name, "/tmp/") { // the unit has a /tmp of its own
			return err
		}
		all = append(all, fmt.Sprintf("%s %s", name, d.Type()))
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return all
}

// settings returns the values of a setting of the installed unit.
func (m *machine) settings(name string) (values []string) {
	m.t.Helper()
	f, err := os.Open(m.path(unitFile))
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	options, err := unit.DeserializeOptions(f)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, o := range options {
		if o.Section == "Service" && o.Name == name {
			values = append(values, o.Value)
		}
	}
	return values
}

// start runs the unit's command as systemd does.
func (m *machine) start() *process {
	m.t.Helper()
	cmd := m.startCommand()
	p := launch(m.t, cmd)
	m.setMain(cmd.Process.Pid)
	return p
}

// startCommand does what systemd does before it runs the unit's command: it makes the state directory and the
// runtime directory and reads the environment. The command runs as the dynamic user.
func (m *machine) startCommand() *exec.Cmd {
	m.t.Helper()
	state := m.path("var/lib/" + m.settings("StateDirectory")[0])
	if err := os.MkdirAll(state, 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Chown(state, dynamicUser, dynamicUser); err != nil {
		m.t.Fatal(err)
	}
	runtime := m.settings("RuntimeDirectory")[0]
	if err := os.Mkdir(m.path("run/"+runtime), 0o700); err != nil && !os.IsExist(err) {
		m.t.Fatal(err)
	}
	if err := os.Chown(m.path("run/"+runtime), dynamicUser, dynamicUser); err != nil {
		m.t.Fatal(err)
	}
	command := strings.Fields(m.settings("ExecStart")[0])
	cmd := &exec.Cmd{Path: command[0], Args: command, Dir: "/", Env: []string{"NOTIFY_SOCKET=/run/notify", "RUNTIME_DIRECTORY=/run/" + runtime}}
	cmd.Env = append(cmd.Env, m.settings("Environment")...)
	for _, file := range m.settings("EnvironmentFile") {
		text, err := os.ReadFile(m.path(strings.TrimPrefix(file, "-")))
		if err != nil {
			m.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				cmd.Env = append(cmd.Env, line)
			}
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: m.root, Credential: &syscall.Credential{Uid: dynamicUser, Gid: dynamicUser}}
	return cmd
}

func (m *machine) setMain(pid int) { write(m.t, m.path("run/mainpid"), fmt.Sprint(pid)) }

// expect reads the next notification, which has to begin with the text.
func (m *machine) expect(text string) string {
	m.t.Helper()
	buffer := make([]byte, 4096)
	_ = m.notify.SetReadDeadline(time.Now().Add(patience))
	n, err := m.notify.Read(buffer)
	if err != nil || !strings.HasPrefix(string(buffer[:n]), text) {
		m.t.Fatalf("the notification is %q, %v; want %q", buffer[:n], err, text)
	}
	return string(buffer[:n])
}

// replaced waits for the process that takes over and returns its pid.
func (m *machine) replaced() (pid int) {
	m.t.Helper()
	if _, err := fmt.Sscanf(m.expect("READY=1\nMAINPID="), "READY=1\nMAINPID=%d\n", &pid); err != nil {
		m.t.Fatal(err)
	}
	m.setMain(pid)
	return pid
}

// buildPackage builds the Debian package of a version from a source folder.
func buildPackage(t *testing.T, source, version string) string {
	t.Helper()
	out := makeRelease(t, source, version, nil, "-platforms", "linux/amd64", "-image=false", "-sign=false")
	return filepath.Join(out, "isogloss_"+strings.TrimPrefix(version, "v")+"_amd64.deb")
}

// earlierSource returns the source of an earlier commit with today's packaging.
func earlierSource(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	archive := exec.Command("sh", "-c", `git archive "$0" | tar x -C "$1"`, earlier, dir)
	archive.Dir = root
	run(t, archive)
	if err := os.RemoveAll(filepath.Join(dir, "deploy")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS(filepath.Join(otherFolder(t), "deploy"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestDebianPackage installs a package of an earlier commit, starts it as its unit says,
// upgrades it under load, removes and purges it.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("a root of its own needs root")
	}
	if exec.Command("git", "-C", root, "cat-file", "-e", earlier).Run() != nil {
		t.Skip("this clone does not have the earlier commit " + earlier)
	}
	first, second := buildPackage(t, earlierSource(t), "v1.0.0"), buildPackage(t, root, "v1.2.3")
	release := make(chan struct{})
	env, authority := startVendor(t, release)
	m := newMachine(t, authority)
	before := m.files()

	// Two commands: install, and write the key and start.
	m.dpkg("--install", first)
	if log, _ := os.ReadFile(m.path("run/systemctl.log")); string(log) != "daemon-reload\n--quiet is-active isogloss.service\n--quiet enable isogloss.service\n" {
		t.Errorf("the installation runs systemctl %s", log)
	}
	settings := m.path("etc/isogloss/isogloss.env")
	if info, err := os.Stat(settings); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v", settings, info, err)
	}
	addresses, err := testrig.Addresses(2)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(settings, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The key and the way to the vendor; the ports may be in use on this machine.
	_, err = fmt.Fprintf(f, "%s\n%s\nISOGLOSS_LISTEN=%s\nISOGLOSS_ADMIN_LISTEN=%s\n", env[0], env[1], addresses[0], addresses[1])
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := m.start()
	url := "http://" + addresses[0]
	ask(t, url, "", p.ended)

	streams := openStreams(t, url, 8)
	stopLoad := keepAsking(t, url)
	m.dpkg("--install", second)
	pid := m.replaced()
	if !strings.Contains(p.log(), `"version":"v1.2.3"`) {
		t.Errorf("the new version does not serve: %s", p.log())
	}
	ask(t, url, "", func() error { return nil })
	close(release)
	for _, s := range streams {
		if text, err := io.ReadAll(s.Body); err != nil || !strings.Contains(string(text), "[DONE]") || !strings.Contains(string(text), greeting) {
			t.Errorf("a stream was cut: %v %s", err, text)
		}
	}
	stopLoad()
	if err := testrig.Until(t.Context(), patience, "the old process does not end", func() bool { return p.ended() != nil }); err != nil {
		t.Fatal(err)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the old process ends with %d", code)
	}

	// The same version again: a reload that this version announces.
	m.dpkg("--install", second)
	m.expect("RELOADING=1\nMONOTONIC_USEC=")
	old := pid
	pid = m.replaced()
	if err := testrig.Until(t.Context(), patience, "the replaced process does not end", func() bool { return !testrig.ProcessAlive(old) }); err != nil {
		t.Fatal(err)
	}

	m.dpkg("--remove", "isogloss")
	m.expect("STOPPING=1\n")
	if err := testrig.Until(t.Context(), patience, "the service does not end", func() bool { return !testrig.ProcessAlive(pid) }); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(settings); err != nil {
		t.Errorf("the removal takes the settings along: %v", err)
	}
	if _, err := os.Stat(m.path("usr/bin/isogloss")); err == nil {
		t.Error("the removal leaves the binary")
	}
	m.dpkg("--purge", "isogloss")
	// The package shares /usr/lib and /usr/share with others, which this machine lacks.
	after := slices.DeleteFunc(m.files(), func(name string) bool { return name == "/usr/lib d---------" || name == "/usr/share d---------" })
	if !slices.Equal(before, after) {
		t.Errorf("after purge the files are %v, want %v", after, before)
	}
}

// openStreams opens streams that wait for the vendor.
func openStreams(t *testing.T, url string, n int) (all []*http.Response) {
	t.Helper()
	for range n {
		resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"openai/gpt-x","stream":true,"messages":[{"role":"user","content":"Hello"}]}`))
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() }) // read to its end, or the test has failed
		all = append(all, resp)
	}
	return all
}

// keepAsking sends one request after the other until stop is called. Each has to succeed.
func keepAsking(t *testing.T, url string) (stop func()) {
	ending := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ending:
					t.Logf("%d requests during the upgrade", n)
					return
				case <-time.After(10 * time.Millisecond): // a steady load, not a flood
				}
				resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"openai/gpt-x","messages":[{"role":"user","content":"Hello"}]}`))
				if err != nil {
					t.Error(err)
					return
				}
				text, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close() // read to its end
				if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), greeting) {
					t.Errorf("%d %s %v", resp.StatusCode, text, err)
					return
				}
			}
		})
	}
	var once sync.Once
	stop = func() { once.Do(func() { close(ending); wg.Wait() }) }
	t.Cleanup(stop)
	return stop
}

// TestUnit checks the unit with systemd's own tools: no mistake, and a small exposure.
func TestUnit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy/systemd/isogloss.service"))
	if err != nil {
		t.Fatal(err)
	}
	// A command that exists, because the gateway is not installed here.
	file := filepath.Join(t.TempDir(), "isogloss.service")
	write(t, file, strings.Replace(string(text), "/usr/bin/isogloss", binary(t), 1))
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", file).CombinedOutput()
	if err != nil || strings.Contains(string(out), "isogloss.service") {
		t.Errorf("%v: %s", err, out)
	}
	// The threshold is ten times the exposure.
	if out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=20", file).CombinedOutput(); err != nil {
		t.Errorf("the exposure is too high: %v: %s", err, out)
	}
}

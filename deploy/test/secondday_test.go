package deploytest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// firstKey is the line of docs/install.md that creates the first key.
const firstKey = "isogloss keys create --name me --models '*'"

// documented fails if docs/install.md lacks a line that a test runs.
func documented(t *testing.T, lines ...string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/install.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if !strings.Contains(string(page), line) {
			t.Errorf("docs/install.md lacks %q", line)
		}
	}
}

// keyIn returns the key in the output of `keys create`.
func keyIn(t *testing.T, output string) string {
	t.Helper()
	key := regexp.MustCompile(`\bgw_[a-z]+_[A-Za-z0-9_-]{20,}`).FindString(output)
	if key == "" {
		t.Fatalf("there is no key in %s", output)
	}
	return key
}

// TestSecondDayPackage installs the deb, writes the example of its documentation, and creates, uses and revokes a key
// from a root shell that has none of the unit's environment. The file then has a mistake.
func TestSecondDayPackage(t *testing.T) {
	t.Parallel()
	documented(t, "apt install ./isogloss_1.2.3_amd64.deb")
	secondDayPackage(t, func(m *machine, deb string) { m.dpkg("--install", deb) })
}

// TestSecondDayRPM does the same with the rpm.
func TestSecondDayRPM(t *testing.T) {
	t.Parallel()
	documented(t, "dnf install ./isogloss_1.2.3_amd64.rpm")
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Skip("rpm is not installed")
	}
	secondDayPackage(t, func(m *machine, deb string) { m.rpm("--install", strings.TrimSuffix(deb, ".deb")+".rpm") })
}

// rpm runs rpm in the machine's root. Nothing else of a distribution with rpm is there, so dependencies are not looked up.
func (m *machine) rpm(action, name string) {
	m.t.Helper()
	cmd := exec.Command("rpm", "--root", m.root, "--dbpath", "/var/lib/rpm", "--nodeps", "--force-debian", action, name)
	cmd.Env = append(os.Environ(), "PATH=/bin:/usr/bin")
	run(m.t, cmd)
}

func secondDayPackage(t *testing.T, install func(m *machine, deb string)) {
	if os.Geteuid() != 0 {
		t.Skip("a root of its own needs root")
	}
	const example, restart = "cp /usr/share/doc/isogloss/isogloss.yaml /etc/isogloss/", "systemctl restart isogloss"
	documented(t, example, restart, firstKey)
	env, authority := startVendor(t, nil)
	m := newMachine(t, authority)
	install(m, buildPackage(t, root, "v1.2.3"))
	if info, err := os.Stat(m.path("etc/isogloss/isogloss.env")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the settings: %v, %v", info, err)
	}
	addresses, err := testrig.Addresses(2)
	if err != nil {
		t.Fatal(err)
	}
	write(t, m.path("etc/isogloss/isogloss.env"), fmt.Sprintf("%s\n%s\nISOGLOSS_LISTEN=%s\nISOGLOSS_ADMIN_LISTEN=%s\n", env[0], env[1], addresses[0], addresses[1]))
	m.shell(example)
	ann := newPerson(t)
	write(t, m.path("etc/isogloss/jwks.json"), ann.keys)
	m.shell("echo '" + strings.TrimSpace(ann.identity("/etc/isogloss/jwks.json")) + "' >>/etc/isogloss/isogloss.yaml")
	start := m.startCommand()
	if user := start.SysProcAttr.Credential.Uid; user != dynamicUser {
		t.Fatal(user)
	}
	p := launch(t, start)
	m.setMain(start.Process.Pid)
	waitForSocket(t, m.path("run/isogloss/"+addresses[0]+".sock"), p.ended)

	key := keyIn(t, m.shell(firstKey))
	ask(t, "http://"+addresses[0], key, p.ended)
	if _, err := os.Stat(m.path("etc/isogloss/isogloss-data")); err == nil {
		t.Error("there is a second store beside the file")
	}
	isogloss := func(args ...string) string { return m.shell("isogloss " + strings.Join(args, " ")) }
	findRefusals(t, "http://"+addresses[0], isogloss)
	ann.ownKeys("http://"+addresses[0], p.ended, isogloss)
	write(t, m.path("etc/isogloss/isogloss.yaml"), "data: /var/lib/isogloss\nstore: sqlite\nproviders: [\n")
	if out := m.shell("isogloss keys revoke me"); !strings.Contains(out, "is revoked") {
		t.Error(out)
	}
	p.stop(start.Process.Pid)
	if out := m.shell("isogloss keys list --json"); !strings.Contains(out, `"revoked"`) {
		t.Errorf("without the gateway: %s", out)
	}
}

// findRefusals sends requests that a key may not make, and finds them in the usage of the key, on the gateway's machine.
func findRefusals(t *testing.T, url string, isogloss func(args ...string) string) {
	t.Helper()
	key := keyIn(t, isogloss("keys", "create", "--name", "narrow", "--models", "none"))
	const refused = 3
	for range refused {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(`{"model":"openai/gpt-x","messages":[{"role":"user","content":"Hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Fatalf("the status is %d", resp.StatusCode)
		}
	}
	count := regexp.MustCompile(fmt.Sprintf(`"refused":\s*%d\b`, refused))
	var out string
	if err := testrig.Until(t.Context(), patience, "usage does not have the refused requests", func() bool {
		out = isogloss("keys", "usage", "narrow", "--json")
		return count.MatchString(out)
	}); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// shell runs a line as root in a shell without the unit's environment.
func (m *machine) shell(line string) string {
	m.t.Helper()
	cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", line}, Dir: "/", Env: []string{"PATH=/bin:/usr/bin", "HOME=/root"}, SysProcAttr: &syscall.SysProcAttr{Chroot: m.root}}
	return run(m.t, cmd)
}

// waitForSocket waits until a gateway has made its socket.
func waitForSocket(t *testing.T, name string, ended func() error) {
	t.Helper()
	err := testrig.Until(t.Context(), patience, "there is no socket "+name, func() bool {
		_, err := os.Stat(name)
		return err == nil || ended() != nil
	})
	if err == nil {
		err = ended()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// secondDayConfig is a configuration of the image and the binary.
const secondDayConfig = "store: sqlite\nproviders:\n  openai: { preset: openai, api_key: \"${OPENAI_API_KEY}\" }\nmodels:\n  openai/*: { targets: [openai/*] }\n"

// TestSecondDayImage creates the first key in a running container of the image, as docker exec does.
func TestSecondDayImage(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("buildah with chroot isolation needs root here")
	}
	documented(t, "docker exec isogloss "+firstKey)
	store := newImageStore(t)
	store.build(root, "amd64")
	name, files := store.container("amd64")
	env, authority := startVendor(t, nil)
	addresses, err := testrig.Addresses(2)
	if err != nil {
		t.Fatal(err)
	}
	ann, config, keys := newPerson(t), filepath.Join(t.TempDir(), "isogloss.yaml"), filepath.Join(t.TempDir(), "jwks.json")
	write(t, config, secondDayConfig+ann.identity("/etc/isogloss/jwks.json"))
	write(t, keys, ann.keys)
	for _, name := range []string{config, keys} {
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, port, _ := strings.Cut(addresses[0], ":")
	args := []string{"run", "--isolation", "chroot", "--volume", authority + ":" + authority + ":ro", "--volume", config + ":/etc/isogloss/isogloss.yaml:ro", "--volume", keys + ":/etc/isogloss/jwks.json:ro"}
	inside := append(append([]string{}, args...), name, "--") // docker exec has none of the variables of docker run -e
	for _, e := range append(env, "ISOGLOSS_LISTEN=:"+port, "ISOGLOSS_ADMIN_LISTEN="+addresses[1]) {
		args = append(args, "--env", e)
	}
	p := launch(t, store.command(append(args, name, "--", "/usr/bin/isogloss", "serve")...))
	waitForSocket(t, filepath.Join(files, "var/lib/isogloss/run/:"+port+".sock"), p.ended)
	pid := descendant(t, p.cmd.Process.Pid, "isogloss")
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // the container's process is in a group of its own
	key := keyIn(t, run(t, store.command(append(inside, "/usr/bin/isogloss", "keys", "create", "--name", "me", "--models", "*")...)))
	ask(t, "http://"+addresses[0], key, p.ended)
	isogloss := func(more ...string) string {
		return run(t, store.command(slices.Concat(inside, []string{"/usr/bin/isogloss"}, more)...))
	}
	findRefusals(t, "http://"+addresses[0], isogloss)
	ann.ownKeys("http://"+addresses[0], p.ended, isogloss)
	p.stop(pid)
}

// TestSecondDayBinary creates the first key of a binary that was started with a data folder of its
// environment.
func TestSecondDayBinary(t *testing.T) {
	t.Parallel()
	env, _ := startVendor(t, nil)
	addresses, err := testrig.Addresses(2)
	if err != nil {
		t.Fatal(err)
	}
	dir, sockets := t.TempDir(), shortFolder(t)
	ann, keys := newPerson(t), filepath.Join(t.TempDir(), "jwks.json")
	write(t, keys, ann.keys)
	write(t, filepath.Join(dir, "isogloss.yaml"), secondDayConfig+ann.identity(keys))
	env = append(env, "ISOGLOSS_DATA="+t.TempDir(), "ISOGLOSS_LISTEN="+addresses[0], "ISOGLOSS_ADMIN_LISTEN="+addresses[1], "XDG_RUNTIME_DIR="+sockets)
	serve := exec.Command(binary(t), "serve")
	serve.Dir, serve.Env = dir, env
	p := launch(t, serve)
	waitForSocket(t, filepath.Join(sockets, "isogloss", addresses[0]+".sock"), p.ended)
	create := exec.Command(binary(t), "keys", "create", "--name", "me", "--models", "*")
	create.Dir, create.Env = dir, []string{"XDG_RUNTIME_DIR=" + sockets}
	ask(t, "http://"+addresses[0], keyIn(t, run(t, create)), p.ended)
	if _, err := os.Stat(filepath.Join(dir, "isogloss-data")); err == nil {
		t.Error("there is a second store beside the file")
	}
	isogloss := func(args ...string) string {
		cmd := exec.Command(binary(t), args...)
		cmd.Dir, cmd.Env = dir, create.Env
		return run(t, cmd)
	}
	findRefusals(t, "http://"+addresses[0], isogloss)
	ann.ownKeys("http://"+addresses[0], p.ended, isogloss)
	file := filepath.Join(dir, "isogloss.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(text)+"retries: [\n")
	if out := isogloss("keys", "revoke", "me"); !strings.Contains(out, "is revoked") {
		t.Error(out)
	}
}

// shortFolder returns a folder whose name leaves room for that of a socket.
func shortFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "id")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

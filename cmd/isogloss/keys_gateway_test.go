package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// keysAt is a gateway with a store, whose environment names the data folder as the packaged unit does, and the
// commands of a shell without that environment.
type keysAt struct {
	*process
	t               *testing.T
	dir, file, data string
	env             []string
}

// startKeys starts the gateway, with more settings in its file.
func startKeys(t *testing.T, more ...string) *keysAt {
	t.Helper()
	up := upstreamtest.New(t)
	up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	file := writeFile(t, "isogloss.yaml", fmt.Sprintf(withMetrics, up.BaseURL())+"store: sqlite\n"+strings.Join(more, ""))
	k := &keysAt{t: t, dir: filepath.Dir(file), file: file, data: t.TempDir()}
	sockets, err := os.MkdirTemp("", "ik") // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	t.Setenv("RUNTIME_DIRECTORY", sockets) // of this gateway alone
	k.env = []string{"RUNTIME_DIRECTORY=" + sockets}
	k.process = serve(t, append(k.env, "ISOGLOSS_DATA="+k.data), "-c", file)
	socketOf(t, strings.TrimPrefix(k.url, "http://"))
	return k
}

func (k *keysAt) keys(args ...string) result {
	k.t.Helper()
	return command(k.t, k.dir, k.env, append([]string{"keys", args[0], "-c", k.file}, args[1:]...)...)
}

// create creates a key and returns its text.
func (k *keysAt) create(name string, args ...string) string {
	k.t.Helper()
	r := k.keys(append([]string{"create", "--name", name, "--models", "fast", "--json"}, args...)...)
	var made struct{ Key string }
	if err := json.Unmarshal([]byte(r.stdout), &made); err != nil || made.Key == "" {
		k.t.Fatal(r.stderr, err)
	}
	return made.Key
}

// send sends a request with a key and returns the status.
func (k *keysAt) send(key string) int {
	k.t.Helper()
	status, _ := send(k.t, k.url+"/v1/messages", plainRequest, "Authorization", "Bearer "+key)
	return status
}

func (k *keysAt) write(text string) {
	k.t.Helper()
	if err := os.WriteFile(k.file, []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

func (k *keysAt) read() string {
	k.t.Helper()
	text, err := os.ReadFile(k.file)
	if err != nil {
		k.t.Fatal(err)
	}
	return string(text)
}

// TestKeysOfRunningGateway checks that a key from a shell works at the gateway whose environment names another
// data folder, and that no second store is made. The audit log names the user.
func TestKeysOfRunningGateway(t *testing.T) {
	k := startKeys(t)
	if status := k.send(k.create("ci")); status != http.StatusOK {
		t.Errorf("a new key gets %d", status)
	}
	if _, err := os.Stat(filepath.Join(k.dir, "isogloss-data")); err == nil {
		t.Error("there is a second store beside the file")
	}
	if r := command(t, t.TempDir(), k.env, "keys", "list"); r.code != 0 || !strings.Contains(r.stdout, "ci") || !strings.Contains(r.stderr, "this is the gateway on 127.0.0.1:") {
		t.Errorf("without a file: %d %s%s", r.code, r.stdout, r.stderr)
	}
	relative := command(t, filepath.Dir(k.dir), k.env, "keys", "list", "-c", filepath.Join(filepath.Base(k.dir), "isogloss.yaml"))
	if relative.code != 0 || !strings.Contains(relative.stdout, "ci") {
		t.Errorf("with a relative path: %d %s", relative.code, relative.stderr)
	}
	owner := k.keys("create", "--name", "me", "--role", "auditor", "--json")
	var made struct{ Key string }
	if err := json.Unmarshal([]byte(owner.stdout), &made); err != nil {
		t.Fatal(owner.stderr, err)
	}
	if status, log := get(t, strings.TrimSuffix(k.metricsURL, "/metrics")+"/api/v1/audit", "Authorization", "Bearer "+made.Key); status != http.StatusOK || !strings.Contains(log, fmt.Sprintf(`"actor":"local:%d"`, os.Geteuid())) {
		t.Errorf("%d %s", status, log)
	}
	if r := k.keys("revoke", "ci"); r.code != 0 {
		t.Error(r.stderr)
	}
	if r := k.keys("list", "--listen", "127.0.0.1:1"); r.code == 0 || !strings.Contains(r.stderr, "no gateway listens on 127.0.0.1:1; there is one on 127.0.0.1:") {
		t.Errorf("%d %s", r.code, r.stderr)
	}
	if r := k.keys("list", "--socket", "/nowhere.sock"); r.code == 0 || !strings.Contains(r.stderr, "/nowhere.sock: no gateway is running there") {
		t.Errorf("%d %s", r.code, r.stderr)
	}
}

// TestKeysDespiteMistakes revokes a key while the configuration file has mistakes, with a running gateway and
// without one.
func TestKeysDespiteMistakes(t *testing.T) {
	k := startKeys(t)
	good := k.read()
	unset := strings.Replace(good, "openai-chat", "openai-chat, api_key: \"${ISOGLOSS_TEST_UNSET}\"", 1)
	broken := good + "aliases:\n  - [\n"
	key := k.create("bob")
	k.write(unset)
	if r := k.keys("list"); r.code != 0 || !strings.Contains(r.stdout, "bob") || !strings.Contains(r.stderr, "warning: ") {
		t.Errorf("with an unset variable: %d %s%s", r.code, r.stdout, r.stderr)
	}
	k.write(broken)
	if r := k.keys("revoke", "bob"); r.code != 0 || !strings.Contains(r.stdout, "is revoked") || !strings.Contains(r.stderr, "isogloss.yaml:") {
		t.Errorf("with wrong syntax: %d %s%s", r.code, r.stdout, r.stderr)
	}
	k.write("store: [\n")
	if r := k.keys("list"); r.code != 0 || !strings.Contains(r.stdout, "bob") {
		t.Errorf("with a store that cannot be read: %d %s%s", r.code, r.stdout, r.stderr)
	}
	if status := k.send(key); status != http.StatusUnauthorized {
		t.Errorf("the revoked key gets %d", status)
	}
	k.signal(t, syscall.SIGTERM)
	k.exit(t)
	k.write("data: " + k.data + "\n" + broken)
	if r := k.keys("list"); r.code != 0 || !strings.Contains(r.stdout, "bob") || !strings.Contains(r.stderr, "warning: ") {
		t.Errorf("without a gateway: %d %s%s", r.code, r.stdout, r.stderr)
	}
	k.write("store: [\n")
	if r := k.keys("list"); r.code == 0 || !strings.Contains(r.stderr, "isogloss.yaml:") {
		t.Errorf("without a gateway and a store that cannot be read: %d %s", r.code, r.stdout)
	}
}

// TestKeysOfAnotherStore names a store that the running gateway does not have.
func TestKeysOfAnotherStore(t *testing.T) {
	k := startKeys(t)
	says := func(what string, r result, want ...string) {
		t.Helper()
		for _, text := range want {
			if r.code == 0 || !strings.Contains(r.stderr, text) {
				t.Errorf("%s: %d %s%s, want %s", what, r.code, r.stdout, r.stderr, text)
			}
		}
	}
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	k.write(k.read() + "data: " + elsewhere + "\n")
	says("another data folder in the file", k.keys("create", "--name", "x", "--models", "fast"), k.data, elsewhere, "--listen 127.0.0.1:")
	if r := k.keys("list", "--listen", strings.TrimPrefix(k.url, "http://")); r.code != 0 {
		t.Errorf("the way out fails: %s", r.stderr)
	}
	other := writeFile(t, "other.yaml", strings.Replace(k.read(), "127.0.0.1:0", strings.TrimPrefix(k.url, "http://"), 1))
	says("another file with the same address", command(t, k.dir, k.env, "keys", "list", "-c", other), k.data, elsewhere, k.file)
	if _, err := os.Stat(elsewhere); err == nil {
		t.Error("a second store was made")
	}
	k.signal(t, syscall.SIGTERM)
	k.exit(t)
	k.write(strings.Replace(k.read(), elsewhere, k.data, 1))
	if r := k.keys("list"); r.code != 0 {
		t.Errorf("without a gateway: %s", r.stderr)
	}
	other = writeFile(t, "third.yaml", k.read())
	says("the folder of another gateway", command(t, k.dir, k.env, "keys", "list", "-c", other), k.data, "last used by the gateway of "+k.file, other)
}

package deploytest

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// maxBinary is what the stripped binary for linux/amd64 may have, in bytes. docs/install.md
// says what is in it.
const maxBinary = 48 << 20

// binary builds the gateway once, as `make build` does.
func binary(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "isogloss")
	cmd := exec.Command(filepath.Join(root, "deploy/build.sh"), path)
	cmd.Env = append(os.Environ(), "VERSION=v0.0.0-test")
	_, err := testrig.Output(cmd)
	return path, err
})

// scratch is a folder for what several tests use.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "isogloss-deploy-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch) // a temporary folder
	os.Exit(code)
}

// TestBinary checks the size of the binary, that it needs no library of the system, and
// that one command serves a request.
func TestBinary(t *testing.T) {
	t.Parallel()
	path := binary(t)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the binary has %.1f MB", float64(info.Size())/1e6)
	if info.Size() > maxBinary {
		t.Errorf("the binary has %d bytes, more than %d; find out what has come in with `go tool nm -size -sort size`", info.Size(), maxBinary)
	}
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary is linked dynamically")
		}
	}
	serveRequest(t, path)
}

// serveRequest starts the gateway with a vendor's key, sends a request and stops it.
func serveRequest(t *testing.T, path string) {
	t.Helper()
	env, _ := startVendor(t, nil)
	addresses, err := testrig.Addresses(2)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "serve")
	env = append(env, "ISOGLOSS_LISTEN="+addresses[0], "ISOGLOSS_ADMIN_LISTEN="+addresses[1])
	cmd.Dir, cmd.Env = t.TempDir(), env
	p := launch(t, cmd)
	ask(t, "http://"+addresses[0], "", p.ended)
	p.stop(cmd.Process.Pid)
}

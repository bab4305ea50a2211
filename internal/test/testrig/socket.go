package testrig

import (
	"os"
	"testing"
)

// SocketFolder returns a folder in which the gateways of a test have their sockets. Its path is short, as that of a
// socket has to be.
func SocketFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "i")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a rest in the temporary folder does no harm
	t.Setenv("RUNTIME_DIRECTORY", "")
	t.Setenv("XDG_RUNTIME_DIR", dir)
	return dir
}

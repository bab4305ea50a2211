package capture

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const suffix = ".sock"

// ownFolder is where this user's gateways have their sockets. It is made if need be,
// and refused if anybody else could have put something there.
func ownFolder() (string, error) {
	dir := folders(os.Geteuid())[0]
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return "", err
	}
	return dir, checkFolder(dir)
}

// checkFolder refuses a folder that others may write to or read, or that is not
// ours: the file's permissions are all that keeps others out.
func checkFolder(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder; remove it", dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s may be used by others; make it 'chmod 700', or remove it", dir)
	case !owned(info):
		return fmt.Errorf("%s belongs to somebody else; remove it", dir)
	}
	return nil
}

// folders are where a user's sockets may be, the first of them the one that a
// gateway with the same environment uses.
func folders(uid int) []string {
	var list []string
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		list = append(list, filepath.Join(dir, "isogloss"))
	}
	return append(list, filepath.Join(os.TempDir(), "isogloss-"+strconv.Itoa(uid)))
}

// AddressOf is the address by which a gateway is known: the configured one, so that
// whoever reads the same file finds it, or the real one where any free port will do.
func AddressOf(listen string, bound net.Addr) string {
	if _, port, err := net.SplitHostPort(listen); err == nil && port != "0" || bound == nil {
		return listen
	}
	return bound.String()
}

// fileName is the socket's name for a gateway's address.
func fileName(address string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r < ' ' {
			return '_'
		}
		return r
	}, address) + suffix
}

// Sockets are the sockets that this user can find: its own, and for root those of
// everybody.
func Sockets() []string {
	dirs := folders(os.Geteuid())
	if os.Geteuid() == 0 {
		for _, pattern := range []string{"/run/user/*/isogloss", "/run/isogloss", filepath.Join(os.TempDir(), "isogloss-*")} {
			more, _ := filepath.Glob(pattern) // the patterns are ours
			dirs = append(dirs, more...)
		}
	}
	var found []string
	seen := map[string]bool{}
	for _, dir := range dirs {
		files, _ := filepath.Glob(filepath.Join(dir, "*"+suffix))
		for _, f := range files {
			if !seen[f] {
				seen[f] = true
				found = append(found, f)
			}
		}
	}
	return found
}

// Address is the gateway's address that a socket's name tells.
func Address(socket string) string { return strings.TrimSuffix(filepath.Base(socket), suffix) }

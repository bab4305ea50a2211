package local

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const suffix = ".sock"

// serviceFolder is the RuntimeDirectory of the packaged systemd unit. Only root can create it.
const serviceFolder = "/run/isogloss"

// ownFolder returns the folder for the sockets of this user's gateways. It creates the
// folder, and fails if another user could have written to it.
func ownFolder() (string, error) {
	dir := folders(os.Geteuid())[0]
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return "", err
	}
	return dir, checkFolder(dir, os.Geteuid())
}

// checkFolder fails for a folder that users other than uid can access or own: only the
// permissions of files keep them away from a socket. It does not follow a link.
func checkFolder(dir string, uid int) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder; remove it", dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is accessible to other users; run 'chmod 700' on it, or remove it", dir)
	case ownerOf(info) != uid:
		return fmt.Errorf("%s belongs to another user; remove it", dir)
	}
	return nil
}

// assigned returns the folder that the service manager or the image assigns, or "".
func assigned() string {
	dir, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":") // systemd separates several by colons
	if !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}

// folders returns the folders in which a user's sockets may be. A gateway with the same
// environment uses the first.
func folders(uid int) []string {
	if dir := assigned(); dir != "" {
		return []string{dir}
	}
	var list []string
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		list = append(list, filepath.Join(dir, "isogloss"))
	}
	return append(list, filepath.Join(os.TempDir(), "isogloss-"+strconv.Itoa(uid)))
}

// AddressOf returns the address that names a gateway's socket: the configured one, so
// that a command with the same configuration finds it, or the bound one where the
// configured port is 0.
func AddressOf(listen string, bound net.Addr) string {
	if _, port, err := net.SplitHostPort(listen); err == nil && port != "0" || bound == nil {
		return listen
	}
	return bound.String()
}

// fileName returns the file name of the socket for a gateway's address.
func fileName(address string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r < ' ' {
			return '_'
		}
		return r
	}, address) + suffix
}

// Sockets returns the sockets of this user's gateways, and for root those of all users. If the
// environment assigns a folder, it returns only those in it.
func Sockets() []string {
	dirs := folders(os.Geteuid())
	if os.Geteuid() == 0 && assigned() == "" {
		for _, pattern := range []string{serviceFolder, "/run/user/*/isogloss", filepath.Join(os.TempDir(), "isogloss-*")} {
			more, _ := filepath.Glob(pattern) // the patterns are valid
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

// Address returns the address of the gateway that a socket belongs to.
func Address(socket string) string { return strings.TrimSuffix(filepath.Base(socket), suffix) }

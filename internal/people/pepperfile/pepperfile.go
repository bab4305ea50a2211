// Package pepperfile keeps a pepper of keys in a file.
package pepperfile

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// Min is the minimum length of a pepper in bytes.
const Min = 32

// Load reads a pepper from a file, and creates the file if it does not exist. Concurrent
// processes get the same pepper.
func Load(path string) (secret.String, error) {
	p, err := readPepper(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makePepper(path); err != nil {
			return "", fmt.Errorf("pepper: %w", err)
		}
		p, err = readPepper(path)
	}
	if err != nil {
		return "", fmt.Errorf("pepper: %w", err)
	}
	return p, nil
}

func readPepper(path string) (secret.String, error) {
	f, err := os.Open(path) //nolint:gosec // the operator's own path
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a file", path)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("%s can be read by others (mode %#o); run 'chmod 600 %s'", path, info.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return "", err
	}
	text = bytes.TrimSpace(text)
	if len(text) < Min {
		// Do not replace it: all keys made with it would be lost.
		return "", fmt.Errorf("%s has %d bytes, and a pepper has %d or more; put the right one back from a backup, or remove the file if no keys were made yet", path, len(text), Min)
	}
	return secret.String(text), nil
}

// makePepper writes a new pepper to a temporary file and links it to its name, which fails if the
// name exists. The file is never partially written.
func makePepper(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails
	_, err = f.WriteString(hex.EncodeToString(raw[:]) + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder makes the names in a folder survive a power loss.
func SyncFolder(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the operator's own path
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

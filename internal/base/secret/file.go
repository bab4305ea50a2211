package secret

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// maxFile is the maximum size of a file with a secret.
const maxFile = 64 << 10

// settled is the age from which a file's modification time tells two versions apart. The
// clock of a file system may advance in steps of several milliseconds.
const settled = 100 * time.Millisecond

// ReadFile returns the contents of a file without the line break at its end.
func ReadFile(path string) (String, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read from
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > maxFile:
		return "", fmt.Errorf("the file %s is larger than %d KiB; it must hold the value alone", path, maxFile>>10)
	case !utf8.Valid(data):
		return "", fmt.Errorf("the file %s is not UTF-8; save it as UTF-8", path)
	}
	return String(strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")), nil
}

// Stamp identifies a version of a file.
type Stamp struct {
	info   os.FileInfo // nil: the file does not exist
	fuzzy  bool        // the file was changed just before
	looked bool
}

// StampOf returns the stamp of a file.
func StampOf(path string) Stamp {
	info, err := os.Stat(path)
	if err != nil {
		return Stamp{looked: true}
	}
	return Stamp{info: info, fuzzy: time.Since(info.ModTime()) < settled, looked: true}
}

// Same reports whether the file has this version still. It compares the inode too: a file
// that replaced another may have the same time and size. It reports false for a file that
// was changed just before the stamp was made.
func (s Stamp) Same(as Stamp) bool {
	if s.info == nil || as.info == nil {
		return s.looked && as.looked && s.info == as.info
	}
	return !s.fuzzy && os.SameFile(s.info, as.info) && s.info.ModTime().Equal(as.info.ModTime()) && s.info.Size() == as.info.Size()
}

// File is a secret in a file. A new version of the file is used from the next Get on.
type File struct {
	path   string
	loaded String
	valid  func(String) bool

	mu      sync.Mutex // held while the file is read
	current atomic.Pointer[version]
}

// version is what was last read from a file.
type version struct {
	stamp    Stamp
	text     String
	before   String    // the text before it: requests with it may be open
	redactor *Redactor // of both
}

// NewFile returns the secret in a file whose text was read before. A later version is used if
// it is not empty and valid returns true.
func NewFile(path string, text String, valid func(String) bool) *File {
	f := &File{path: path, loaded: text, valid: valid}
	f.current.Store(&version{text: text, redactor: NewRedactor([]string{text.Reveal()})})
	return f
}

// Path returns the file's name.
func (f *File) Path() string { return f.path }

// Loaded returns the text that was read before NewFile.
func (f *File) Loaded() String { return f.loaded }

// Get returns the present text. If the file cannot be read, the last text stays.
func (f *File) Get() String {
	v := f.current.Load()
	if v.stamp.Same(StampOf(f.path)) {
		return v.text
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	v = f.current.Load()
	stamp := StampOf(f.path)
	if v.stamp.Same(stamp) {
		return v.text
	}
	next := &version{stamp: stamp, text: v.text, before: v.before, redactor: v.redactor}
	if text, err := ReadFile(f.path); err == nil && text != "" && text != v.text && f.valid(text) {
		next.text, next.before = text, v.text
		next.redactor = NewRedactor([]string{text.Reveal(), v.text.Reveal()})
	}
	f.current.Store(next)
	return next.text
}

// Secrets returns the present text and the one before it.
func (f *File) Secrets() []string {
	v := f.current.Load()
	return []string{v.text.Reveal(), v.before.Reveal()}
}

// Redactor removes the present text and the one before it from texts.
func (f *File) Redactor() *Redactor { return f.current.Load().redactor }

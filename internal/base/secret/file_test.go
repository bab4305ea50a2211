package secret

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFile uses a new text from the next Get on: replaced, written in place with the same
// length, through a symbolic link as in Kubernetes. A text that cannot be used changes nothing.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	put(t, path, "key-000000\n")
	f := NewFile(path, "key-000000", func(s String) bool { return s != "not valid" })
	if got := f.Get().Reveal(); got != "key-000000" {
		t.Error(got)
	}
	for i := range 100 {
		want := fmt.Sprintf("key-%06d", i)
		put(t, path, want+"\r\n")
		if got := f.Get().Reveal(); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	for _, text := range []string{"", "\n", "not valid", "\xff\xfe"} {
		put(t, path, text)
		if got := f.Get().Reveal(); got != "key-000099" {
			t.Errorf("%q became %q", text, got)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := f.Get().Reveal(); got != "key-000099" {
		t.Error(got)
	}
	put(t, filepath.Join(dir, "v1"), "key-link")
	if err := os.Symlink("v1", path); err != nil {
		t.Fatal(err)
	}
	if got := f.Get().Reveal(); got != "key-link" {
		t.Error(got)
	}
	if got := string(f.Redactor().Redact([]byte("key-link key-000099 key-000098"))); got != "*** *** key-000098" {
		t.Error(got)
	}
	if f.Loaded().Reveal() != "key-000000" || f.Path() != path || len(f.Secrets()) != 2 {
		t.Error(f.Loaded().Reveal(), f.Path(), len(f.Secrets()))
	}
}

// TestFileConcurrently reads while the file is replaced; every text is one that was written.
func TestFileConcurrently(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	put(t, path, "text-0")
	f := NewFile(path, "text-0", func(String) bool { return true })
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 300 {
				if got := f.Get().Reveal(); len(got) < 6 || got[:5] != "text-" {
					t.Errorf("%q", got)
				}
			}
		})
	}
	for i := range 100 {
		put(t, path+".new", fmt.Sprintf("text-%d", i))
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	readers.Wait()
	if got := f.Get().Reveal(); got != "text-99" {
		t.Error(got)
	}
}

func TestRedactorWith(t *testing.T) {
	a, b := NewRedactor([]string{"secret-one"}), NewRedactor([]string{"secret-two-longer"})
	for _, r := range []*Redactor{a.With(b), b.With(a)} {
		if got := string(r.Redact([]byte("secret-one secret-two-longer"))); got != "*** ***" {
			t.Error(got)
		}
	}
	if a.With(nil) != a || (*Redactor)(nil).With(b) != b {
		t.Error("a redactor without secrets adds some")
	}
}

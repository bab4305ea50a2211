package pepperfile

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pepper")
	got := make([]secret.String, 32)
	var wg sync.WaitGroup
	for i := range got { // as several processes that start at the same time
		wg.Go(func() {
			var err error
			if got[i], err = Load(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, p := range got {
		if p != got[0] || len(p) < Min {
			t.Fatal("two processes have two peppers")
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if again, err := Load(path); err != nil || again != got[0] {
		t.Errorf("another one the next time: %v", err)
	}
	if other, err := Load(filepath.Join(dir, "other")); err != nil || other == got[0] {
		t.Errorf("two new peppers are the same: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("x", 40)
	for _, c := range []struct {
		name, text, says string
		mode             os.FileMode
	}{
		{"empty", "", "backup", 0o600},
		{"blank", strings.Repeat(" \n", 40), "backup", 0o600},
		{"short", "canary", "backup", 0o600},
		{"group", long, "chmod 600", 0o640},
		{"world", long, "chmod 600", 0o604},
	} {
		path := filepath.Join(dir, c.name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", c.name, err)
		}
		if left, _ := os.ReadFile(path); string(left) != c.text {
			t.Errorf("%s: the file was changed", c.name)
		}
	}
	if _, err := Load(dir); err == nil {
		t.Error("a folder was taken")
	}
	if _, err := Load(filepath.Join(dir, "no", "such")); err == nil {
		t.Error("a folder that is not there was made up")
	}
}

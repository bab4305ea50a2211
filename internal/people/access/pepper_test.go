package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

func peppers(t testing.TB, list ...secret.String) Peppers {
	t.Helper()
	if list == nil {
		list = []secret.String{pepperOne}
	}
	p, err := NewPeppers(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	pepperOne secret.String = "pepper one has thirty-two bytes."
	pepperTwo secret.String = "pepper two is of the same length"
)

func TestPeppersAreLong(t *testing.T) {
	for _, list := range [][]secret.String{nil, {""}, {"short"}, {pepperOne, pepperTwo[:31]}} {
		if _, err := NewPeppers(list); err == nil || !strings.Contains(err.Error(), "at least 32") || strings.Contains(err.Error(), "short") {
			t.Errorf("%d peppers: %v", len(list), err)
		}
	}
	if p := peppers(t, pepperOne, pepperTwo); p.Newest() != 2 || strings.Contains(fmt.Sprintf("%+v %#v", p, p), "pepper one") {
		t.Error("the newest is not the last, or it was printed")
	}
}

func TestDigest(t *testing.T) {
	id, sec, _ := Mint(EnvLive)
	d := peppers(t, pepperOne, pepperTwo).Digest(id, sec)
	m := hmac.New(sha256.New, []byte(pepperTwo.Reveal()))
	m.Write([]byte(id + sec.Reveal()))
	if d.Pepper != 2 || string(d.Sum[:]) != string(m.Sum(nil)) || !d.Until.IsZero() {
		t.Errorf("%+v", d)
	}
}

func TestPeppersCheck(t *testing.T) {
	now := time.Now()
	one, both := peppers(t), peppers(t, pepperOne, pepperTwo)
	id, sec, _ := Mint(EnvLive)
	_, next, _ := Mint(EnvLive)
	other, _, _ := Mint(EnvLive)
	ending := one.Digest(id, sec)
	ending.Until = now.Add(time.Second)
	rotated := []Digest{ending, both.Digest(id, next)}
	mislabelled := one.Digest(id, sec)
	mislabelled.Pepper = 2
	for _, c := range []struct {
		name    string
		p       Peppers
		id      string
		sec     secret.String
		digests []Digest
		at      time.Time
		want    match
	}{
		{"right", one, id, sec, []Digest{one.Digest(id, sec)}, now, matchValid},
		{"wrong", one, id, next, []Digest{one.Digest(id, sec)}, now, noMatch},
		{"no digest", one, id, sec, nil, now, noMatch},
		{"a digest of another id", one, id, sec, []Digest{one.Digest(other, sec)}, now, noMatch},
		{"an older pepper", both, id, sec, []Digest{one.Digest(id, sec)}, now, matchValid},
		{"a pepper that is not here", one, id, sec, []Digest{both.Digest(id, sec)}, now, noMatch},
		{"another version than it says", both, id, sec, []Digest{mislabelled}, now, noMatch},
		{"rotated, the old one", both, id, sec, rotated, now, matchValid},
		{"rotated, the new one", both, id, next, rotated, now, matchValid},
		{"rotated, the old one at its end", both, id, sec, rotated, now.Add(time.Second), matchExpired},
		{"rotated, the new one after that", both, id, next, rotated, now.Add(time.Second), matchValid},
	} {
		if got := c.p.check(c.id, c.sec, c.digests, c.at); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestLoadPepper(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pepper")
	got := make([]secret.String, 32)
	var wg sync.WaitGroup
	for i := range got { // as several processes that start at the same time
		wg.Go(func() {
			var err error
			if got[i], err = LoadPepper(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, p := range got {
		if p != got[0] || len(p) < pepperMin {
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
	if again, err := LoadPepper(path); err != nil || again != got[0] {
		t.Errorf("another one the next time: %v", err)
	}
	if other, err := LoadPepper(filepath.Join(dir, "other")); err != nil || other == got[0] {
		t.Errorf("two new peppers are the same: %v", err)
	}
}

func TestLoadPepperRefuses(t *testing.T) {
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
		_, err := LoadPepper(path)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", c.name, err)
		}
		if left, _ := os.ReadFile(path); string(left) != c.text {
			t.Errorf("%s: the file was changed", c.name)
		}
	}
	if _, err := LoadPepper(dir); err == nil {
		t.Error("a folder was taken")
	}
	if _, err := LoadPepper(filepath.Join(dir, "no", "such")); err == nil {
		t.Error("a folder that is not there was made up")
	}
}

func BenchmarkDigest(b *testing.B) {
	p := peppers(b)
	id, sec, _ := Mint(EnvLive)
	b.ReportAllocs()
	for b.Loop() {
		p.Digest(id, sec)
	}
}

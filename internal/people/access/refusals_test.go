package access

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// killed returns a copy of a snapshot's folder as a killed process would leave it.
func killed(t *testing.T, path string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range []string{path, path + ".refused"} {
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(name)), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(to, filepath.Base(path))
}

// TestRefusalsSurviveAKill checks that a key that a node has refused is refused by a process
// that starts without the store, although the snapshot is older.
func TestRefusalsSurviveAKill(t *testing.T) {
	for name, c := range map[string]struct {
		how  func(s *source, id string)
		want string
	}{
		"a key is revoked":    {func(s *source, id string) { s.change(id, func(r *Record) { r.Revoked = time.Now() }) }, "401 revoked_api_key"},
		"a team is blocked":   {func(s *source, _ string) { s.putTenant(Tenant{Org: "o", Team: "t", Blocked: true}) }, "403 blocked"},
		"a key of it blocked": {func(s *source, id string) { s.change(id, func(r *Record) { r.OrgBlocked = true }) }, "403 blocked"},
		"a key and another team, at once": {func(s *source, id string) {
			s.putTenant(Tenant{Org: "o", Team: "other", Blocked: true})
			s.change(id, func(r *Record) { r.Revoked = time.Now() })
		}, "401 revoked_api_key"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p := newSource(), peppers(t)
				ids, keys := s.stored(p, 2)
				s.change(ids[0], func(r *Record) { r.Org, r.Team = "o", "t" })
				o := DirectoryOptions{Source: s, Peppers: p, Snapshot: filepath.Join(t.TempDir(), "s")}
				d := NewDirectory(o)
				stop := follow(t, d)
				time.Sleep(saveInterval + time.Second)
				wants(t, d, keys[0], "200")
				c.how(s, ids[0])
				time.Sleep(pollInterval)
				refused := says(d, keys[0])
				if refused == "200" {
					t.Fatal("the node has not seen the change")
				}
				again := o
				again.Snapshot = killed(t, o.Snapshot)
				s.set(func(s *source) { s.err = errAway })
				d = NewDirectory(again)
				wants(t, d, keys[0], refused)
				wants(t, d, keys[1], "200")

				s.set(func(s *source) { s.err = nil })
				stopAgain := follow(t, d)
				time.Sleep(saveInterval + time.Second)
				for _, path := range []string{o.Snapshot, again.Snapshot} {
					if _, err := os.Stat(path + ".refused"); !os.IsNotExist(err) {
						t.Errorf("%s: the file remains after the next snapshot: %v", path, err)
					}
				}
				stop()
				stopAgain()
				again.Snapshot = killed(t, o.Snapshot)
				s.set(func(s *source) { s.err = errAway })
				wants(t, NewDirectory(again), keys[0], refused)
			})
		})
	}
}

// TestRefusalsThatAreCut checks that the file is read up to the first incomplete or changed
// entry, and that it never adds a key.
func TestRefusalsThatAreCut(t *testing.T) {
	p := peppers(t)
	first, key := minted(p)
	second, other := minted(p)
	path := filepath.Join(t.TempDir(), "s")
	write(t, path, p, time.Now(), 1, []Record{first, second})
	o := DirectoryOptions{Source: newSource(), Peppers: p, Snapshot: path, Logger: slog.New(slog.DiscardHandler)}
	first.Revoked, second.Revoked = time.Now(), time.Now()
	f := newRefusals(&o)
	f.add(Changes{Records: []Record{first}})()
	one := f.bytes
	f.add(Changes{Records: []Record{second}})()
	text, err := os.ReadFile(f.path)
	if err != nil || len(text) != f.bytes {
		t.Fatalf("%d bytes, want %d; %v", len(text), f.bytes, err)
	}
	try := func(name string, text []byte, want, wantOther string) {
		t.Helper()
		if err := os.WriteFile(f.path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		d := NewDirectory(o)
		if got, gotOther := says(d, key), says(d, other); got != want || gotOther != wantOther {
			t.Errorf("%s: %s, %s", name, got, gotOther)
		}
		whole := want != "200" && wantOther != "200"
		if !whole && len(text) > 0 && !strings.Contains(log.String(), "incomplete") && len(text) != one {
			t.Errorf("%s: nothing in the log: %s", name, log.String())
		}
	}
	refused := "401 revoked_api_key"
	try("whole", text, refused, refused)
	try("one", text[:one], refused, "200")
	for i := one + 1; i < len(text); i += 11 {
		bad := bytes.Clone(text)
		bad[i] ^= 1
		try("changed in the second", bad, refused, "200")
		try("cut in the second", text[:i], refused, "200")
	}
	try("another pepper", bytes.Repeat([]byte{1}, 100), "200", "200")
}

// TestRefusalsAreBounded checks that a large file asks for a snapshot, and that entries which
// a snapshot may lack stay in the file.
func TestRefusalsAreBounded(t *testing.T) {
	p := peppers(t)
	r, _ := minted(p)
	r.Revoked = time.Now()
	o := DirectoryOptions{Peppers: p, Snapshot: filepath.Join(t.TempDir(), "s"), Logger: slog.New(slog.DiscardHandler)}
	f := newRefusals(&o)
	var many []Record
	for range 1000 {
		many = append(many, r)
	}
	for len(f.full) == 0 {
		if f.bytes > 2*fullRefusals {
			t.Fatalf("%d bytes and no snapshot is asked for", f.bytes)
		}
		f.add(Changes{Records: many})()
	}
	late := f.add(Changes{Records: []Record{r}})
	f.drop(f.count())
	if info, err := os.Stat(f.path); err != nil || len(f.frames) != 1 || info.Size() != int64(f.bytes) {
		t.Errorf("%d entries, %v", len(f.frames), err)
	}
	late()
	f.drop(f.count())
	if _, err := os.Stat(f.path); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// TestIncompleteRefusalIsRemoved checks that the next snapshot removes a file that has only an incomplete entry.
func TestIncompleteRefusalIsRemoved(t *testing.T) {
	o := DirectoryOptions{Peppers: peppers(t), Snapshot: filepath.Join(t.TempDir(), "s"), Logger: slog.New(slog.DiscardHandler)}
	f := newRefusals(&o)
	if err := os.WriteFile(f.path, []byte("cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.restore(newTable(1))
	f.drop(f.count())
	if _, err := os.Stat(f.path); !os.IsNotExist(err) {
		t.Errorf("the file remains: %v", err)
	}
}

// TestFileOfRefusalsHasALimit checks that the file of refusals does not grow beyond its limit.
func TestFileOfRefusalsHasALimit(t *testing.T) {
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "s")
	f := newRefusals(&DirectoryOptions{Snapshot: path, Peppers: peppers(t), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	f.bytes = maxRefusals - 10
	f.add(Changes{Records: []Record{{ID: "a", Revoked: time.Now()}}})
	if _, err := os.Stat(path + ".refused"); !os.IsNotExist(err) || !strings.Contains(log.String(), "the file would have over") {
		t.Errorf("%v; the log: %s", err, log.String())
	}
}

// TestRefusalOfALookupSurvivesAKill revokes a key that a node looks up before it reads the change: of another secret, as
// after a rotation on another node, and of a key that it knew before the store was restored.
func TestRefusalOfALookupSurvivesAKill(t *testing.T) {
	for name, look := range map[string]func(d *Directory, s *source, key string){
		"another secret": func(d *Directory, _ *source, key string) { _ = says(d, otherSecret(key, 4)) },
		"a reset": func(d *Directory, s *source, key string) {
			s.set(func(s *source) { s.history++; s.noLists = true })
			_ = d.Refresh(context.Background())
			_ = says(d, key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := newSource(), peppers(t)
			ids, keys := s.stored(p, 1)
			o := DirectoryOptions{Source: s, Peppers: p, Snapshot: filepath.Join(t.TempDir(), "s")}
			d := NewDirectory(o)
			if err := d.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			(&saver{d: d}).save()
			wants(t, d, keys[0], "200")
			s.change(ids[0], func(r *Record) { r.Revoked = time.Now() })
			look(d, s, keys[0])
			wants(t, d, keys[0], "401 revoked_api_key")
			again := o
			again.Snapshot = killed(t, o.Snapshot)
			s.set(func(s *source) { s.err = errAway })
			wants(t, NewDirectory(again), keys[0], "401 revoked_api_key")
		})
	}
}

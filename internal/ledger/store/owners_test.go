package store

import (
	"testing"
	"time"
)

func TestOwners(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		one, two := open(), open()
		want := func(id, owner string) {
			t.Helper()
			if got, err := two.Owner(bg(), id); err != nil || got != owner {
				t.Errorf("%s: %q %v, want %q", id, got, err, owner)
			}
		}
		want("a", "")
		no(t, one.AddOwners(bg(), map[string]string{"a": "org:x", "b": "org:x"}, noon))
		want("a", "org:x")
		no(t, two.AddOwners(bg(), map[string]string{"a": "org:y", "c": "org:y"}, noon.Add(time.Hour)))
		want("a", "org:x")
		want("c", "org:y")
		no(t, one.ExpireOwners(bg(), noon.Add(time.Minute)))
		want("a", "")
		want("b", "")
		want("c", "org:y")
	})
}

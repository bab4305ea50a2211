package access

import (
	"hash"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
)

// Classes of wrong keys.
const (
	wrongSecret = iota // of an existing key
	almostRight        // an existing key; the first 36 characters of the secret are correct
	unknownID
	classesOf = 3
)

var classNames = [classesOf]string{"a wrong secret", "a secret that is almost right", "an id that does not exist"}

// timed is a directory with a known key and an unknown one.
type timed struct {
	d             *Directory
	right, absent string
}

func newTimed(t *testing.T) *timed {
	t.Helper()
	s, p := newSource(), peppers(t)
	_, keys := s.stored(p, 1000)
	d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
	if err := d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, absent := minted(p)
	return &timed{d: d, right: keys[0], absent: absent}
}

// key returns a new key of a class.
func (x *timed) key(class int) string {
	switch class {
	case wrongSecret:
		return otherSecret(x.right, 0)
	case almostRight:
		return otherSecret(x.right, 36)
	}
	return otherSecret(x.absent, 0)
}

// from sets an address that has not sent too many wrong keys.
func from(r *http.Request, i int) {
	n := uint32(i)
	r.RemoteAddr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 1234).String()
}

// countingHash counts the work of a hash.
type countingHash struct {
	hash.Hash
	sums, bytes *int
}

func (h countingHash) Write(p []byte) (int, error) {
	*h.bytes += len(p)
	return h.Hash.Write(p)
}

func (h countingHash) Sum(b []byte) []byte {
	*h.sums++
	return h.Hash.Sum(b)
}

// TestWrongKeysTakeTheSameSteps checks that every class of wrong keys costs the same hashes: one per
// pepper, over the same number of bytes. The comparisons are constant-time functions. Response times are
// measured by make timing, which needs an idle machine.
func TestWrongKeysTakeTheSameSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no second passes, so the store is queried once per id
		x := newTimed(t)
		x.d.o.Peppers = peppers(t, pepperOne, pepperTwo) // with empty pools
		var sums, bytes int
		for _, p := range x.d.o.Peppers.list {
			create := p.hashers.New
			p.hashers.New = func() any {
				h := create().(*hasher)
				h.mac = countingHash{h.mac, &sums, &bytes}
				return h
			}
		}
		r := request("")
		send := func(class, i int) {
			r.Header["Authorization"] = []string{"Bearer " + x.key(class)}
			from(r, i)
			if _, err := x.d.Check(r); err == nil || err.Code != "invalid_api_key" {
				t.Fatalf("%s: %v", classNames[class], err)
			}
		}
		for class := range classesOf {
			send(class, class) // the first of an id queries the store
			sums, bytes = 0, 0
			for i := range 100 {
				send(class, 100*(class+1)+i)
			}
			peppers := len(x.d.o.Peppers.list)
			if sums != 100*peppers || bytes != 100*peppers*(idLen+secretLen) {
				t.Errorf("100 keys of the class %q cost %d hashes of %d bytes, want %d of %d", classNames[class], sums, bytes, 100*peppers, 100*peppers*(idLen+secretLen))
			}
		}
	})
}

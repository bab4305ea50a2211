package relay

import (
	"bytes"
	"container/list"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

// vault keeps for a while what clients may need again, in memory only, and encrypted
// with a key that this process made up and never tells. What was not asked for longest
// goes first. Other policies keep what is asked for often, which is not what a
// conversation is.
type vault struct {
	vaultBounds
	aead cipher.AEAD
	now  func() time.Time

	mu      sync.Mutex
	entries map[vaultKey]*list.Element
	order   list.List // of vaultEntry; what was used last is at the back
	room    int64     // that is taken
}

// vaultBounds bound what is kept.
type vaultBounds struct {
	life time.Duration // since it was used last
	many int           // entries
	size int           // bytes of one
}

// vaultKey is a digest of all that one has to know to find something.
type vaultKey [sha256.Size]byte

type vaultEntry struct {
	key    vaultKey
	until  time.Time
	sealed []byte // nonce and ciphertext
}

// room is what an entry takes: its bytes, and about what its places in the map and in
// the list take.
func (e *vaultEntry) room() int64 { return int64(len(e.sealed)) + 256 }

func newVault(b vaultBounds) *vault {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has the right length
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // the block has the right size
	}
	return &vault{vaultBounds: b, aead: aead, now: time.Now, entries: map[vaultKey]*list.Element{}}
}

// put keeps something, in place of what had its key, among others that have so much
// room together. It reports whether it is kept.
func (v *vault) put(key vaultKey, plain []byte, room int64) bool {
	if len(plain) > v.size {
		return false
	}
	sealed := v.seal(key, plain)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keep(key, sealed, room)
	return true
}

// claim is put for keys that must not have two meanings: where something else has the
// key already, nothing is found under it any more.
func (v *vault) claim(key vaultKey, plain []byte, room int64) bool {
	if len(plain) > v.size {
		return false
	}
	sealed := v.seal(key, plain)
	v.mu.Lock()
	defer v.mu.Unlock()
	before, taken := v.find(key)
	same := !taken || bytes.Equal(v.open(key, before), plain)
	if !same {
		sealed = v.seal(key, nil)
	}
	v.keep(key, sealed, room)
	return same
}

// get finds what is kept. It then is for as long again.
func (v *vault) get(key vaultKey) ([]byte, bool) {
	v.mu.Lock()
	sealed, ok := v.find(key)
	v.mu.Unlock()
	if !ok {
		return nil, false
	}
	plain := v.open(key, sealed)
	return plain, len(plain) > 0
}

func (v *vault) empty() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.entries) == 0
}

func (v *vault) seal(key vaultKey, plain []byte) []byte {
	nonce := make([]byte, v.aead.NonceSize(), v.aead.NonceSize()+len(plain)+v.aead.Overhead())
	_, _ = rand.Read(nonce) // it never fails
	return v.aead.Seal(nonce, nonce, plain, key[:])
}

func (v *vault) open(key vaultKey, sealed []byte) []byte {
	n := v.aead.NonceSize()
	plain, err := v.aead.Open(nil, sealed[:n], sealed[n:], key[:])
	if err != nil {
		panic(err) // it was sealed here with the same key
	}
	return plain
}

func (v *vault) find(key vaultKey) ([]byte, bool) {
	at, ok := v.entries[key]
	if !ok {
		return nil, false
	}
	e, now := at.Value.(*vaultEntry), v.now()
	if now.After(e.until) {
		return nil, false
	}
	e.until = now.Add(v.life)
	v.order.MoveToBack(at)
	return e.sealed, true
}

func (v *vault) keep(key vaultKey, sealed []byte, room int64) {
	if at, ok := v.entries[key]; ok {
		v.drop(at)
	}
	now := v.now()
	e := &vaultEntry{key: key, until: now.Add(v.life), sealed: sealed}
	v.entries[key] = v.order.PushBack(e)
	v.room += e.room()
	for oldest := v.order.Front(); oldest != nil; oldest = v.order.Front() {
		if len(v.entries) <= v.many && v.room <= room && now.Before(oldest.Value.(*vaultEntry).until) {
			return
		}
		v.drop(oldest)
	}
}

func (v *vault) drop(at *list.Element) {
	e := v.order.Remove(at).(*vaultEntry)
	v.room -= e.room()
	delete(v.entries, e.key)
}

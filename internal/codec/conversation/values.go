package conversation

import (
	"bytes"
	"encoding/hex"
	"sync"
)

// Values keep values under keys for one caller. They may forget any of them.
type Values interface {
	Load(key string) (value []byte, ok bool)
	Store(key string, value []byte)
}

// NewValues returns values in memory with the bounds of stored responses: an hour after the last use, and maxBytes
// together.
func NewValues(maxBytes int64) Values {
	s := newStore(bounds{ttl: responsesTTL, maxEntries: responsesMaxEntries, maxValue: responsesMaxValue, maxBytes: maxBytes})
	return inside{s}
}

// inside are values in a store.
type inside struct{ store *store }

func (v inside) Load(key string) ([]byte, bool) {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	return v.store.use(newKey(key))
}

func (v inside) Store(key string, value []byte) { v.store.put("", newKey(key), value) }

// keeper is what seals and responses need of a store.
type keeper interface {
	isEmpty() bool
	put(tenant string, k key, value []byte) bool
	putOnce(tenant string, k key, value []byte) bool
	get(k key) ([]byte, bool)
}

// outside is a keeper that keeps its entries in values. An empty value marks an ambiguous key.
type outside struct {
	mu     sync.Mutex // of putOnce
	values Values
}

func (o *outside) isEmpty() bool { return false }

func (o *outside) put(_ string, k key, value []byte) bool {
	if len(value) > responsesMaxValue {
		return false
	}
	o.values.Store(hex.EncodeToString(k[:]), value)
	return true
}

func (o *outside) putOnce(tenant string, k key, value []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if old, ok := o.values.Load(hex.EncodeToString(k[:])); ok && !bytes.Equal(old, value) {
		o.values.Store(hex.EncodeToString(k[:]), nil)
		return false
	}
	return o.put(tenant, k, value)
}

func (o *outside) get(k key) ([]byte, bool) {
	value, _ := o.values.Load(hex.EncodeToString(k[:]))
	return value, len(value) > 0
}

package cache

import (
	"cmp"
	"context"
	"net/http"
	"time"
)

// Defaults.
const (
	DefaultMax = 1 << 20          // bytes of an answer's body
	DefaultTTL = 10 * time.Minute // of a cached answer
)

// Store keeps values by key. It may forget.
type Store interface {
	// Get returns nil where nothing is known, for whatever reason.
	Get(ctx context.Context, k Key) []byte
	// Put does not wait. The value is not changed afterwards by anyone.
	Put(k Key, value []byte, ttl time.Duration)
}

// Options are those of a Cache.
type Options struct {
	Secret []byte           // at least 32 bytes, the same on all nodes that share a store
	TTL    time.Duration    // 0: DefaultTTL
	Max    int              // bytes of a body; 0: DefaultMax
	Now    func() time.Time // nil: time.Now
}

// Cache gives the answers that were given before.
type Cache struct {
	keys  keyring
	store Store
	ttl   time.Duration
	max   int
	now   func() time.Time
}

// New returns a cache over a store.
func New(s Store, o Options) (*Cache, error) {
	keys, err := newKeyring(o.Secret)
	if err != nil {
		return nil, err
	}
	c := &Cache{keys: keys, store: s, ttl: cmp.Or(o.TTL, DefaultTTL), max: cmp.Or(o.Max, DefaultMax), now: o.Now}
	if c.now == nil {
		c.now = time.Now
	}
	return c, nil
}

// Key is where the answer to a tenant's request is kept; see Tenant.
func (c *Cache) Key(tenant string, q *Request) Key { return c.keys.answer(tenant, q) }

// Recorder holds an answer of up to the cache's limit.
func (c *Cache) Recorder() *Recorder { return NewRecorder(c.max) }

// Get returns the answer that is kept at a key, or nil. An answer that is older than
// the cache's time is none: a store may have been told another time by an older
// configuration.
func (c *Cache) Get(ctx context.Context, k Key) *Answer {
	b := c.store.Get(ctx, k)
	if b == nil {
		return nil
	}
	r, err := decode(b, k)
	if err != nil || r.kind != full || c.now().Sub(r.at) > c.ttl {
		return nil
	}
	return r.answer
}

// Put keeps an answer and says whether it may be kept. The caller has seen its proof
// of completeness: a stream's terminal event, or a body that was read to its declared
// end. An answer that reached its token limit is complete, because the limit is part
// of the request. One that a content filter stopped or replaced is not to be put:
// filters change under the same request, and a false alarm should not be repeated.
func (c *Cache) Put(k Key, a *Answer) bool {
	if a.Status != http.StatusOK || len(a.Body) == 0 || len(a.Body) > c.max {
		return false
	}
	r := record{kind: full, key: k, at: a.At, answer: a}
	if r.at.IsZero() {
		r.at = c.now()
	}
	c.store.Put(k, r.encode(), c.ttl)
	return true
}

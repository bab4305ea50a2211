package cache

import (
	"cmp"
	"context"
	"net/http"
	"time"
)

// The defaults of Options.
const (
	DefaultMax = 1 << 20          // bytes of a response body
	DefaultTTL = 10 * time.Minute // of a cached response
)

// Store stores values by key. It may evict them at any time.
type Store interface {
	// Get returns the value of a key, or nil if there is none or the store fails.
	Get(ctx context.Context, k Key) []byte
	// Put stores a value without blocking. The value must not be changed afterwards.
	Put(k Key, value []byte, ttl time.Duration)
}

// Options are the options of a Cache.
type Options struct {
	Secret []byte           // at least 32 bytes, the same on all nodes that share a store
	TTL    time.Duration    // 0: DefaultTTL
	Max    int              // bytes of a body; 0: DefaultMax
	Now    func() time.Time // nil: time.Now
}

// Cache returns earlier responses to the same request.
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

// Key returns the key of a tenant's request; see Tenant.
func (c *Cache) Key(tenant string, q *Request) Key { return c.keys.response(tenant, q) }

// Recorder returns a Recorder with the cache's limit.
func (c *Cache) Recorder() *Recorder { return NewRecorder(c.max) }

// Get returns the response of a key, or nil. It ignores a response older than the cache's
// TTL, which may have been stored with a longer one before a reload.
func (c *Cache) Get(ctx context.Context, k Key) *Response {
	b := c.store.Get(ctx, k)
	if b == nil {
		return nil
	}
	r, err := decode(b, k)
	if err != nil || r.kind != full || c.now().Sub(r.at) > c.ttl {
		return nil
	}
	return r.response
}

// Put stores a response and reports whether it did. The caller must pass only complete
// responses: a stream with its terminal event, or a body read to its declared end. A
// response that reached its token limit is complete, because the limit is part of the
// request. A response that a content filter stopped or replaced must not be stored,
// because filters change and a false positive should not be repeated.
func (c *Cache) Put(k Key, a *Response) bool {
	if a.Status != http.StatusOK || len(a.Body) == 0 || len(a.Body) > c.max {
		return false
	}
	r := record{kind: full, key: k, at: a.At, response: a}
	if r.at.IsZero() {
		r.at = c.now()
	}
	c.store.Put(k, r.encode(), c.ttl)
	return true
}

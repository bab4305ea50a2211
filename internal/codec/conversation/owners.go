package conversation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
)

// Bounds of the owners in memory, and of the owners that are not yet in the store.
const (
	ownersMaxEntries = 256 << 10
	ownersMaxBytes   = 64 << 20
	ownersMaxWaiting = 64 << 10
)

// OwnersTTL is how long the process remembers the owner of an id after the last use of the
// id. The store keeps an owner for the same time after it was added.
const OwnersTTL = 30 * 24 * time.Hour

// Times of the store. A node writes new owners every ownersFlush. Another node that finds no
// owner of an id looks a second time after ownersAgain.
const (
	ownersFlush  = 100 * time.Millisecond
	ownersAgain  = 3 * ownersFlush
	ownersWait   = time.Second // the longest time for which a request waits for the owners of its ids
	ownersExpire = time.Hour   // interval of removing expired owners
	maxLookups   = 16          // concurrent queries of the store
	maxUnknown   = 64          // a request with this many ids without a known owner is rejected
)

// OwnerStore keeps owners for all nodes. Ids are digests.
type OwnerStore interface {
	// Owner returns the owner of an id, or "" if it has none.
	Owner(ctx context.Context, id string) (owner string, err error)

	// AddOwners stores the owners of ids. An id that already has an owner keeps it.
	AddOwners(ctx context.Context, owners map[string]string, now time.Time) error

	// ExpireOwners removes the owners that were stored before a time.
	ExpireOwners(ctx context.Context, before time.Time) error
}

// Owners records which tenant owns the id of an object that a vendor stores. The first
// tenant that receives an id in a response owns it.
type Owners struct {
	local   *store
	backing atomic.Pointer[OwnerStore] // nil: there is no store
	lookups chan struct{}

	mu      sync.Mutex
	waiting map[string]string // owners that are not yet in the store, by the digest of the id
}

// NewOwners returns Owners that use only memory until Run is called.
func NewOwners() *Owners {
	return &Owners{local: newStore(bounds{ttl: OwnersTTL, maxEntries: ownersMaxEntries, maxValue: 1 << 10, maxBytes: ownersMaxBytes}), lookups: make(chan struct{}, maxLookups)}
}

// Add records the owner of ids. It does not wait for the store.
func (o *Owners) Add(owner string, ids ...string) {
	for _, id := range ids {
		k := key(sha256.Sum256([]byte(id)))
		if id == "" || string(o.local.putFirst(owner, k, []byte(owner))) != owner || o.backing.Load() == nil {
			continue
		}
		o.mu.Lock()
		if o.waiting == nil {
			o.waiting = map[string]string{}
		}
		if len(o.waiting) < ownersMaxWaiting {
			o.waiting[hex.EncodeToString(k[:])] = owner
		}
		o.mu.Unlock()
	}
}

// Check returns the first reference that a tenant may not use, or nil. A tenant may not use
// an id that another tenant owns. Without refuse it may use fewer than maxUnknown ids whose
// owner is not known, with refuse none.
func (o *Owners) Check(ctx context.Context, tenant string, refs []codec.Reference, refuse bool) *codec.Reference {
	ctx, cancel := context.WithTimeout(ctx, ownersWait)
	defer cancel()
	unknown := 0
	for i := range refs {
		owner, known := o.owner(ctx, refs[i].ID, refuse)
		if !known {
			unknown++
		}
		if known && owner != tenant || !known && (refuse || unknown >= maxUnknown) {
			return &refs[i]
		}
	}
	return nil
}

// owner returns the owner of an id. It reports false if no owner is known, or if the store
// does not respond. With wait it asks the store a second time after ownersAgain, because
// another node may be about to store the owner.
func (o *Owners) owner(ctx context.Context, id string, wait bool) (string, bool) {
	k := key(sha256.Sum256([]byte(id)))
	if owner, ok := o.local.get(k); ok {
		return string(owner), true
	}
	backing := o.backing.Load()
	if backing == nil {
		return "", false
	}
	select {
	case o.lookups <- struct{}{}:
		defer func() { <-o.lookups }()
	case <-ctx.Done():
		return "", false
	}
	owner, err := (*backing).Owner(ctx, hex.EncodeToString(k[:]))
	if err == nil && owner == "" && wait {
		select {
		case <-time.After(ownersAgain):
			owner, err = (*backing).Owner(ctx, hex.EncodeToString(k[:]))
		case <-ctx.Done():
		}
	}
	if err != nil || owner == "" {
		return "", false
	}
	return string(o.local.putFirst(owner, k, []byte(owner))), true
}

// Run writes new owners to the store until the context ends, and then the remaining ones.
func (o *Owners) Run(ctx context.Context, s OwnerStore, logger *slog.Logger) {
	o.backing.Store(&s)
	flush, expire := time.NewTicker(ownersFlush), time.NewTicker(ownersExpire)
	defer flush.Stop()
	defer expire.Stop()
	failing := false
	for {
		var err error
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), ownersWait)
			defer cancel()
			_ = o.flush(last, s) // an id whose owner is lost has no known owner, as after the TTL
			return
		case <-flush.C:
			err = o.flush(ctx, s)
		case now := <-expire.C:
			err = s.ExpireOwners(ctx, now.Add(-OwnersTTL))
		}
		if failed := err != nil; failed != failing && ctx.Err() == nil {
			failing = failed
			if failed {
				logger.Warn("owners of ids cannot be stored", "error", err)
			}
		}
	}
}

// flush writes the waiting owners to the store. If that fails, they keep waiting.
func (o *Owners) flush(ctx context.Context, s OwnerStore) error {
	o.mu.Lock()
	owners := o.waiting
	o.waiting = nil
	o.mu.Unlock()
	if len(owners) == 0 {
		return nil
	}
	err := s.AddOwners(ctx, owners, time.Now())
	if err != nil {
		o.mu.Lock()
		for id, owner := range o.waiting {
			if len(owners) < ownersMaxWaiting {
				owners[id] = owner
			}
		}
		o.waiting = owners
		o.mu.Unlock()
	}
	return err
}

// maxCreated is the largest response from which the ids of a created object are read.
const maxCreated = 64 << 10

// Created reads the ids of an object that a vendor creates, such as a file, from the
// response while it passes. A nil Created reads nothing.
type Created struct {
	owners *Owners
	owner  string
	size   int64 // of the response; negative if it is unknown
	body   []byte
}

// NewCreated returns a Created for the response to a request with a method. It returns nil
// if there is no owner, if the method creates nothing, or if the response is too large.
func (o *Owners) NewCreated(owner, method string, size int64) *Created {
	if owner == "" || method != http.MethodPost || size > maxCreated {
		return nil
	}
	return &Created{owners: o, owner: owner, size: size}
}

// Read reads the next part of the response before the client receives it. last says that no
// part follows.
func (c *Created) Read(p []byte, last bool) {
	if c == nil || len(c.body)+len(p) > maxCreated {
		return
	}
	c.body = append(c.body, p...)
	if last || int64(len(c.body)) == c.size {
		c.owners.Add(c.owner, codec.CreatedIDs(c.body)...)
	}
}

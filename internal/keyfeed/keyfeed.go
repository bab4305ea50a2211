// Package keyfeed shares the store's changes of keys among the nodes of a Redis, so that one
// node reads them from the store and not each.
package keyfeed

import (
	"bytes"
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/redis"
)

const (
	freshFor = 400 * time.Millisecond // how long Redis has a page; then one node writes the next
	maxSkew  = time.Second            // between the clocks of two nodes; a page of a greater difference is ignored
	ownPoll  = time.Minute            // at which a node reads the store in any case
	timeout  = 250 * time.Millisecond // of Redis
	again    = 40 * time.Millisecond  // between looks for the page that another node writes
	looks    = 10                     // such looks before the node reads the store itself

	maxLinks = 64      // groups of changes in a page
	maxKeys  = 1000    // keys, teams and organisations in a page
	maxPage  = 1 << 20 // bytes of a page in Redis
)

// link is what changed up to a cursor since the one before.
type link struct {
	Records []access.Record
	Tenants []access.Tenant
	Next    access.Cursor
}

// page is the latest history of a store, as one node has read it.
type page struct {
	Written time.Time
	First   access.Cursor
	Links   []link
}

// last returns the cursor of the page's end.
func (p *page) last() access.Cursor {
	if len(p.Links) == 0 {
		return p.First
	}
	return p.Links[len(p.Links)-1].Next
}

// after returns the changes after a cursor. It returns false if the cursor is not in the page:
// then the page is of another history, or too much has changed since.
func (p *page) after(since access.Cursor) (c access.Changes, ok bool) {
	c.Next = p.last()
	if since == (access.Cursor{}) {
		return c, false
	}
	if since == p.last() {
		return c, true
	}
	from := 0
	if since != p.First {
		from = slices.IndexFunc(p.Links, func(l link) bool { return l.Next == since }) + 1
		if from == 0 {
			return c, false
		}
	}
	for _, l := range p.Links[from:] {
		c.Records = append(c.Records, l.Records...)
		c.Tenants = append(c.Tenants, l.Tenants...)
	}
	return c, true
}

// add returns a page with further changes that were read after a cursor.
func (p *page) add(since access.Cursor, c access.Changes) *page {
	next := &page{First: since}
	if p != nil && p.last() == since {
		next.First, next.Links = p.First, slices.Clone(p.Links)
	}
	if c.Next != since {
		next.Links = append(next.Links, link{c.Records, c.Tenants, c.Next})
	}
	size := 0
	for _, l := range next.Links {
		size += len(l.Records) + len(l.Tenants)
	}
	for len(next.Links) > maxLinks || size > maxKeys {
		l := next.Links[0]
		size -= len(l.Records) + len(l.Tenants)
		next.First, next.Links = l.Next, next.Links[1:]
	}
	return next
}

// Source is a store of keys whose changes are read by one of the nodes that share a Redis.
// Redis is not trusted: pages are sealed with a key of the pepper, so it can neither read nor
// make nor change them. It can withhold pages, or repeat one for at most maxSkew. Without a
// valid page a node reads the store itself.
type Source struct {
	access.Source
	redis *redis.Client // nil: none
	seal  cipher.AEAD
	name  string // of the page in Redis
	lock  string // of the lock in Redis

	mu   sync.Mutex
	seen *page     // the latest valid page
	own  time.Time // when this node last read the store

	polls atomic.Int64
}

// New returns a source. Without a client every node reads the store.
func New(source access.Source, client *redis.Client, peppers access.Peppers) (*Source, error) {
	secret, err := peppers.Derive("changes of keys")
	if err != nil {
		return nil, err
	}
	return newSource(source, client, secret)
}

// newSource returns a source. The secret is the same on all nodes of a store.
func newSource(source access.Source, client *redis.Client, secret []byte) (*Source, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	var id [16]byte
	block.Encrypt(id[:], id[:])
	name := "isogloss:keys:{" + hex.EncodeToString(id[:8]) + "}"
	return &Source{Source: source, redis: client, seal: seal, name: name + ":page", lock: name + ":lock"}, nil
}

// Polls returns how often this node has read the store's changes.
func (s *Source) Polls() int64 { return s.polls.Load() }

// Changes returns what has changed since a cursor, from the page of another node or from the
// store.
func (s *Source) Changes(ctx context.Context, since access.Cursor, limit int) (access.Changes, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.redis == nil || since == (access.Cursor{}) || time.Since(s.own) >= ownPoll {
		return s.read(ctx, since, limit, false)
	}
	for range looks {
		p, err := s.get(ctx)
		if err != nil {
			break
		}
		if p != nil {
			s.seen = p
			if c, ok := p.after(since); ok {
				return c, nil
			}
			break
		}
		locked, err := s.take(ctx)
		if err != nil {
			break
		}
		if locked {
			return s.read(ctx, since, limit, true)
		}
		select { // another node writes the page now
		case <-time.After(again):
		case <-ctx.Done():
			return access.Changes{}, ctx.Err()
		}
	}
	return s.read(ctx, since, limit, false)
}

// read reads the store and, if the caller has the lock, writes the page for the other nodes.
func (s *Source) read(ctx context.Context, since access.Cursor, limit int, publish bool) (access.Changes, error) {
	began := time.Now()
	s.polls.Add(1)
	c, err := s.Source.Changes(ctx, since, limit)
	if err != nil {
		return c, err
	}
	s.own = began
	if !publish || c.Reset || c.More {
		return c, nil
	}
	next := s.seen.add(since, c)
	next.Written = began
	s.seen = next
	_ = s.put(ctx, next) // without it the other nodes read the store
	return c, nil
}

// get returns the page in Redis; nil if there is none, or one that cannot be used.
func (s *Source) get(ctx context.Context) (*page, error) {
	var sealed []byte
	err := s.exec(ctx, s.name, func(ctx context.Context, c rueidis.Client) (err error) {
		sealed, err = c.Do(ctx, c.B().Getrange().Key(s.name).Start(0).End(maxPage).Build()).AsBytes()
		return err
	})
	if err != nil || len(sealed) == 0 {
		return nil, err
	}
	p, err := s.open(sealed)
	if err != nil {
		return nil, err
	}
	if age := time.Since(p.Written); age > maxSkew || age < -maxSkew {
		return nil, errors.New("the page is of another time")
	}
	if s.seen != nil && p.Written.Before(s.seen.Written.Add(-freshFor)) {
		return nil, errors.New("the page is older than one that was seen")
	}
	return p, nil
}

func (s *Source) open(sealed []byte) (*page, error) {
	n := s.seal.NonceSize()
	if len(sealed) < n || len(sealed) > maxPage {
		return nil, errors.New("the page has a wrong size")
	}
	text, err := s.seal.Open(nil, sealed[:n], sealed[n:], []byte(s.name))
	if err != nil {
		return nil, err
	}
	p := &page{}
	return p, gob.NewDecoder(bytes.NewReader(text)).Decode(p)
}

// put writes the page. It is there for a moment only, so that its presence says that it is new.
func (s *Source) put(ctx context.Context, p *page) error {
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(p); err != nil {
		return err
	}
	nonce := make([]byte, s.seal.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	sealed := s.seal.Seal(nonce, nonce, text.Bytes(), []byte(s.name))
	if len(sealed) > maxPage {
		return errors.New("the page is too large")
	}
	return s.exec(ctx, s.name, func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Set().Key(s.name).Value(rueidis.BinaryString(sealed)).PxMilliseconds(freshFor.Milliseconds()).Build()).Error()
	})
}

// take takes the lock of the node that reads the store. It ends by itself.
func (s *Source) take(ctx context.Context) (locked bool, err error) {
	err = s.exec(ctx, s.lock, func(ctx context.Context, c rueidis.Client) error {
		reply := c.Do(ctx, c.B().Set().Key(s.lock).Value("1").Nx().PxMilliseconds(freshFor.Milliseconds()).Build()).Error()
		if rueidis.IsRedisNil(reply) { // another node has it
			return nil
		}
		locked = reply == nil
		return reply
	})
	return locked, err
}

func (s *Source) exec(ctx context.Context, key string, f func(context.Context, rueidis.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var failed error
	err := s.redis.Server(key).Exec(ctx, func(ctx context.Context, c rueidis.Client) error {
		failed = f(ctx, c)
		if rueidis.IsRedisNil(failed) {
			failed = nil
		}
		return failed
	})
	return cmp.Or(err, failed)
}

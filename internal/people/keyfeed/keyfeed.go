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

	"github.com/isogloss-gateway/isogloss/internal/base/redis"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

const (
	freshFor = 400 * time.Millisecond // how long Redis has a page; then one node writes the next
	maxSkew  = time.Second            // between the clocks of two nodes; a page of a greater difference is ignored
	ownPoll  = time.Minute            // at which a node reads the store in any case
	timeout  = 250 * time.Millisecond // of Redis
	again    = 40 * time.Millisecond  // between looks for the page that another node writes
	looks    = 10                     // such looks before the node reads the store itself

	chainFor = 5 * time.Second // how long a group of changes is in a page: nodes look once a second
	maxLinks = 64              // groups of changes in a page
	maxKeys  = 1000            // keys, teams and organisations in a page
	maxPage  = 1 << 20         // bytes of a page in Redis
)

// link is what changed up to a cursor since the one before.
type link struct {
	Records []access.Record
	Tenants []access.Tenant
	Groups  bool
	Next    access.Cursor
	Read    time.Time
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
		c.Groups = c.Groups || l.Groups
	}
	return c, true
}

// add returns a page with further changes that were read after a cursor.
func (p *page) add(since access.Cursor, c access.Changes, read time.Time) *page {
	next := &page{First: since, Written: read}
	if p != nil && p.last() == since {
		next.First, next.Links = p.First, slices.Clone(p.Links)
	}
	if c.Next != since {
		next.Links = append(next.Links, link{c.Records, c.Tenants, c.Groups, c.Next, read})
	}
	size := 0
	for _, l := range next.Links {
		size += len(l.Records) + len(l.Tenants)
	}
	for len(next.Links) > maxLinks || size > maxKeys || len(next.Links) > 0 && read.Sub(next.Links[0].Read) > chainFor {
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
	chain string // of the page in Redis that the next one continues
	lock  string // of the lock in Redis

	timeout time.Duration // of a call of Redis
	looks   int           // for the page that another node writes

	mu     sync.Mutex
	seen   *page     // the latest valid page
	own    time.Time // when this node last read the store
	behind bool      // the store has more changes than the last reading has returned

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
	return &Source{Source: source, redis: client, seal: seal, name: name + ":page", chain: name + ":chain", lock: name + ":lock", timeout: timeout, looks: looks}, nil
}

// Polls returns how often this node has read the store's changes.
func (s *Source) Polls() int64 { return s.polls.Load() }

// Changes returns what has changed since a cursor, from the page of another node or from the
// store.
func (s *Source) Changes(ctx context.Context, since access.Cursor, limit int) (access.Changes, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.redis == nil || since == (access.Cursor{}) || s.behind || time.Since(s.own) >= ownPoll {
		return s.read(ctx, since, limit)
	}
	for range s.looks {
		p, err := s.get(ctx, s.name, maxSkew)
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
			return s.publish(ctx, since, limit)
		}
		select { // another node writes the page now
		case <-time.After(again):
		case <-ctx.Done():
			return access.Changes{}, ctx.Err()
		}
	}
	return s.read(ctx, since, limit)
}

// read reads the store. If this node has just seen a page, the returned cursor is that of the page, so that the next
// pages continue it. What has changed after it comes again.
func (s *Source) read(ctx context.Context, since access.Cursor, limit int) (access.Changes, error) {
	began := time.Now()
	s.polls.Add(1)
	c, err := s.Source.Changes(ctx, since, limit)
	if err != nil {
		return c, err
	}
	s.own, s.behind = began, c.More
	if p := s.seen; p != nil && !c.Reset && !c.More && p.last().Revision <= c.Next.Revision && began.Sub(p.Written) < chainFor/2 {
		c.Next = p.last()
	}
	return c, nil
}

// publish reads the store and writes the page for the other nodes. It continues the last page of any node. So every
// node that has seen one of the last pages finds its cursor in the new page.
func (s *Source) publish(ctx context.Context, since access.Cursor, limit int) (access.Changes, error) {
	p, _ := s.get(ctx, s.chain, chainFor) // without it this page is the first
	s.seen = p
	from := since
	if p != nil {
		from = p.last()
	}
	began := time.Now()
	s.polls.Add(1)
	c, err := s.Source.Changes(ctx, from, limit)
	switch {
	case err == nil && !c.Reset && !c.More:
		s.own, s.seen = began, p.add(from, c, began)
		_ = s.put(ctx, s.seen) // without it the other nodes read the store
		if all, ok := s.seen.after(since); ok {
			return all, nil
		}
	case err != nil || p == nil:
		s.behind = c.More
		return c, err
	default: // too much has changed since the page, or the store is another one
		s.seen = nil
	}
	return s.read(ctx, since, limit)
}

// get returns a page in Redis of at most this age; nil if there is none.
func (s *Source) get(ctx context.Context, name string, most time.Duration) (*page, error) {
	var sealed []byte
	err := s.exec(ctx, name, func(ctx context.Context, c rueidis.Client) (err error) {
		sealed, err = c.Do(ctx, c.B().Getrange().Key(name).Start(0).End(maxPage).Build()).AsBytes()
		return err
	})
	if err != nil || len(sealed) == 0 {
		return nil, err
	}
	p, err := s.open(sealed)
	if err != nil {
		return nil, err
	}
	if age := time.Since(p.Written); age > most || age < -maxSkew {
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

// put writes the page. It expires after a moment, so an existing page is a new one. A copy under another name lives
// longer, for the node that writes the next page.
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
		value := rueidis.BinaryString(sealed)
		return cmp.Or(c.Do(ctx, c.B().Set().Key(s.chain).Value(value).PxMilliseconds(chainFor.Milliseconds()).Build()).Error(),
			c.Do(ctx, c.B().Set().Key(s.name).Value(value).PxMilliseconds(freshFor.Milliseconds()).Build()).Error())
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
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
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

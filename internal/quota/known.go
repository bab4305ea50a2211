package quota

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// book is what this node knows of the accounts in Redis: what they had left when
// they were last seen, and what the node holds of them.
type book struct {
	seed   maphash.Seed
	shards [64]page
}

// page has the accounts of some organisations.
type page struct {
	mu     sync.Mutex
	known  map[string]*known
	tuples map[string]*tuple
}

// known is one account.
type known struct {
	of   Account
	org  string
	used int64 // when, in ms

	seeded          int64 // the generation of its record in Redis; 0: never seen
	spent, reserved usage.Money
	requests        int64 // used of the minute's
	tokens          int64
	at              int64 // when that was so

	leases []*lease // what this node holds of it

	share share
}

// lease is what a node holds of an account. It has the name that Redis has given it:
// what is settled is taken back from that one only. The page's lock guards it.
type lease struct {
	born     int64 // 0: Redis does not have it
	open     int64
	reserved usage.Money
	adopting bool // it is being written down in Redis
}

func (l *lease) add(open int64, cost usage.Money) {
	l.open += open
	l.reserved += cost
}

func newBook() *book {
	b := &book{seed: maphash.MakeSeed()}
	for i := range b.shards {
		b.shards[i].known, b.shards[i].tuples = map[string]*known{}, map[string]*tuple{}
	}
	return b
}

func (b *book) page(org string) *page {
	return &b.shards[maphash.String(b.seed, org)%uint64(len(b.shards))]
}

// account finds one, under the page's lock.
func (p *page) account(org string, of Account, now int64) *known {
	k := p.known[of.ID]
	if k == nil {
		k = &known{org: org}
		p.known[of.ID] = k
	}
	if k.of.Limit.span() != of.Limit.span() { // the operator has changed it
		k.seeded, k.spent = 0, 0
	}
	k.of, k.used = of, now
	return k
}

// learn takes over what Redis says. It reports whether the record there is another
// one than it was: Redis has lost it.
func (k *known) learn(seeded int64, spent, reserved usage.Money, now int64) (lost bool) {
	if seeded < k.seeded { // an answer that was overtaken
		return false
	}
	lost = k.seeded != 0 && seeded != k.seeded && k.of.Limit.Window == 0
	k.seeded, k.spent, k.reserved, k.at = seeded, spent, reserved, now
	return lost
}

func (l *lease) isEmpty() bool { return l.open == 0 && l.reserved == 0 }

// hold finds the lease of a name. A newer name means that Redis has forgotten what
// there was under older ones.
func (k *known) hold(born int64) (l *lease, orphans bool) {
	for _, l := range k.leases {
		switch {
		case l.born == born:
			return l, false
		case l.born > born: // the answer was overtaken
			return k.spare(), true
		}
	}
	orphans = k.forgotten(born, born)
	l = &lease{born: born}
	k.leases = append(k.leases, l)
	return l, orphans
}

// forgotten marks the leases that Redis no longer has: those of other names than the
// present one, if they are older than the answer that says so.
// It reports whether there was something in them.
func (k *known) forgotten(born, asOf int64) (orphans bool) {
	for _, l := range k.leases {
		if l.born != born && l.born < asOf {
			l.born = 0
			orphans = orphans || !l.isEmpty()
		}
	}
	return orphans
}

// spare finds the lease for what is not in Redis.
func (k *known) spare() *lease {
	for _, l := range k.leases {
		if l.born == 0 && !l.adopting {
			return l
		}
	}
	l := &lease{}
	k.leases = append(k.leases, l)
	return l
}

// isHeld reports whether the node holds something of it in Redis.
func (k *known) isHeld() bool {
	return slices.ContainsFunc(k.leases, func(l *lease) bool { return l.born != 0 && !l.isEmpty() })
}

// each calls f for every account, page by page under its lock. Accounts that nobody
// has used for long are forgotten.
func (b *book) each(now int64, f func(*known)) {
	for i := range b.shards {
		p := &b.shards[i]
		p.mu.Lock()
		for id, k := range p.known {
			k.leases = slices.DeleteFunc(k.leases, func(l *lease) bool { return l.isEmpty() && !l.adopting && now-k.used > minute })
			f(k)
			if k.isIdle(now) {
				delete(p.known, id)
			}
		}
		for name, t := range p.tuples {
			if t.slice == nil && now-t.since > idle {
				delete(p.tuples, name)
			}
		}
		p.mu.Unlock()
	}
}

func (k *known) isIdle(now int64) bool { return len(k.leases) == 0 && now-k.used > idle }

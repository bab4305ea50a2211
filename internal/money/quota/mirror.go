package quota

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/allowance"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// mirror holds this node's last known state of the accounts in Redis, and the leases that the node
// has on them.
type mirror struct {
	seed   maphash.Seed
	shards [64]mirrorShard
}

// mirrorShard holds the accounts of some organisations.
type mirrorShard struct {
	mu            sync.Mutex
	accounts      map[string]*mirrorAccount
	keys          map[string]*keyState
	withAllowance map[*mirrorAccount]bool // accounts with an allowance or with something to report
}

// mirrorAccount is the last known state of one account.
type mirrorAccount struct {
	account  Account
	org      string
	lastUsed int64 // in ms

	generation      int64 // when its record in Redis was seeded; 0: never seen
	spent, reserved usage.Money
	requests        int64 // used in the current minute
	tokens          int64
	seenAt          int64 // when Redis reported the state, in ms
	savedAt         int64 // when a call of this node has written its record, in ms; 0: Redis may not have it

	leases []*lease // reservations of this node

	allowance      allowance.Allowance
	allowanceLease *lease   // lease that contains the allowance
	refilling      bool     // a call that refills the allowance is in flight
	refusal        *Refusal // last refusal by the budget

	share share // this node's share while Redis is lost
}

// lease sums this node's reservations of one account. Redis identifies it by the time at which it
// was created, so that a settlement only reduces the lease it was reserved from. The lock of the
// mirrorShard guards it.
type lease struct {
	id          int64 // 0: not registered in Redis
	open        int64
	reserved    usage.Money
	registering bool // a call that registers it in Redis is in flight
}

// add adds to the lease's sums.
func (l *lease) add(open int64, cost usage.Money) {
	l.open += open
	l.reserved += cost
}

func newMirror() *mirror {
	b := &mirror{seed: maphash.MakeSeed()}
	for i := range b.shards {
		b.shards[i] = mirrorShard{accounts: map[string]*mirrorAccount{}, keys: map[string]*keyState{}, withAllowance: map[*mirrorAccount]bool{}}
	}
	return b
}

// shardOf returns the shard of an organisation.
func (b *mirror) shardOf(org string) *mirrorShard {
	return &b.shards[maphash.String(b.seed, org)%uint64(len(b.shards))]
}

// account returns an account and creates it if necessary. The caller holds the lock.
func (p *mirrorShard) account(org string, account Account, now int64) *mirrorAccount {
	k := p.accounts[account.ID]
	if k == nil {
		k = &mirrorAccount{org: org}
		p.accounts[account.ID] = k
	}
	if k.account.Limit.budgetWindow() != account.Limit.budgetWindow() { // the operator has changed the window
		k.generation, k.spent = 0, 0
	}
	k.account, k.lastUsed = account, now
	return k
}

// learn stores the state that the reply to a reservation contains.
func (k *mirrorAccount) learn(state []int64, now int64) {
	k.requests, k.tokens = state[script.StateRequests], state[script.StateTokens]
	k.update(state[script.StateGeneration], usage.Money(state[script.StateSpent]), usage.Money(state[script.StateReserved]), now)
}

// update stores the state that Redis reported.
func (k *mirrorAccount) update(generation int64, spent, reserved usage.Money, now int64) {
	if generation < k.generation { // a newer reply was processed first
		return
	}
	if generation == k.generation && k.account.Limit.Window == 0 {
		spent = max(spent, k.spent) // replies are processed in any order; without a window spending only grows
	}
	k.generation, k.spent, k.reserved, k.seenAt = generation, spent, reserved, now
}

// forgetServer marks the account's record and leases as lost in Redis. The known spending stays valid.
func (k *mirrorAccount) forgetServer() {
	k.generation, k.savedAt = min(k.generation, 1), 0
	for _, l := range k.leases {
		k.lose(l)
	}
}

// lose marks a lease and its allowance as missing in Redis: other nodes may use that money now.
func (k *mirrorAccount) lose(l *lease) {
	l.id = 0
	if l == k.allowanceLease {
		l.reserved -= k.allowance.Lose()
	}
}

func (l *lease) isEmpty() bool { return l.open == 0 && l.reserved == 0 }

// leaseFor returns the lease with the given id. A newer id means that Redis has lost the older
// leases; anyLost reports whether one of them has open reservations.
func (k *mirrorAccount) leaseFor(id int64) (l *lease, anyLost bool) {
	for _, l := range k.leases {
		switch {
		case l.id == id:
			return l, false
		case l.id > id: // a newer reply was processed first
			return k.unregisteredLease(), true
		}
	}
	anyLost = k.markLost(id, id)
	k.leases = slices.DeleteFunc(k.leases, func(l *lease) bool { return l.id == 0 && l.isEmpty() && !l.registering })
	l = &lease{id: id}
	k.leases = append(k.leases, l)
	return l, anyLost
}

// markLost marks the leases that Redis no longer has. A lease is lost if its id is not the current id,
// and if it is older than asOf, the time of the reply. markLost reports whether a lost lease has open
// reservations.
func (k *mirrorAccount) markLost(id, asOf int64) (anyLost bool) {
	for _, l := range k.leases {
		if l.id != id && l.id < asOf {
			k.lose(l)
			anyLost = anyLost || !l.isEmpty()
		}
	}
	return anyLost
}

// unregisteredLease returns the lease for reservations that are not in Redis.
func (k *mirrorAccount) unregisteredLease() *lease {
	for _, l := range k.leases {
		if l.id == 0 && !l.registering {
			return l
		}
	}
	l := &lease{}
	k.leases = append(k.leases, l)
	return l
}

// each calls f for every account under its shard's lock, and deletes idle accounts.
func (b *mirror) each(now int64, f func(*mirrorAccount)) {
	for i := range b.shards {
		p := &b.shards[i]
		p.mu.Lock()
		for id, k := range p.accounts {
			k.leases = slices.DeleteFunc(k.leases, func(l *lease) bool { return l.isEmpty() && !l.registering && now-k.lastUsed > minute })
			f(k)
			if len(k.leases) == 0 && now-k.lastUsed > idleTTL {
				delete(p.accounts, id)
			}
		}
		for name, t := range p.keys {
			if t.slice == nil && now-t.countedSince > idleTTL {
				delete(p.keys, name)
			}
		}
		p.mu.Unlock()
	}
}

package quota

import (
	"context"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// source is where a seed is from.
type source int64

const (
	fromLedger source = 0
	fromNode   source = 1
)

// plant seeds an account that Redis does not know: because it is new, or because
// Redis was emptied. A node that saw it shortly before knows all that was spent until
// then, and the nodes' queues have the rest. Otherwise it is the ledger's sum, or the
// node's if that is more. It reports whether Redis knows the account now. Requests
// that come at once do it once.
func (r *remote) plant(ctx context.Context, org string, of Account, now int64) bool {
	name := key(org, "a:", of.ID)
	r.planting.Lock()
	f := r.plants[name]
	if f != nil {
		r.planting.Unlock()
		select {
		case <-f.done:
			return f.err == nil
		case <-ctx.Done():
			return false
		}
	}
	f = &flight{done: make(chan struct{})}
	r.plants[name] = f
	r.planting.Unlock()
	if !r.plantOne(ctx, org, of, now) {
		f.err = errBusy
	}
	r.planting.Lock()
	delete(r.plants, name)
	r.planting.Unlock()
	close(f.done)
	return f.err == nil
}

func (r *remote) plantOne(ctx context.Context, org string, of Account, now int64) bool {
	m := r.recall(org, of)
	if m.fresh && of.Limit.Window == 0 {
		return r.sow(org, of, seed{parts{m.spent}, fromNode, m.seeded})
	}
	p, err := r.seeds.ask(ctx, of, time.UnixMilli(now), nowhere{})
	if err != nil && m.seeded == 0 {
		return false
	}
	from := fromLedger
	switch {
	case m.fresh:
		from = fromNode
		p[0] += m.spent - p.sum()
	case of.Limit.Window == 0 || err != nil: // what left a window in the meantime is not known
		p[0] += max(0, m.spent-p.sum())
	}
	return r.sow(org, of, seed{p, from, m.seeded})
}

// nowhere is for those who wait for the answer themselves.
type nowhere struct{}

func (nowhere) isKnown() bool { return false }
func (nowhere) apply(parts)   {}

// memo is what is known here of an account's spending.
type memo struct {
	spent  usage.Money
	seeded int64 // the record in Redis that it is from; 0: none
	fresh  bool  // it is all that was spent when Redis was lost
}

func (r *remote) recall(org string, of Account) memo {
	p, now := r.book.page(org), r.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.account(org, of, now)
	return memo{k.spent, k.seeded, r.isFresh(k, now)}
}

// seed is what an account begins with in Redis.
type seed struct {
	parts parts
	from  source
	of    int64 // the record that a node knew: where Redis has it still, nothing is to be done
}

// sow writes a seed down.
func (r *remote) sow(org string, of Account, s seed) bool {
	c := &call{script: &r.scripts.seed}
	c.account(org, of.ID)
	c.arg(int64(of.Limit.Budget), of.Limit.span().Milliseconds(), int64(s.from), s.of)
	for _, v := range s.parts {
		c.arg(int64(v))
	}
	_, err := r.ask(c)
	return err == nil
}

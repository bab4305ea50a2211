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
// node's if that is more. It reports whether Redis knows the account now.
func (r *remote) plant(ctx context.Context, org string, of Account, now int64) bool {
	spent, fresh, seen := r.recall(org, of)
	if fresh && of.Limit.Window == 0 {
		return r.sow(org, of, parts{spent}, fromNode)
	}
	p, err := r.seeds.ask(ctx, of, time.UnixMilli(now))
	if err != nil && !seen {
		return false
	}
	from := fromLedger
	switch {
	case fresh:
		from = fromNode
		p[0] += spent - p.sum()
	case of.Limit.Window == 0 || err != nil: // what left a window in the meantime is not known
		p[0] += max(0, spent-p.sum())
	}
	return r.sow(org, of, p, from)
}

// recall says what is known here of an account's spending.
func (r *remote) recall(org string, of Account) (spent usage.Money, fresh, seen bool) {
	p := r.book.page(org)
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.known[of.ID]
	if k == nil {
		return 0, false, false
	}
	fresh = r.isFresh(k, r.now())
	return k.spent, fresh, k.seeded != 0
}

// sow writes a seed down.
func (r *remote) sow(org string, of Account, p parts, from source) bool {
	c := &call{script: &r.scripts.seed}
	c.account(org, of.ID)
	c.arg(int64(of.Limit.Budget), of.Limit.span().Milliseconds(), int64(from))
	for _, v := range p {
		c.arg(int64(v))
	}
	_, err := r.ask(c)
	return err == nil
}

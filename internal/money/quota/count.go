package quota

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Count is the state of an account, over all nodes.
type Count struct {
	Open            int64
	Reserved, Spent usage.Money // includes unused slices
	Requests        int64       // in the current minute
	Tokens          int64
}

// Count returns the state of an account as of its last use. It is for operators and tests. Queued
// settlements of this node are not included.
func (l *Limiter) Count(ctx context.Context, org, account string) (Count, error) {
	return l.back.count(ctx, org, account)
}

func (m *memory) count(_ context.Context, org, account string) (Count, error) {
	s := m.engine.shardOf(org)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[account]
	if a == nil {
		return Count{}, nil
	}
	return Count{a.open, a.reserved, a.spent.Sum, a.requests.Current, a.tokens.Current}, nil
}

func (r *redisBackend) count(ctx context.Context, org, account string) (Count, error) {
	client := r.serverOf(org).server.Conn()
	if client == nil {
		return Count{}, errors.New("redis is not connected yet; try again when it is up")
	}
	text, err := client.Do(ctx, client.B().Get().Key(script.Key(org, "a:", account)).Build()).AsBytes()
	switch {
	case rueidis.IsRedisNil(err):
		return Count{}, nil
	case err != nil:
		return Count{}, err
	}
	a, err := script.Unpack(text)
	return Count{a.Open, usage.Money(a.Reserved), usage.Money(a.Spent), a.Requests, a.Tokens}, err
}

package quota

import (
	"context"
	"encoding/binary"
	"errors"
	"math"

	"github.com/redis/rueidis"

	"github.com/isogloss-gateway/isogloss/internal/usage"
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

// Positions of an account's numbers in its Redis value; lua/lib.lua defines the layout.
const (
	packedSpent    = 4
	packedOpen     = 5
	packedReserved = 6
	packedRequests = 9
	packedTokens   = 11
	packedSize     = 13
)

func (r *redisBackend) count(ctx context.Context, org, account string) (Count, error) {
	client := r.serverOf(org).server.Conn()
	if client == nil {
		return Count{}, errors.New("redis is not connected yet; try again when it is up")
	}
	text, err := client.Do(ctx, client.B().Get().Key(key(org, "a:", account)).Build()).AsBytes()
	switch {
	case rueidis.IsRedisNil(err):
		return Count{}, nil
	case err != nil:
		return Count{}, err
	case len(text) != 8*packedSize:
		return Count{}, errors.New("redis has an account in another shape; is there another version of the gateway?")
	}
	at := func(i int) int64 { return int64(math.Float64frombits(binary.LittleEndian.Uint64(text[8*i:]))) }
	return Count{at(packedOpen), usage.Money(at(packedReserved)), usage.Money(at(packedSpent)), at(packedRequests), at(packedTokens)}, nil
}

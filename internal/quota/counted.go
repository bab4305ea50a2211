package quota

import (
	"context"
	"encoding/binary"
	"errors"
	"math"

	"github.com/redis/rueidis"

	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// Count is what is counted for an account, on all nodes together.
type Count struct {
	Open            int64
	Reserved, Spent usage.Money // what is in slices is reserved
	Requests        int64       // in this minute
	Tokens          int64
}

// Count reads what is counted for an account, as it was when it was last used. It is
// for operators and tests, and says nothing of what is queued here.
func (k *Keeper) Count(ctx context.Context, org, account string) (Count, error) {
	return k.back.count(ctx, org, account)
}

func (m *memory) count(_ context.Context, org, account string) (Count, error) {
	s := m.engine.shard(org)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[account]
	if a == nil {
		return Count{}, nil
	}
	return Count{a.open, a.reserved, a.spent, a.requests.cur, a.tokens.cur}, nil
}

// The numbers of an account in Redis, as lua/lib.lua has them.
const (
	packedSpent    = 6
	packedOpen     = 7
	packedReserved = 8
	packedRequests = 11
	packedTokens   = 13
	packedSize     = 15
)

func (r *remote) count(ctx context.Context, org, account string) (Count, error) {
	client := r.client.Load()
	if client == nil {
		return Count{}, errors.New("redis is not connected yet; try again when it is up")
	}
	text, err := (*client).Do(ctx, (*client).B().Get().Key(key(org, "a:", account)).Build()).AsBytes()
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

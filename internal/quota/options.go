package quota

import (
	"context"
	"log/slog"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// Ledger says what an account has spent, as far as its rows have reached the store.
// It seeds a budget of which there is no record.
type Ledger interface {
	Spent(ctx context.Context, account string, since time.Time) (usage.Money, error)
}

// Options are what a Keeper is made from. Zero fields have the defaults named here.
type Options struct {
	Redis  string // URL; for NewRedis only
	Node   string // unique among the nodes that share a Redis; a process adds its own mark
	Ledger Ledger // nil: nothing was spent before
	Logger *slog.Logger
	Clock  func() time.Time // time.Now. Redis has its own; this one is for memory and for waiting

	Timeout   time.Duration // of a round trip on the way of a request: 50 ms
	Lease     time.Duration // after which what a dead node held is free: 45 s, renewed in a third of that
	Heartbeat time.Duration // of membership: 2 s; a node is gone after five
	Mark      time.Duration // for which a settled request is remembered: 10 min
	Queue     int           // settlements that wait for Redis one by one: 65536; more are kept as sums
	HotRate   float64       // reservations a second of one key on one node that make it hot: 200; below 0: never
	Slice     time.Duration // for which a slice is taken: 100 ms
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	set(&o.Node, "node")
	set(&o.Timeout, 50*time.Millisecond)
	set(&o.Lease, 45*time.Second)
	set(&o.Heartbeat, 2*time.Second)
	set(&o.Mark, 10*time.Minute)
	set(&o.Queue, 1<<16)
	set(&o.HotRate, 200)
	set(&o.Slice, 100*time.Millisecond)
	return o
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Snapshot is what metrics show.
type Snapshot struct {
	Nodes    int   // that share the limits, as last known
	Lost     bool  // Redis does not answer: limits are this node's share
	Accounts int   // known here
	Open     int64 // reservations
	Queued   int   // settlements that are not in Redis yet
	Merged   int   // sums that stand for more of them
	Reserved int64 // reservations so far
	Refused  int64
	Sliced   int64 // of those reserved, from a slice
	Fallback int64 // of those reserved, from this node's share
	Outages  int64
}

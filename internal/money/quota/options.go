package quota

import (
	"log/slog"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/redis"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/seed"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Ledger returns what an account has spent according to the rows in the store. The limiter uses it
// to seed budgets.
type Ledger = seed.Ledger

// Spent is what an account has spent at one moment.
type Spent = seed.Spent

// Logs are the logs of the processes on this machine.
type Logs interface {
	Name() string // of the log of this process
	// Spent returns what an account has spent in each log, and what other processes have reserved
	// for it.
	Spent(account string) (logs []usage.Total, reserved usage.Money)
	Shared() bool // other processes may have logs
}

// noLogs are the logs of a process that has none.
type noLogs struct{}

func (noLogs) Name() string                              { return "log" }
func (noLogs) Spent(string) ([]usage.Total, usage.Money) { return nil, 0 }
func (noLogs) Shared() bool                              { return false }

// Options configure a Limiter. A zero field has the default given here.
type Options struct {
	Redis  *redis.Client // NewRedis only
	Node   string        // name of the node; each process adds a random suffix
	Ledger Ledger        // nil: nothing was spent before
	Logs   Logs          // nil: none
	Logger *slog.Logger
	Clock  func() time.Time // default time.Now; Redis uses its own clock

	Lease     time.Duration // TTL of a node's reservations: 45 s; renewed every third of it
	Heartbeat time.Duration // interval: 2 s; a node counts as gone after five intervals
	Mark      time.Duration // TTL of the marks that make the return of reservations idempotent: 10 min
	Queue     int           // max queued settlements: 65536; further ones are added up
	HotRate   float64       // reservations per second of one key on one node from which slices are used: 200; negative: no slices and no allowances
	Slice     time.Duration // how long a slice lasts: 100 ms
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logs == nil {
		o.Logs = noLogs{}
	}
	set(&o.Node, "node")
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

// Snapshot is the state that metrics report.
type Snapshot struct {
	Nodes    int   // nodes that share the limits, as last known
	Lost     bool  // Redis does not respond; limits are this node's share
	Evicts   bool  // Redis may evict counters; limits are this node's share
	Accounts int   // accounts in memory
	Open     int64 // open reservations
	Queued   int   // settlements that Redis does not have yet
	Merged   int   // sums of settlements that the full queue has added up
	Reserved int64 // reservations so far
	Refused  int64
	Sliced   int64 // reservations taken from a slice or an allowance
	Fallback int64 // reservations taken from this node's share
	Outages  int64
}

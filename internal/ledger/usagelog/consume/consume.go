// Package consume reads a log of usage events, writes the requests into ClickHouse and the balances into the
// store, each event exactly once.
package consume

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/ledger/clickhouse"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/ledger"
)

// Requests stores requests. A block with a known token changes nothing.
type Requests interface {
	Create(ctx context.Context) error
	Insert(ctx context.Context, token string, partition int, rows []clickhouse.Row) error
	// Positions returns the positions of the last events of logs that are stored, among those since a time.
	Positions(ctx context.Context, partition int, logs []string, since time.Time) (map[string]int64, error)
}

// Options configure a consumer.
type Options struct {
	ID         string // unique among the consumers
	Log        usagelog.Log
	Partitions int
	Key        usagelog.Key // of the gateways' MACs
	Ledger     ledger.Ledger
	Requests   Requests // nil: none are stored
	Refusals   Refusals // set if the log is that of refused requests; nil: it is that of usage events
	// Weaknesses returns the settings under which the log may lose events that it has acknowledged. nil: it is not
	// asked.
	Weaknesses func(context.Context) ([]string, error)
	Logger     *slog.Logger
	// BlockWait is how long a block waits for more events. Default: 1 s.
	BlockWait time.Duration
	// Lease is how long the partitions of a dead consumer stay unread. Default: 10 s.
	Lease time.Duration
}

// Bounds of a block, and pauses.
const (
	maxBlockBytes = 32 << 20
	maxBlock      = 2000   // messages
	maxParked     = 10_000 // events of a partition that wait for a newer consumer
	retryMin      = 200 * time.Millisecond
	retryMax      = 10 * time.Second
)

// Consumer reads partitions of a log. Several consumers share them.
type Consumer struct {
	o       Options
	member  ledger.Member
	workers map[int]*worker
	state
}

// worker reads one partition.
type worker struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// New returns a consumer.
func New(o Options) *Consumer {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.BlockWait, o.Lease = cmp.Or(o.BlockWait, time.Second), cmp.Or(o.Lease, 10*time.Second)
	return &Consumer{o: o, workers: map[int]*worker{}, member: ledger.Member{Source: o.Log.Name(), ID: o.ID, Partitions: o.Partitions, Lease: o.Lease}}
}

// Run reads until ctx ends. It then finishes the blocks that it writes and gives its partitions to the others.
func (c *Consumer) Run(ctx context.Context) error {
	var watch sync.WaitGroup
	defer watch.Wait()
	if c.o.Weaknesses != nil {
		watch.Go(func() { crash.Keep(ctx, c.o.Logger, func() { c.watchLog(ctx) }) })
	}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(c.o.Lease / 5)
	defer tick.Stop()
	for {
		c.share(ctx)
		select {
		case <-ctx.Done():
			c.leave()
			return nil
		case <-tick.C:
		}
	}
}

// prepare creates the log and the table. It repeats what fails until ctx ends.
func (c *Consumer) prepare(ctx context.Context) error {
	for wait := retryMin; ctx.Err() == nil; wait = min(2*wait, retryMax) {
		call, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := c.o.Log.Create(call)
		if err == nil && c.o.Requests != nil {
			err = c.o.Requests.Create(call)
		}
		cancel()
		if err == nil {
			return nil
		}
		c.fail("the log or the table is not ready", -1, err)
		pause(ctx, wait)
	}
	return nil
}

// share takes the consumer's share of the partitions, and gives up what it has lost or has too much of.
func (c *Consumer) share(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, c.o.Lease/2)
	defer cancel()
	held, spare, err := c.o.Ledger.Claim(call, c.member)
	if err != nil {
		if ctx.Err() == nil {
			c.fail("the partitions are not known", -1, err)
		}
		return // the workers notice if they have lost their partitions
	}
	c.ready.Store(true)
	for p := range c.workers {
		if !slices.Contains(held, p) || slices.Contains(spare, p) {
			c.end(p)
		}
	}
	if len(spare) > 0 {
		if err := c.o.Ledger.Release(call, c.member, false, spare...); err != nil {
			c.fail("partitions are not released", -1, err)
		}
	}
	for _, p := range held {
		if w := c.workers[p]; w != nil {
			select {
			case <-w.done: // it has ended by itself
				delete(c.workers, p)
			default:
			}
		}
		if c.workers[p] == nil && !slices.Contains(spare, p) {
			c.start(p)
		}
	}
	c.partitions.Store(int64(len(c.workers)))
}

func (c *Consumer) start(p int) {
	ctx, cancel := context.WithCancel(context.Background()) // end waits for it
	w := &worker{cancel, make(chan struct{})}
	c.workers[p] = w
	go func() {
		defer close(w.done)
		crash.Keep(ctx, c.o.Logger, func() { c.consume(ctx, p) }, "partition", p)
	}()
}

func (c *Consumer) end(p int) {
	c.workers[p].cancel()
	<-c.workers[p].done
	delete(c.workers, p)
}

// leave ends all workers and gives their partitions up.
func (c *Consumer) leave() {
	var work sync.WaitGroup
	var list []int
	for p, w := range c.workers {
		list = append(list, p)
		w.cancel()
		work.Go(func() { <-w.done })
	}
	work.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := c.o.Ledger.Release(ctx, c.member, true, list...); err != nil {
		c.fail("partitions are not released; others take them when the leases end", -1, err)
	}
}

// consume reads a partition until ctx ends or another consumer has it.
func (c *Consumer) consume(ctx context.Context, p int) {
	for wait := retryMin; ctx.Err() == nil; wait = min(2*wait, retryMax) {
		began := time.Now()
		err := c.read(ctx, p)
		if errors.Is(err, ledger.ErrTaken) || ctx.Err() != nil {
			return
		}
		c.fail("a partition is not consumed; it is tried again", p, err)
		if time.Since(began) > time.Minute {
			wait = retryMin
		}
		pause(ctx, wait)
	}
}

// read reads a partition until something fails.
func (c *Consumer) read(ctx context.Context, p int) error {
	next, end, err := c.o.Ledger.Offset(ctx, c.member, p)
	if err != nil {
		return err
	}
	r, err := c.o.Log.Open(ctx, p, next)
	if err != nil {
		return err
	}
	defer r.Close()
	b := &blocks{c: c, partition: p, next: next, stored: map[string]int64{}}
	defer func() { c.parked.Add(-int64(b.parked)) }()
	if err := b.unpark(ctx); err != nil {
		return err
	}
	for {
		records, to, err := b.gather(ctx, r, end)
		if err != nil {
			return err
		}
		if len(records) == 0 && to == next {
			continue
		}
		if err := b.write(ctx, records, to); err != nil {
			return err
		}
		next, end = to, to
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

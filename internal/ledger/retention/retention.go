// Package retention deletes rows of the ledger and sums that are older than the operator keeps them, and
// creates the partitions of PostgreSQL for the rows to come. One node of those that share a store does it.
//
// It never touches keys, the audit log, the positions of spools, or anything that the window of a budget
// reaches.
package retention

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"log/slog"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/partition"
)

// Policy is how long the store keeps what it has recorded.
type Policy struct {
	// How long requests are kept, at least a day. What the window of a budget reaches is
	// kept in any case. The default is for ever.
	Requests time.Duration `key:"requests" example:"90d"`
	// How long the sums of requests by hour and day are kept, at least as long as
	// requests. The default is for ever.
	Hours time.Duration `key:"hours" example:"2y"`

	Windows []time.Duration // of budgets that the store does not have
}

// Check checks that lists can find requests by their sums.
func (p *Policy) Check(at *settings.At) {
	switch {
	case at.Has("requests") && p.Requests < 24*time.Hour:
		at.Wrong("requests", "is less than a day; write one such as 90d, or leave it out to keep everything")
	case at.Has("hours") && p.Requests == 0:
		at.Wrong("hours", "needs requests too: lists find requests by their sums; write requests: 90d")
	case at.Has("hours") && p.Hours < p.Requests:
		at.Wrong("hours", "is less than requests: lists find requests by their sums; write at least as much")
	}
}

// Store is the database.
type Store interface {
	Read(ctx context.Context, do func(context.Context, db.Conn) error) error
	Write(ctx context.Context, do func(context.Context, db.Conn) error) error
}

// Options configure a Job. A zero value has the default given here.
type Options struct {
	Store  Store
	Policy func() Policy
	Logger *slog.Logger

	Every time.Duration    // between two runs: an hour
	Sums  time.Duration    // between two runs that look at sums: a day
	Now   func() time.Time // the clock: time.Now
}

// Job deletes what is old.
type Job struct {
	o      Options
	holder string
	failed bool // the last run failed
	size   portionSize
	daily  time.Time // when sums were last looked at
	summed Policy    // with this policy

	rows, sums, partitions atomic.Int64
}

// State is what a job has deleted since its start.
type State struct{ Rows, Sums, Partitions int64 }

const (
	day = 24 * time.Hour
	// lease is how long a run keeps other nodes from running. It is extended.
	lease = time.Minute
	// look is the time between two looks for a changed policy.
	look = 30 * time.Second
	// maxStep is how far a run follows the clock: a clock that is wrong for an hour deletes at most a day
	// too much.
	maxStep = day
)

// New returns a Job.
func New(o Options) *Job {
	if o.Every == 0 {
		o.Every = time.Hour
	}
	if o.Sums == 0 {
		o.Sums = day
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Job{o: o, holder: rand.Text(), size: portionSize{rows: firstPortion}}
}

// Snapshot returns the state for the metrics.
func (j *Job) Snapshot() State {
	return State{Rows: j.rows.Load(), Sums: j.sums.Load(), Partitions: j.partitions.Load()}
}

// Run runs the job at the start, then every hour and after a change of the policy, until ctx ends.
func (j *Job) Run(ctx context.Context) {
	var last time.Time
	var before Policy
	for {
		if p := j.o.Policy(); time.Since(last) >= j.o.Every || !reflect.DeepEqual(p, before) {
			if j.Once(ctx) {
				last, before = time.Now(), p
			}
		}
		select {
		case <-time.After(min(look, j.o.Every)):
		case <-ctx.Done():
			return
		}
	}
}

// Once runs the job, unless another node does. It reports whether no run is needed for some time.
func (j *Job) Once(ctx context.Context) bool {
	r := run{Job: j, policy: j.o.Policy(), deleted: map[string]int64{}}
	now, err := r.begin(ctx)
	if errors.Is(err, errBusy) {
		j.failed = false
		return true
	}
	if err == nil {
		r.now = now
		err = r.all(ctx)
		err = errors.Join(err, r.end(ctx))
	}
	if len(r.deleted) > 0 {
		args := []any{"requests", r.policy.Requests.String(), "hours", r.policy.Hours.String()}
		for _, name := range slices.Sorted(maps.Keys(r.deleted)) {
			args = append(args, "deleted_"+name, r.deleted[name])
		}
		j.o.Logger.Info("retention", args...)
	}
	if err != nil && ctx.Err() == nil {
		if !j.failed {
			j.o.Logger.Warn("retention ended early; it is tried again. In PostgreSQL the account needs the grants of docs/operations/retention.md", "error", err)
		}
		j.failed = true
		return false
	}
	j.failed = false
	return true
}

// run is one run of a job.
type run struct {
	*Job
	policy  Policy
	now     time.Time // the clock, as far as the run follows it
	held    time.Time // until when this node has the lease, by this process's clock
	deleted map[string]int64
}

var (
	errBusy = errors.New("another node deletes what is old")
	errLost = errors.New("another node has taken over")
)

// begin takes the lease, and returns the time that the run goes by.
func (r *run) begin(ctx context.Context) (now time.Time, err error) {
	now = r.o.Now()
	var seen int64
	err = r.o.Store.Write(ctx, func(ctx context.Context, c db.Conn) error {
		// A lease that ends much later is that of a clock that was wrong.
		return c.Row(ctx, `INSERT INTO leases (name, holder, until, seen) VALUES ('retention', $1, $2, $3)
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
			WHERE leases.until < $3 OR leases.until > $4 OR leases.holder = excluded.holder RETURNING seen`,
			r.holder, now.Add(lease).UnixNano(), now.UnixNano(), now.Add(2*lease).UnixNano())(&seen)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return now, errBusy
	}
	if err != nil {
		return now, err
	}
	r.held = time.Now().Add(lease)
	if last := time.Unix(0, seen); now.Sub(last) > maxStep {
		if now.Sub(last) > 2*maxStep {
			r.o.Logger.Warn("retention follows the clock by a day in each run: no run for some time, or a wrong clock", "clock", now.UTC().Format(time.RFC3339), "last", last.UTC().Format(time.RFC3339))
		}
		now = last.Add(maxStep)
	}
	return now, err
}

// extend extends the lease if it ends soon.
func (r *run) extend(ctx context.Context) error {
	if time.Until(r.held) > lease/2 {
		return nil
	}
	err := r.o.Store.Write(ctx, func(ctx context.Context, c db.Conn) error {
		var mine string
		return c.Row(ctx, `UPDATE leases SET until = $1 WHERE name = 'retention' AND holder = $2 RETURNING holder`, r.o.Now().Add(lease).UnixNano(), r.holder)(&mine)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return errLost
	}
	r.held = time.Now().Add(lease)
	return err
}

// end releases the lease.
func (r *run) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return r.o.Store.Write(ctx, func(ctx context.Context, c db.Conn) error {
		return c.Exec(ctx, `UPDATE leases SET until = 0, seen = $1 WHERE name = 'retention' AND holder = $2`, r.now.UnixNano(), r.holder)
	})
}

func (r *run) all(ctx context.Context) error {
	if err := r.addPartitions(ctx); err != nil {
		return err
	}
	if r.policy.Requests == 0 {
		return nil
	}
	longest, err := r.longestWindow(ctx)
	if err != nil {
		return err
	}
	// The window of a budget begins within an hour, which is read from rows and minutes.
	reach := r.now.Add(-longest - time.Hour)
	before := earlier(r.now.Add(-r.policy.Requests), reach).UnixNano()
	if err := r.dropPartitions(ctx, before); err != nil {
		return err
	}
	if err := r.deleteRows(ctx, before); err != nil {
		return err
	}
	if time.Since(r.daily) < r.o.Sums && reflect.DeepEqual(r.policy, r.summed) {
		return nil
	}
	if err := r.deleteSums(ctx, minutes, before); err != nil {
		return err
	}
	if r.policy.Hours > 0 {
		if err := r.deleteHours(ctx, reach); err != nil {
			return err
		}
	}
	r.daily, r.summed = time.Now(), r.policy
	return nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// width returns the time of a partition: a twelfth of what is kept, in whole days, at most 30.
func width(requests time.Duration) time.Duration {
	if requests == 0 {
		return 30 * day
	}
	return max(day, min(30*day, (requests/12).Truncate(day)))
}

// ahead is the time before which partitions are created.
const ahead = 3 * day

// addPartitions creates the partitions of the next days. If there is none for today, the next one begins
// tomorrow: the rows of today stay where they are.
func (r *run) addPartitions(ctx context.Context) error {
	var parts []partition.Partition
	if err := r.o.Store.Read(ctx, func(ctx context.Context, c db.Conn) (err error) {
		parts, err = partition.List(ctx, c, partition.Tables()[0])
		return err
	}); err != nil || len(parts) == 0 {
		return err
	}
	end, now := time.Unix(0, parts[len(parts)-1].To), r.o.Now()
	if tomorrow := now.Truncate(day).Add(day); end.Before(now) {
		end = tomorrow
	}
	for end.Before(now.Add(ahead)) {
		to := end.Add(width(r.policy.Requests))
		if err := r.o.Store.Write(ctx, func(ctx context.Context, c db.Conn) error {
			return partition.Add(ctx, c, partition.Range{From: end.UnixNano(), To: to.UnixNano()})
		}); err != nil {
			return err
		}
		end = to
	}
	return nil
}

// dropPartitions drops the partitions whose rows are all older than a time.
func (r *run) dropPartitions(ctx context.Context, before int64) error {
	for _, table := range partition.Tables() {
		var parts []partition.Partition
		if err := r.o.Store.Read(ctx, func(ctx context.Context, c db.Conn) (err error) {
			parts, err = partition.List(ctx, c, table)
			return err
		}); err != nil {
			return err
		}
		for _, p := range parts {
			if p.To > before || len(parts) == 1 {
				continue
			}
			if err := r.o.Store.Write(ctx, func(ctx context.Context, c db.Conn) error { return partition.Drop(ctx, c, p, before) }); err != nil {
				return err
			}
			r.partitions.Add(1)
			r.deleted["partitions"]++
			if err := r.extend(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownRows returns the time before which rows are deleted one by one: those of the first partition, and
// those that have none. The rows of other partitions go with these.
func (r *run) ownRows(ctx context.Context, before int64) (int64, error) {
	err := r.o.Store.Read(ctx, func(ctx context.Context, c db.Conn) error {
		parts, err := partition.List(ctx, c, partition.Tables()[0])
		for _, p := range parts {
			if p.From != math.MinInt64 {
				before = min(before, p.From)
				break
			}
		}
		return err
	})
	return before, err
}

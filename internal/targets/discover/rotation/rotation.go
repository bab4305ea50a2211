// Package rotation lets several gateways use a worker in turns.
//
// If a worker has a smaller capacity than there are gateways, as many gateways as it has
// capacity hold a slot for one request each, and the others wait in a queue. A gateway
// passes its slot on after a while, when its request has ended. docs/design/016 has the
// reasons and the bounds.
package rotation

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
)

// cycle is the longest time in which every gateway gets a slot if requests are short.
const cycle = 10 * time.Second

// periods returns into how many periods the cycle of a worker is divided.
func periods(gateways, capacity int) int { return (gateways + capacity - 1) / capacity }

// holdTime returns how long a gateway starts requests in a slot. Of k periods, the queue is
// k-1 slots long. With requests of a period at most each slot is held for this time and a
// period, so that a gateway waits for less than k periods.
func holdTime(gateways, capacity int) time.Duration {
	k := periods(gateways, capacity)
	return cycle / time.Duration(k) * 4 / 5 / time.Duration(max(k-1, 1))
}

// State is the state of a worker's slots, which the gateways share. Only an exact
// compare-and-swap changes it.
type State struct {
	Holders []string `json:"holders"` // gateways that hold a slot
	Queue   []string `json:"queue"`   // the others; the first gets the next slot
}

// Bounds of what others may write into the store.
const (
	MaxGateways = 1000    // that are counted, and of a state
	MaxID       = 128     // bytes of the id of a gateway
	MaxStates   = 100_000 // of workers
)

// IsText reports whether a text is printable and has at most so many bytes.
func IsText(text string, most int) bool {
	return len(text) <= most && utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) })
}

// Read returns a stored state. One that no gateway writes is empty and is replaced.
func Read(text []byte) State {
	var t State
	if len(text) > 2*MaxGateways*MaxID || json.Unmarshal(text, &t) != nil || len(t.Holders)+len(t.Queue) > MaxGateways {
		return State{}
	}
	there := map[string]bool{}
	for _, id := range slices.Concat(t.Holders, t.Queue) {
		if there[id] || id == "" || !IsText(id, MaxID) {
			return State{}
		}
		there[id] = true
	}
	return t
}

// among returns the state for the gateways that are alive and a capacity. A slot of a
// gateway that is gone is free. If the capacity has fallen, the last holders lose theirs.
func (t State) among(alive []string, capacity int) State {
	rest := map[string]bool{} // alive and not in a list yet
	for _, id := range alive {
		rest[id] = true
	}
	add := func(list, ids []string) []string {
		for _, id := range ids {
			if rest[id] {
				list = append(list, id)
				delete(rest, id)
			}
		}
		return list
	}
	var out State
	out.Holders = add(nil, t.Holders[:min(len(t.Holders), capacity)])
	out.Queue = add(nil, t.Queue)
	out.Queue = add(out.Queue, alive)
	for len(out.Holders) < capacity && len(out.Queue) > 0 {
		out.Holders, out.Queue = append(out.Holders, out.Queue[0]), out.Queue[1:]
	}
	return out
}

// pass returns the state after a gateway has passed its slot on.
func (t State) pass(id string, alive []string, capacity int) State {
	t.Holders = slices.DeleteFunc(slices.Clone(t.Holders), func(h string) bool { return h == id })
	t.Queue = append(slices.Clone(t.Queue), id)
	return t.among(alive, capacity)
}

func (t State) equal(o State) bool {
	return slices.Equal(t.Holders, o.Holders) && slices.Equal(t.Queue, o.Queue)
}

// Kept is a state as the store has it. The zero value is a state that is not stored.
type Kept struct {
	State
	Revision int64
}

// Store keeps the states of workers, by id.
type Store interface {
	// List returns all states and the revision at which they were read.
	List(ctx context.Context) (map[string]Kept, int64, error)
	// Watch reports changes after a revision, until the context ends or the watch fails.
	Watch(ctx context.Context, after int64, tell func(worker string, k Kept))
	// Swap replaces a state unless it has changed. Its result is seen by Watch.
	Swap(ctx context.Context, worker string, old Kept, next State) error
}

// Rotation takes part in the turns of all workers. One goroutine uses it.
type Rotation struct {
	ID    string // of this gateway
	Store Store
	Slots *limit.Turns
	// Workers calls yield with the id and the capacity of each worker that is used in turns.
	Workers func(yield func(id string, capacity int))
	Alive   func() []string  // ids of the gateways, in order
	Fatal   func(error) bool // an error of the store that ends Run; nil: none does
	Logger  *slog.Logger

	states map[string]Kept
	seen   []string             // the gateways at the last step
	stable time.Time            // since when they are the same
	since  map[string]time.Time // when a slot was received
	absent map[string]time.Time // gateways in a state that are not counted here, since when
}

// absence is how long a gateway in a state counts that is not counted here: another gateway
// may have counted it sooner.
const absence = 10 * time.Second

// settling is how long the gateways must be the same before one creates a worker's state:
// by then each has counted the others, and none uses a part of the capacity any more.
const settling = 3 * time.Second

// lookInterval is how often the list of workers and of gateways is looked at.
const lookInterval = 250 * time.Millisecond

// Run takes part until the context ends or an error of the store is fatal. If the store does
// not respond, the slots stay with those who hold them.
func (r *Rotation) Run(ctx context.Context) {
	if r.since == nil {
		r.since, r.absent = map[string]time.Time{}, map[string]time.Time{}
	}
	for ctx.Err() == nil {
		states, revision, err := r.Store.List(ctx)
		switch {
		case err == nil:
			r.states = states
			r.follow(ctx, revision)
		case r.Fatal != nil && r.Fatal(err):
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookInterval):
		}
	}
}

// follow takes part in the rotation until its watch fails.
func (r *Rotation) follow(ctx context.Context, revision int64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type change struct {
		worker string
		Kept
	}
	changes := make(chan change)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		crash.Do(r.Logger, func() {
			r.Store.Watch(ctx, revision, func(worker string, k Kept) {
				select {
				case changes <- change{worker, k}:
				case <-ctx.Done():
				}
			})
		})
	}()
	defer func() { cancel(); <-ended }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ended:
			return
		case c := <-changes:
			r.note(c.worker, c.Kept)
		case <-r.Slots.Idle():
		case <-timer.C:
		}
		timer.Reset(r.step(ctx, time.Now()))
	}
}

// note keeps a changed state.
func (r *Rotation) note(worker string, k Kept) {
	if _, known := r.states[worker]; k.Revision == 0 {
		delete(r.states, worker)
	} else if known || len(r.states) < MaxStates {
		r.states[worker] = k
	}
}

// step opens, closes and passes slots on, and returns when to do so again.
func (r *Rotation) step(ctx context.Context, now time.Time) time.Duration {
	wait, alive := lookInterval, r.Alive()
	if !slices.Equal(alive, r.seen) {
		r.seen, r.stable = alive, now
	}
	maps.DeleteFunc(r.absent, func(_ string, since time.Time) bool { return now.Sub(since) > time.Hour })
	used := map[string]bool{}
	r.Workers(func(id string, capacity int) {
		used[id] = true
		if len(alive) > capacity {
			wait = min(wait, r.worker(ctx, id, capacity, now))
		}
	})
	if r.Slots.Len() > 2*len(used)+100 {
		r.Slots.Keep(used) // a worker that comes back gets another turn when it is published
	}
	for id := range r.since {
		if !used[id] {
			delete(r.since, id)
		}
	}
	return max(wait, time.Millisecond)
}

// living returns the gateways that are alive, and those of a state that have been missing for
// a moment only.
func (r *Rotation) living(s State, now time.Time) []string {
	alive := slices.Clone(r.seen)
	for _, id := range slices.Concat(s.Holders, s.Queue) {
		if slices.Contains(r.seen, id) {
			delete(r.absent, id)
			continue
		}
		if r.absent[id].IsZero() {
			if len(r.absent) >= 10*MaxGateways { // others write what they like
				continue
			}
			r.absent[id] = now
		}
		if now.Sub(r.absent[id]) < absence {
			alive = append(alive, id)
		}
	}
	return alive
}

// worker takes part in the turns of a worker and returns when its slot is to be passed on.
func (r *Rotation) worker(ctx context.Context, id string, capacity int, now time.Time) time.Duration {
	at, slot := r.states[id], r.Slots.Turn(id)
	alive := r.living(at.State, now)
	if !slices.Contains(at.Holders, r.ID) {
		slot.Close()
		delete(r.since, id)
		if next := at.among(alive, capacity); !next.equal(at.State) && (at.Revision != 0 || now.Sub(r.stable) >= settling) {
			_ = r.Store.Swap(ctx, id, at, next) // if another gateway was faster, the watch says so
		}
		return lookInterval
	}
	since, held := r.since[id]
	if !held {
		r.since[id], since = now, now
		slot.Open()
	}
	left := holdTime(len(alive), capacity) - now.Sub(since)
	switch {
	case left > 0:
		if next := at.among(alive, capacity); !next.equal(at.State) {
			_ = r.Store.Swap(ctx, id, at, next)
		}
		return left
	case slot.Close():
		_ = r.Store.Swap(ctx, id, at, at.pass(r.ID, alive, capacity)) // else again at the next step
	}
	return lookInterval
}

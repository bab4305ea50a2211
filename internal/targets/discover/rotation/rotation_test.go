package rotation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit/limittest"
)

// memoryTurns is a Store in memory, with a delay for each change to arrive.
type memoryTurns struct {
	delay    time.Duration
	mu       sync.Mutex
	revision int64
	states   map[string]Kept
	watchers map[chan Kept]string
}

func (m *memoryTurns) List(context.Context) (map[string]Kept, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]Kept{}
	for id, k := range m.states {
		out[id] = k
	}
	return out, m.revision, nil
}

func (m *memoryTurns) Watch(ctx context.Context, after int64, tell func(string, Kept)) {
	changes := make(chan Kept, 1000)
	m.mu.Lock()
	m.watchers[changes] = "w"
	missed := m.revision > after
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, changes)
	}()
	if missed {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case k := <-changes:
			time.Sleep(m.delay)
			tell("w", k)
		}
	}
}

func (m *memoryTurns) Swap(_ context.Context, worker string, old Kept, next State) error {
	time.Sleep(m.delay)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.states[worker].Revision != old.Revision {
		return errors.New("another gateway was faster")
	}
	m.revision++
	m.states[worker] = Kept{next, m.revision}
	for c := range m.watchers {
		c <- m.states[worker]
	}
	return nil
}

// TestTurns checks, with a simulated clock, that gateways never have more requests open at
// a worker than its capacity, and that every gateway gets a slot within the periods of a
// cycle: gaps are measured from the end of a request to the start of the next.
func TestTurns(t *testing.T) {
	for _, c := range []struct{ gateways, capacity int }{{3, 2}, {5, 1}, {2, 1}, {7, 3}, {10, 1}} {
		period := cycle / time.Duration(periods(c.gateways, c.capacity))
		for name, long := range map[string]time.Duration{"short": 10 * time.Millisecond, "almost a period": period * 95 / 100, "longer than a period": 3 * period} {
			t.Run(fmt.Sprintf("%d gateways at %d, %s", c.gateways, c.capacity, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := &memoryTurns{delay: 2 * time.Millisecond, states: map[string]Kept{}, watchers: map[chan Kept]string{}}
					var alive []string
					for n := range c.gateways {
						alive = append(alive, fmt.Sprintf("gw-%d", n))
					}
					load := limittest.New(c.gateways)
					ctx, cancel := context.WithCancel(t.Context())
					var all sync.WaitGroup
					for n, id := range alive {
						slots := limit.NewTurns()
						r := &Rotation{ID: id, Store: store, Slots: slots, Logger: slog.New(slog.DiscardHandler),
							Workers: func(yield func(string, int)) { yield("w", c.capacity) },
							Alive:   func() []string { return alive }}
						l := limit.New()
						l.Use(limit.Config{Requests: -1, Memory: -1, Queue: 100, Wait: time.Minute})
						target := l.Target("w", 1)
						target.UseTurn(slots.Turn("w"))
						all.Go(func() { r.Run(ctx) })
						all.Go(func() { load.Run(ctx, n, target, long) })
					}
					time.Sleep(5 * time.Minute)
					cancel()
					all.Wait()
					most, served, gap := load.Seen()
					if most > c.capacity {
						t.Errorf("%d requests were open at once at a capacity of %d", most, c.capacity)
					}
					if slices.Min(served) == 0 {
						t.Errorf("a gateway was never served: %v", served)
					}
					if within := time.Duration(periods(c.gateways, c.capacity)) * period; long < period && gap > within {
						t.Errorf("a gateway had no slot for %v, want at most %v; served %v", gap, within, served)
					}
				})
			})
		}
	}
}

// TestUncountedGateway checks that a holder that another gateway has not counted yet keeps
// its slot, and loses it when it remains uncounted.
func TestUncountedGateway(t *testing.T) {
	r := &Rotation{seen: []string{"a", "b"}, absent: map[string]time.Time{}}
	s, now := State{[]string{"c"}, []string{"a"}}, time.Now()
	if got := s.among(r.living(s, now), 1); !slices.Equal(got.Holders, []string{"c"}) {
		t.Errorf("%+v", got)
	}
	if got := s.among(r.living(s, now.Add(absence)), 1); !slices.Equal(got.Holders, []string{"a"}) {
		t.Errorf("%+v", got)
	}
}

// TestTurnsAmong checks the changes of a worker's state.
func TestTurnsAmong(t *testing.T) {
	three := []string{"a", "b", "c"}
	for name, c := range map[string]struct {
		state    State
		alive    []string
		capacity int
		want     State
	}{
		"new":               {State{}, three, 2, State{[]string{"a", "b"}, []string{"c"}}},
		"a holder is gone":  {State{[]string{"b", "x"}, []string{"c", "a"}}, three, 2, State{[]string{"b", "c"}, []string{"a"}}},
		"another has come":  {State{[]string{"b"}, []string{"a"}}, three, 1, State{[]string{"b"}, []string{"a", "c"}}},
		"the capacity fell": {State{[]string{"a", "b"}, []string{"c"}}, three, 1, State{[]string{"a"}, []string{"c", "b"}}},
		"forged":            {State{[]string{"a", "a", "evil"}, []string{"a", "b", "b"}}, three, 2, State{[]string{"a", "b"}, []string{"c"}}},
	} {
		if got := c.state.among(c.alive, c.capacity); !got.equal(c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if got := (State{[]string{"a", "b"}, []string{"c"}}).pass("a", three, 2); !got.equal(State{[]string{"b", "c"}, []string{"a"}}) {
		t.Errorf("%+v", got)
	}
}

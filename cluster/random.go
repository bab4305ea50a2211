package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// randomLasts is how long a random history lasts, and the short form of it.
const randomLasts, randomShort = 60 * time.Second, 20 * time.Second

// event is one fault of a random history. It follows the end of the one before.
type event struct {
	fault string
	node  int
	after time.Duration // since the end of the last event
	lasts time.Duration
}

func (e event) String() string {
	return fmt.Sprintf("+%v %s on node %d for %v", e.after, e.fault, e.node+1, e.lasts)
}

// faults can happen in a random history. Each ends before the next begins.
var faults = map[string]func(ctx context.Context, s *stage, e event){
	"kill the gateway": func(ctx context.Context, s *stage, e event) {
		s.nodes[e.node].Kill()
		testrig.Pause(ctx, e.lasts)
		testrig.NoError(s.nodes[e.node].Start(ctx))
	},
	"freeze the gateway": func(ctx context.Context, s *stage, e event) {
		testrig.NoError(s.nodes[e.node].Signal(syscall.SIGSTOP))
		testrig.Pause(ctx, e.lasts)
		testrig.NoError(s.nodes[e.node].Signal(syscall.SIGCONT))
	},
	"freeze Redis": func(ctx context.Context, s *stage, e event) {
		s.redis.Freeze()
		testrig.Pause(ctx, e.lasts)
		s.redis.Thaw()
	},
	"kill Redis": func(ctx context.Context, s *stage, e event) {
		s.redis.Kill()
		testrig.Pause(ctx, e.lasts)
		testrig.NoError(s.redis.Start())
	},
	"flush the scripts of Redis": func(ctx context.Context, s *stage, _ event) {
		redisCommand(ctx, s.redis, "SCRIPT", "FLUSH")
	},
	"freeze PostgreSQL": func(ctx context.Context, s *stage, e event) {
		s.postgres.Freeze()
		testrig.Pause(ctx, e.lasts)
		s.postgres.Thaw()
	},
	"kill PostgreSQL": func(ctx context.Context, s *stage, e event) {
		s.postgres.Kill()
		testrig.Pause(ctx, e.lasts)
		testrig.NoError(s.postgres.Start())
	},
}

// randomHistory returns the events of a seed.
func randomHistory(seed uint64, lasts time.Duration) (list []event) {
	random := rand.New(rand.NewPCG(seed, 40))
	names := make([]string, 0, len(faults))
	for name := range faults {
		names = append(names, name)
	}
	slices.Sort(names)
	for at := time.Duration(0); ; {
		e := event{fault: names[random.IntN(len(names))], node: random.IntN(nodes),
			after: time.Duration(200+random.IntN(2500)) * time.Millisecond, lasts: time.Duration(100+random.IntN(3500)) * time.Millisecond}
		if at += e.after + e.lasts; at > lasts {
			return list
		}
		list = append(list, e)
	}
}

// runRandom plays random histories under load. A seed makes the same events again:
// --only histories/SEED.
func runRandom(ctx context.Context, s *stage) {
	seeds := s.seeds
	if len(seeds) == 0 {
		seeds = of(s, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, []uint64{1})
	}
	for _, seed := range seeds {
		s.playRandom(ctx, seed, of(s, randomLasts, randomShort))
	}
}

// shrinkPlays is how often a history that fails is played again with fewer faults.
const shrinkPlays = 24

// playRandom plays one history. Then the rows of its key must be those of its requests:
// what the clients received, what the upstream has sent and the ledger agree. If they do
// not, the history is played again with fewer faults, as long as it fails.
func (s *stage) playRandom(ctx context.Context, seed uint64, lasts time.Duration) {
	list := randomHistory(seed, lasts)
	name := fmt.Sprintf("histories/%d", seed)
	s.Progress("%s: %s", name, textOf(list))
	began := time.Now()
	measured, wrong := s.playEvents(ctx, name, seed, list)
	if len(wrong) > 0 && !s.short {
		shorter := shrink(list, shrinkPlays, func(some []event) bool {
			_, wrong := s.playEvents(ctx, name, seed, some)
			return len(wrong) > 0 && ctx.Err() == nil
		})
		wrong = append([]string{"the shortest history that fails: " + textOf(shorter)}, wrong...)
	}
	s.Check(name, measured, began, append(wrong, s.sums(ctx)...)...)
}

// playEvents plays events under the load of a seed, with a key of its own. It returns what the
// histories of the key disagree about.
func (s *stage) playEvents(ctx context.Context, name string, seed uint64, list []event) (measured string, wrong []string) {
	k := s.newKey(ctx, strings.ReplaceAll(name, "/", ""), limits{budget: 100_000_000})
	end := s.randomLoad(ctx, k, seed)
	for _, e := range list {
		testrig.Pause(ctx, e.after)
		faults[e.fault](ctx, s, e)
	}
	sent := end()
	rows := s.settledFor(ctx, 60*time.Second)
	// The upstream records an attempt at its end, which may be later than the client's and the row's.
	testrig.NoError(testrig.Until(ctx, waitLimit, "the upstream still has open requests", func() bool { return s.up.Open.Load() == 0 }))
	all := histories{s.exchanges.List(), s.up.attempts.List(), rows}.of(k.ID)
	return fmt.Sprintf("%d faults, %d requests, %d rows", len(list), sent, len(all.rows)), all.compare()
}

func textOf(list []event) string {
	text := make([]string, len(list))
	for i, e := range list {
		text[i] = e.String()
	}
	return strings.Join(text, "; ")
}

// shrink removes events, many at a time and then one by one, as long as the rest fails. It
// plays at most so many histories. A fault that needs a moment of its own may not fail again:
// then the list stays as it is.
func shrink(list []event, plays int, fails func([]event) bool) []event {
	for size := (len(list) + 1) / 2; size > 0; size /= 2 {
		for at := 0; at < len(list) && plays > 0; {
			rest := slices.Concat(list[:at], list[min(at+size, len(list)):])
			if plays--; fails(rest) {
				list = rest
			} else {
				at += size
			}
		}
	}
	return list
}

// randomLoad sends streams and other requests of a key to random nodes until the returned
// function is called, which returns how many were sent. A fifth of the clients hang up.
func (s *stage) randomLoad(ctx context.Context, k key, seed uint64) (end func() int) {
	done := make(chan struct{})
	var clients sync.WaitGroup
	var mu sync.Mutex
	sent := 0
	for n := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, n))
		clients.Go(func() {
			for ctx.Err() == nil {
				select {
				case <-done:
					return
				default:
				}
				w := request{key: k, model: dear, node: random.IntN(nodes), stream: random.IntN(4) > 0, translated: random.IntN(2) == 0, maxTokens: 64}
				w.Tag, w.Say, w.Every = tag("history"), 5+random.IntN(56), time.Duration(2+random.IntN(20))*time.Millisecond
				if w.stream && random.IntN(5) == 0 {
					w.leave = 1 + random.IntN(w.Say)
				}
				if e := s.send(ctx, w); e.status == 0 {
					testrig.Pause(ctx, 50*time.Millisecond) // the gateway is not there
				}
				mu.Lock()
				sent++
				mu.Unlock()
			}
		})
	}
	return func() int {
		close(done)
		clients.Wait()
		return sent
	}
}

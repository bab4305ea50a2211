package limit

import (
	"context"
	"sync"
	"time"
)

// Limiter bounds what is open at once. There is one for the process and it
// outlives reloads: what is open stays counted.
type Limiter struct {
	clock   func() time.Duration
	process *gate
	memory  *memory

	mu      sync.RWMutex
	config  Config
	targets map[string]*Target
}

// New returns a limiter that lets everything in until Use was called.
func New() *Limiter {
	start := time.Now()
	clock := func() time.Duration { return time.Since(start) + 1 } // never 0, which stands for no time
	return &Limiter{
		clock:   clock,
		process: newGate(Process, clock),
		memory:  newMemory(),
		config:  Config{Requests: -1, Memory: -1},
		targets: map[string]*Target{},
	}
}

// Use makes a configuration the one in force. Who waits may find room at once;
// who is in stays in, also above a lower limit.
func (l *Limiter) Use(c Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.config = c
	l.memory.use(c.memory())
	l.process.use(c.process())
	for _, t := range l.targets {
		t.use(c)
	}
}

// Caller is who asks for a place.
type Caller struct {
	Key   string // empty is nobody in particular, without a limit of its own
	Max   int    // how many requests this key may have open; 0 means Config.PerKey
	Class Class
}

// Enter takes a place in the process for a caller, and waits for one where the
// queue allows it. The end of the context ends the wait.
func (l *Limiter) Enter(ctx context.Context, c Caller) (Permit, *Refusal) {
	c.Class = c.Class.known()
	if l.memory.refuses(c.Class, l.clock) {
		return Permit{}, l.process.refuse(Memory, memoryRetry)
	}
	p, refusal := l.process.enter(ctx, c)
	if refusal != nil {
		return Permit{}, refusal
	}
	return Permit{place: p}, nil
}

// Target is the limit of one target, made where there is none yet. max is how
// many requests it may have open; 0 means Config.PerTarget. The newest max holds.
func (l *Limiter) Target(id string, max int) *Target {
	l.mu.RLock()
	t := l.targets[id]
	l.mu.RUnlock()
	if t != nil && t.max.Load() == int64(max) {
		return t
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t = l.targets[id]; t == nil {
		t = &Target{gate: newGate(Upstream, l.clock)}
		l.targets[id] = t
	}
	t.max.Store(int64(max))
	t.use(l.config)
	return t
}

// Forget drops a target that no configuration names any more. Permits of it stay
// good.
func (l *Limiter) Forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.targets, id)
}

package limit

import (
	"context"
	"sync"
	"time"
)

// Limiter bounds the number of open requests of the process. It outlives reloads of the
// configuration, so that open requests stay counted.
type Limiter struct {
	clock   func() time.Duration
	process *gate
	memory  *memory
	Bytes   Bytes // memory of bodies and of their translation

	mu      sync.RWMutex
	config  Config
	targets map[string]*Target
}

// New returns a limiter that has no limits before the first call of Use.
func New() *Limiter {
	start := time.Now()
	clock := func() time.Duration { return time.Since(start) + 1 } // never 0, which means no time
	return &Limiter{
		clock:   clock,
		process: newGate(Process, clock),
		memory:  newMemory(),
		config:  Config{Requests: -1, Memory: -1},
		targets: map[string]*Target{},
	}
}

// Use sets the configuration. A higher limit admits waiting requests at once; a lower
// one does not affect requests that have a slot.
func (l *Limiter) Use(c Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.config = c
	l.memory.use(c.memory())
	l.Bytes.use(c.bytes())
	l.process.use(c.process())
	for _, t := range l.targets {
		t.use(c)
	}
}

// Caller identifies the sender of a request.
type Caller struct {
	Key   string // empty: not identified, and without a limit of its own
	Max   int    // limit of open requests of this key; 0: Config.PerKey
	Class Class
}

// Enter takes a slot of the process. If none is free, it waits in the queue, at most until
// the context ends.
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

// Target returns the limit of a target and creates it if needed. max is the limit of
// open requests; 0 means Config.PerTarget. The latest max applies.
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

// Forget removes a target. Its permits stay valid.
func (l *Limiter) Forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.targets, id)
}

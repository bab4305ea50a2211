package limit

import (
	"sync"
	"sync/atomic"
)

// Turns holds a Turn for each target that several processes use one after the other. The
// zero value is not ready; use NewTurns.
type Turns struct {
	idle chan struct{}
	mu   sync.Mutex
	byID map[string]*Turn
}

// NewTurns returns Turns without targets.
func NewTurns() *Turns { return &Turns{idle: make(chan struct{}, 1), byID: map[string]*Turn{}} }

// Turn returns the turn at the target with an id. A new turn is closed.
func (t *Turns) Turn(id string) *Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[id] == nil {
		t.byID[id] = &Turn{idle: t.idle}
	}
	return t.byID[id]
}

// Len returns the number of turns.
func (t *Turns) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

// Keep removes the turns at all targets except those with these ids.
func (t *Turns) Keep(ids map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.byID {
		if !ids[id] {
			delete(t.byID, id)
		}
	}
}

// Idle receives a value when the last request of a closed turn has ended.
func (t *Turns) Idle() <-chan struct{} { return t.idle }

// Turn says whether the process may use a target now.
type Turn struct {
	open atomic.Bool
	idle chan struct{}

	mu    sync.Mutex
	gates []*gate // those of the target; an old gate may still have open requests
}

// Open admits requests, the waiting ones first.
func (t *Turn) Open() {
	t.open.Store(true)
	for _, g := range t.list() {
		g.mu.Lock()
		if g.queue.waiting > 0 {
			g.serve()
		}
		g.mu.Unlock()
	}
}

// Close ends the admission of requests, and reports whether none is open.
func (t *Turn) Close() (idle bool) {
	t.open.Store(false)
	idle = true
	for _, g := range t.list() {
		g.mu.Lock() // a request that enters now sees that the turn is closed
		idle = idle && g.open == 0
		g.mu.Unlock()
	}
	return idle
}

func (t *Turn) list() []*gate {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]*gate(nil), t.gates...)
}

// ended reports the end of the last request at a gate. The gate is locked.
func (t *Turn) ended() {
	if t.open.Load() {
		return
	}
	select {
	case t.idle <- struct{}{}:
	default:
	}
}

// UseTurn makes the target admit requests only while a turn is open. For a nil turn the
// target always admits them.
func (t *Target) UseTurn(turn *Turn) {
	g := t.gate
	g.mu.Lock()
	same := g.turn == turn
	g.turn = turn
	if turn == nil && !same && g.queue.waiting > 0 {
		g.serve()
	}
	g.mu.Unlock()
	if turn == nil || same {
		return
	}
	turn.mu.Lock()
	turn.gates = append(turn.gates, g)
	turn.mu.Unlock()
}

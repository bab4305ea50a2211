package limit

import "maps"

// Snapshot is the state of a limiter.
type Snapshot struct {
	Process State
	Targets map[string]State
	Memory  MemoryState
}

// State is the state of one limit.
type State struct {
	Limit   int // 0 means none; the current value of an adaptive limit
	Open    int
	Waiting int
	Refused map[string]uint64 // by reason, since the start
}

// MemoryState is the memory usage of the process, as last read.
type MemoryState struct {
	Limit, Used int64   // bytes; a limit of 0 means none
	Refused     []Class // because of memory
}

// Snapshot returns the number of open, waiting and refused requests.
func (l *Limiter) Snapshot() Snapshot {
	s := Snapshot{Process: l.process.state(), Targets: map[string]State{}}
	s.Memory = MemoryState{Limit: l.memory.limit.Load(), Used: l.memory.used.Load()}
	for c := classes - l.memory.level.Load(); c < classes; c++ {
		s.Memory.Refused = append(s.Memory.Refused, Class(c))
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for id, t := range l.targets {
		s.Targets[id] = t.gate.state()
	}
	return s
}

func (g *gate) state() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return State{Limit: g.bounds.limit, Open: g.open, Waiting: g.queue.waiting, Refused: maps.Clone(g.refused)}
}

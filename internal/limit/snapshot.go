package limit

import "maps"

// Snapshot is what a limiter looks like at one moment.
type Snapshot struct {
	Process State
	Targets map[string]State
	Memory  MemoryState
}

// State is one limit.
type State struct {
	Limit   int // 0 means none; of a target, where an adaptive limit is now
	Open    int
	Waiting int
	Refused map[string]uint64 // by reason, since the start
}

// MemoryState is the process's memory, as last looked at.
type MemoryState struct {
	Limit, Used int64   // bytes; a limit of 0 means none
	Refused     []Class // those that are refused for want of it
}

// Snapshot reports what is open, waiting and refused.
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

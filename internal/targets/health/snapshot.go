package health

import "time"

// Status is the state of a target for operators.
type Status struct {
	ID    string
	Group string
	State
	InFlight    int
	Consecutive int           // failures in a row
	Ejections   int           // recent ejections
	P50, P95    time.Duration // of the time to first token; 0 while unknown
	Succeeded   uint64
	Failed      map[Kind]uint64 // without the kinds that have not occurred
	Headrooms   []Headroom
}

// Snapshot returns the status of all targets, sorted by id. Requests go on meanwhile,
// so the numbers need not be from the same moment.
func (f *Fleet) Snapshot() []Status {
	targets := f.all()
	list := make([]Status, len(targets))
	for i, t := range targets {
		list[i] = t.status()
	}
	return list
}

func (t *Target) status() Status {
	now := t.fleet.now()
	s := Status{
		ID: t.id, Group: t.group, State: t.State(), InFlight: t.InFlight(),
		Consecutive: t.Consecutive(), Ejections: t.outlier.count(now),
		Succeeded: t.succeeded.Load(), Failed: map[Kind]uint64{}, Headrooms: t.headrooms(),
	}
	s.P50, _ = t.latency.quantile(now, 0.50)
	s.P95, _ = t.latency.quantile(now, 0.95)
	for k := range t.failed {
		if n := t.failed[k].Load(); n > 0 {
			s.Failed[Kind(k)] = n
		}
	}
	return s
}

func (o *outlier) count(now instant) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lately(now)
}

package health

import "time"

// Status is what an operator sees of a target.
type Status struct {
	ID    string
	Group string
	State
	InFlight    int
	Consecutive int           // failures in a row
	Ejections   int           // n: how often lately
	P50, P95    time.Duration // to the first token; 0 while unknown
	Succeeded   uint64
	Failed      map[Kind]uint64 // the kinds that occurred
}

// Snapshot lists the status of all targets in the order of their ids. It is
// gathered while requests go on, so its numbers need not be of one moment.
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
		Consecutive: int(t.outlier.streak.Load()), Ejections: t.outlier.count(now),
		Succeeded: t.answered.Load(), Failed: map[Kind]uint64{},
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

package health

import (
	"sync"
	"sync/atomic"
	"time"
)

// When 403 responses take a target out.
const (
	denyAfter  = 5         // denials in a row
	callerTime = time.Hour // how long a client key counts as a user of the target
)

// denials decides when 403 responses, or 404 responses that name the model, take a target
// out of service. A client can provoke such a response with its own request, and must not
// make the target unavailable to the others. So the denials in a row must concern at least
// two client keys, unless only one client key has used the target within callerTime.
type denials struct {
	refusal
	caller  atomic.Uint64 // the client key of the latest response
	changed atomic.Int64  // when caller last changed from one client key to another

	mu      sync.Mutex
	streak  atomic.Int32 // denials since the last success
	first   uint64       // the client key of the streak's first denial
	several bool         // the streak concerns more than one client key
}

// usedBy records the client key that a response goes to.
func (d *denials) usedBy(caller uint64, now instant) {
	old := d.caller.Load()
	if old == caller {
		return
	}
	d.caller.Store(caller)
	if old != 0 {
		d.changed.Store(int64(now))
	}
}

// soleCaller reports whether only one client key has used the target lately.
func (d *denials) soleCaller(now instant) bool {
	changed := d.changed.Load()
	return changed == 0 || now.since(instant(changed)) > callerTime
}

// denied counts a 403 response to a client key.
func (d *denials) denied(caller uint64, now instant) {
	d.usedBy(caller, now)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.streak.Add(1) == 1 {
		d.first, d.several = caller, false
	}
	d.several = d.several || d.first != caller
	if d.streak.Load() >= denyAfter && (d.several || d.soleCaller(now)) {
		d.refused(now)
	}
}

// succeeded ends the streak, and puts the target back into service.
func (d *denials) succeeded() {
	d.accepted()
	if d.streak.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streak.Store(0)
}

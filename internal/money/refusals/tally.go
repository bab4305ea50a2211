package refusals

import (
	"slices"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Bounds of what a process remembers.
const (
	maxPairs   = 1024   // keys and reasons of a minute with a count of their own
	maxCounts  = 20_000 // counts that are not stored
	maxRows    = 1000   // rows that are not stored; older ones are dropped
	firstRows  = 10     // of a key and a reason in a minute; after them one a second
	rowsSecond = 20     // of all keys
)

// place identifies a count.
type place struct {
	log            string
	minute         int64
	org, team, key string
	reason         usage.Reason
}

// count is a total, and how much of it the sink has.
type count struct{ total, stored int64 }

// pair is a key and a reason within the present minute.
type pair struct {
	key    string
	reason usage.Reason
}

// sample is what was sampled of a pair in the present minute.
type sample struct {
	rows int
	last int64 // second of the last row
}

// tally is the totals and rows that the sink does not have.
type tally struct {
	o       *Options
	log     string
	resets  int // how often the clock was set back
	minute  int64
	pairs   map[pair]*sample // of the minute
	counts  map[place]*count
	keyless map[usage.Reason]place // the last places without a key
	rows    []usage.Row
	dropped int   // rows before the first of rows, since the start
	second  int64 // of the last row
	inside  int   // rows of that second
	over    int64 // refusals without room for their key
	changed bool  // something was counted since the file was written
}

func newTally(o *Options) tally {
	return tally{o: o, log: o.Log, pairs: map[pair]*sample{}, counts: map[place]*count{}, keyless: map[usage.Reason]place{}}
}

// add counts a note, and keeps it as a row if it is one of the first. A note of an unknown key changes nothing.
func (t *tally) add(n *Note) {
	row := &n.Row
	if row.Key == "" {
		owner, known := t.o.Owner(n.Claimed)
		if !known {
			return
		}
		row.Key, row.Org, row.Team, row.Person = n.Claimed, owner.Org, owner.Team, owner.Person
	}
	t.turn(n.At)
	p := pair{row.Key, n.Told.Reason}
	if t.pairs[p] == nil && (len(t.pairs) >= maxPairs || len(t.counts) >= maxCounts) {
		p.key = ""
	}
	at := place{t.log, t.minute, row.Org, row.Team, row.Key, p.reason}
	if p.key == "" {
		t.over++
		at = t.without(p.reason)
	}
	if t.pairs[p] == nil {
		t.pairs[p] = &sample{}
	}
	if t.counts[at] == nil {
		t.counts[at] = &count{}
	}
	t.counts[at].total++
	t.changed = true
	if t.takes(t.pairs[p], n.At.Unix()) {
		t.keep(n)
	}
}

// turn begins another minute. A count never continues in a minute that was left: its total may be stored and
// forgotten. If the clock was set back by more than notes may be late, the counts have another log from then on.
func (t *tally) turn(at time.Time) {
	minute := at.Unix() / 60
	switch {
	case minute > t.minute:
	case t.minute-minute > 1:
		t.resets++
		t.log = t.o.Log + "." + strconv.Itoa(t.resets)
	default:
		return
	}
	t.minute = minute
	clear(t.pairs)
}

// without returns the place of refusals without room for their key. These places are few, but a sink may be
// away for months: the refusals then go to the one of an earlier minute.
func (t *tally) without(reason usage.Reason) place {
	at := place{log: t.log, minute: t.minute, reason: reason}
	if last := t.keyless[reason]; t.counts[at] == nil && t.counts[last] != nil && len(t.counts) >= 2*maxCounts {
		return last
	}
	t.keyless[reason] = at
	return at
}

// takes reports whether a refusal becomes a row.
func (t *tally) takes(s *sample, second int64) bool {
	if s.rows >= firstRows && s.last == second {
		return false
	}
	if second > t.second || second < t.second-1 { // notes may come in another order, and a clock may be set back
		t.second, t.inside = second, 0
	}
	if t.inside >= rowsSecond {
		return false
	}
	t.inside++
	s.rows, s.last = s.rows+1, second
	return true
}

// keep adds a row.
func (t *tally) keep(n *Note) {
	row := n.Row
	row.Node, row.Outcome, row.Cost = t.o.Node, usage.Refused, new(usage.Money)
	row.Told = usage.BoundTold(n.Told)
	if len(t.rows) >= maxRows {
		t.rows, t.dropped = t.rows[1:], t.dropped+1
	}
	t.rows = append(t.rows, row)
}

// news returns whether anything was counted since the last call, and how many refusals had no room for their key.
func (t *tally) news() (changed bool, over int64) {
	changed, over = t.changed, t.over
	t.changed, t.over = false, 0
	return changed, over
}

// batch returns the counts that the sink does not have yet. Counts of earlier minutes that the
// sink has are forgotten.
func (t *tally) batch() (b usage.Refusals) {
	for at, c := range t.counts {
		switch {
		case c.total > c.stored:
			b.Counts = append(b.Counts, usage.RefusalCount{Log: at.log, Node: t.o.Node, Org: at.org, Team: at.team, Key: at.key, Reason: at.reason,
				Minute: time.Unix(at.minute*60, 0).UTC(), Count: c.total})
		case at.minute != t.minute || at.log != t.log:
			delete(t.counts, at)
		}
	}
	b.Rows = slices.Clip(t.rows)
	return b
}

// sent records that the sink has a batch. dropped is the number of rows dropped before it.
func (t *tally) sent(b *usage.Refusals, dropped int) {
	for i := range b.Counts {
		c := &b.Counts[i]
		at := place{c.Log, c.Minute.Unix() / 60, c.Org, c.Team, c.Key, c.Reason}
		if own := t.counts[at]; own != nil {
			own.stored = max(own.stored, c.Count)
		}
	}
	t.rows = t.rows[min(len(t.rows), max(0, len(b.Rows)-(t.dropped-dropped))):]
}

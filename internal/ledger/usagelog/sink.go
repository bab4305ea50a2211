package usagelog

import (
	"context"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Producer writes messages to a log.
type Producer interface {
	// Produce writes messages, those of a partition in their order. It returns nil after the log has all of
	// them for good. After an error the log may have some of them.
	Produce(ctx context.Context, messages []Message) error
}

// Store says how much of a gateway's log is stored.
type Store interface {
	Positions(ctx context.Context, log string) (usage.Positions, error)
	// Finish says that a log is complete.
	Finish(ctx context.Context, log string) error
}

// Sink sends the rows of the spool to a log. It is a spool.Follower.
type Sink struct {
	producer   Producer
	store      Store
	partitions int
	key        Key

	mu   sync.Mutex
	logs map[string]*sent
}

const (
	// probeInterval is how often an idle log is compared with what its consumers have.
	probeInterval = 15 * time.Second
	// againInterval is how long rows that were sent again have to arrive.
	againInterval = 10 * time.Second
)

// sent is what was sent of a log.
type sent struct {
	mu     sync.Mutex
	known  bool // positions were read
	direct int64
	to     int64 // position up to which the spool has handed over its rows
	parts  map[int]*part
	probed time.Time
	again  time.Time // when rows were sent again
}

// part is what was sent of a log to a partition.
type part struct {
	last    int64      // position of the last event
	pending [][2]int64 // first and last positions of messages that are not stored, oldest first
}

// NewSink returns a sink. The number of partitions belongs to the log and never changes.
func NewSink(p Producer, s Store, partitions int, key Key) *Sink {
	return &Sink{producer: p, store: s, partitions: partitions, key: key, logs: map[string]*sent{}}
}

func (s *Sink) log(name string) *sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logs[name] == nil {
		s.logs[name] = &sent{}
	}
	return s.logs[name]
}

// Append sends a batch. It returns its end after the log has it.
func (s *Sink) Append(ctx context.Context, b usage.Batch) (have int64, err error) {
	l := s.log(b.Log)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known || b.After < l.to { // the rest of a dead process's log, or rows that are sent again
		at, err := s.store.Positions(ctx, b.Log)
		if err != nil {
			return 0, err
		}
		l.reset(at)
	}
	messages, err := l.messages(&b, s.partitions)
	if err != nil {
		return 0, err
	}
	if len(messages) == 0 {
		messages = l.probes(b.Log)
	}
	for i := range messages {
		messages[i].MAC = s.key.MAC(messages[i].String(), messages[i].Body)
	}
	if len(messages) > 0 {
		if err := s.producer.Produce(ctx, messages); err != nil {
			return 0, err
		}
	}
	l.add(messages, b.To)
	return b.To, nil
}

// reset continues after what is stored.
func (l *sent) reset(at usage.Positions) {
	l.known, l.direct, l.parts, l.to = true, at.Direct, map[int]*part{}, 0
	for _, p := range at.Partitions {
		l.parts[p.Partition] = &part{last: p.Position}
	}
}

// messages returns the messages of a batch, without what its partitions have.
func (l *sent) messages(b *usage.Batch, partitions int) (out []Message, err error) {
	open := map[int]int{} // the last message of each partition
	for i := range b.Rows {
		if b.Rows[i].Outcome == usage.Refused { // the log of refused requests has those that are kept
			continue
		}
		position := b.Positions[i]
		p := partitionOf(b.Rows[i].Org, b.Log, partitions)
		after := int64(0)
		if l.parts[p] != nil {
			after = l.parts[p].last
		}
		if position <= max(after, l.direct) {
			continue
		}
		e := EventOf(b.Log, position, &b.Rows[i])
		line, err := encodeEvent(&e)
		if err != nil {
			return nil, err
		}
		n, ok := open[p]
		if ok {
			after = out[n].To
		}
		if !ok || len(out[n].Body)+len(line) > maxMessage {
			n, open[p] = len(out), len(out)
			out = append(out, Message{Name: Name{b.Log, p, after, after}, first: position})
		}
		out[n].Body, out[n].To = append(out[n].Body, line...), position
	}
	return out, nil
}

// probes returns a message without events for each partition that is not stored. A consumer that has not seen
// what was sent before notices it.
func (l *sent) probes(log string) (out []Message) {
	if time.Since(l.probed) < probeInterval {
		return nil
	}
	l.probed = time.Now()
	for n, p := range l.parts {
		if len(p.pending) > 0 {
			out = append(out, Message{Name: Name{log, n, p.last, p.last}})
		}
	}
	return out
}

// add records that messages were sent.
func (l *sent) add(messages []Message, to int64) {
	l.to = max(l.to, to)
	for i := range messages {
		m := &messages[i]
		if len(m.Body) == 0 {
			continue
		}
		if l.parts[m.Partition] == nil {
			l.parts[m.Partition] = &part{}
		}
		p := l.parts[m.Partition]
		p.last, p.pending = m.To, append(p.pending, [2]int64{m.first, m.To})
		l.probed = time.Now()
	}
}

// Stored returns the position up to which the consumers have stored a log.
func (s *Sink) Stored(ctx context.Context, log string) (position int64, again bool, err error) {
	l := s.log(log)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known {
		return 0, false, nil
	}
	at, err := s.store.Positions(ctx, log)
	if err != nil {
		return 0, false, err
	}
	gap := false
	for _, stored := range at.Partitions {
		p := l.parts[stored.Partition]
		if p == nil {
			continue
		}
		for len(p.pending) > 0 && p.pending[0][1] <= stored.Position {
			p.pending = p.pending[1:]
		}
		gap = gap || len(p.pending) > 0 && stored.Gap > 0
	}
	position = l.to
	for _, p := range l.parts {
		if len(p.pending) > 0 {
			position = min(position, p.pending[0][0]-1)
		}
	}
	if again = gap && time.Since(l.again) > againInterval; again {
		l.again = time.Now()
	}
	return position, again, nil
}

// Finish forgets a log that is complete and stored.
func (s *Sink) Finish(ctx context.Context, log string) error {
	s.mu.Lock()
	delete(s.logs, log)
	s.mu.Unlock()
	return s.store.Finish(ctx, log)
}

// Package refusals counts the requests that the gateway refuses, and samples some of them.
//
// A refused request costs one copy into a buffer. Once a second the buffer becomes totals by minute, key and
// reason, and a few rows. Both are written to a file, so that a process that is killed loses at most that
// second, and sent to a Sink. Keys, rows and the file are bounded, whatever clients send.
package refusals

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Sink stores refusals. Storing a batch twice changes nothing.
type Sink interface {
	AppendRefusals(ctx context.Context, b usage.Refusals) error
}

// Note is a refused request. All texts are copies: a Note is kept for up to a second.
type Note struct {
	At   time.Time // when it was refused
	Row  usage.Row // without outcome, node and cost. Without a key, the owner of Claimed is its key
	Told usage.Told
	// Claimed is the id in a key whose secret was not accepted. The note is dropped if there is no such key.
	Claimed string
}

// Owner is what is known of a key.
type Owner struct{ Org, Team, Person string }

// Options configure a Recorder. A zero value has the default given here.
type Options struct {
	Folder string // of the file
	Node   string
	Log    string // name of this process, which no other process ever uses
	// Owner returns the owner of a key by its id, and whether there is such a key. Default: there is none.
	Owner  func(id string) (Owner, bool)
	Logger *slog.Logger // default: none

	every time.Duration // between two batches: a second
}

const (
	bufferSize  = 512
	sendTimeout = 5 * time.Second
	maxPause    = 10 * time.Second // between two attempts at a sink that fails
)

// Recorder counts and samples refusals. It is safe for concurrent use. A nil Recorder does nothing.
type Recorder struct {
	o Options

	mu     sync.Mutex
	buffer []Note
	spare  []Note // the other buffer; nil while it is tallied

	tallyMu sync.Mutex // held while notes are tallied; acquired after mu is released
	tally   tally

	file   file
	failed bool // the sink failed at the last attempt
	pause  time.Duration
	next   time.Time // of the next attempt
}

// New returns a recorder. Run sends what it records.
func New(o Options) *Recorder {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.every = cmp.Or(o.every, time.Second)
	if o.Owner == nil {
		o.Owner = func(string) (Owner, bool) { return Owner{}, false }
	}
	r := &Recorder{o: o, buffer: make([]Note, 0, bufferSize), spare: make([]Note, 0, bufferSize)}
	r.tally = newTally(&r.o)
	r.file.folder, r.file.own = o.Folder, filepath.Join(o.Folder, filePrefix+o.Log+fileSuffix)
	return r
}

// Add records a refused request. What it does and how long it takes does not depend on whether the key exists. A nil note is none.
func (r *Recorder) Add(n *Note) {
	if r == nil || n == nil {
		return
	}
	r.mu.Lock()
	r.buffer = append(r.buffer, *n)
	full := len(r.buffer) >= bufferSize
	r.mu.Unlock()
	if full {
		r.drain()
	}
}

// drain tallies the notes of the buffer.
func (r *Recorder) drain() {
	r.tallyMu.Lock()
	defer r.tallyMu.Unlock()
	r.mu.Lock()
	notes := r.buffer
	r.buffer, r.spare = r.spare, nil
	r.mu.Unlock()
	for i := range notes {
		r.tally.add(&notes[i])
	}
	clear(notes) // the texts can be collected
	r.mu.Lock()
	r.spare = notes[:0]
	r.mu.Unlock()
}

// Run sends refusals to a sink until ctx ends, and then once more what is left. Files that processes of
// this folder have left are sent too.
func (r *Recorder) Run(ctx context.Context, sink Sink) {
	var keeping sync.WaitGroup
	defer keeping.Wait()
	keeping.Go(func() { crash.Keep(ctx, r.o.Logger, func() { r.keepWriting(ctx) }) })
	tick := time.NewTicker(r.o.every)
	defer tick.Stop()
	for {
		r.adopt(ctx, sink)
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.o.every)
			r.next = time.Time{}
			for range 2 { // the second one removes the file
				r.Flush(last, sink)
			}
			cancel()
			return
		case <-tick.C:
			r.Flush(ctx, sink)
		}
	}
}

// keepWriting writes the file until ctx ends, also while a sink takes its time.
func (r *Recorder) keepWriting(ctx context.Context) {
	tick := time.NewTicker(r.o.every / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.keep()
		}
	}
}

// keep writes what the sink does not have to the file, if there is more than before. It returns that, and how many rows
// were dropped before. If the sink has everything it removes the file.
func (r *Recorder) keep() (b usage.Refusals, dropped int) {
	r.file.mu.Lock()
	defer r.file.mu.Unlock()
	r.drain()
	r.tallyMu.Lock()
	b, dropped = r.tally.batch(), r.tally.dropped
	changed, overflow := r.tally.news()
	r.tallyMu.Unlock()
	if overflow > 0 {
		r.o.Logger.Warn("more keys are refused than are counted by key; the others are counted without their key", "refusals", overflow)
	}
	switch {
	case len(b.Counts)+len(b.Rows) == 0:
		r.file.remove(r.o.Logger)
	case changed:
		r.file.write(&b, r.o.Logger)
	}
	return b, dropped
}

// Flush writes what was recorded to the file and sends it.
func (r *Recorder) Flush(ctx context.Context, sink Sink) {
	batch, dropped := r.keep()
	if len(batch.Counts)+len(batch.Rows) == 0 || time.Now().Before(r.next) {
		return
	}
	if err := send(ctx, sink, batch); err != nil {
		r.pause = min(max(2*r.pause, r.o.every), maxPause)
		r.next = time.Now().Add(r.pause)
		if !r.failed && ctx.Err() == nil {
			r.o.Logger.Warn("refused requests are not stored; they are kept in a file and sent later", "error", err)
		}
		r.failed = true
		return
	}
	if r.failed {
		r.o.Logger.Info("refused requests are stored again")
	}
	r.failed, r.pause, r.next = false, 0, time.Time{}
	r.tallyMu.Lock()
	r.tally.sent(&batch, dropped)
	r.tallyMu.Unlock()
}

// perCall bounds the counts and rows of a call of the sink.
const perCall = 1000

// send sends a batch in parts.
func send(ctx context.Context, sink Sink, b usage.Refusals) error {
	for len(b.Counts)+len(b.Rows) > 0 {
		var part usage.Refusals
		n, m := min(perCall, len(b.Counts)), min(perCall, len(b.Rows))
		part.Counts, b.Counts = b.Counts[:n], b.Counts[n:]
		part.Rows, b.Rows = b.Rows[:m], b.Rows[m:]
		call, cancel := context.WithTimeout(ctx, sendTimeout)
		err := sink.AppendRefusals(call, part)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

package spool

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// others reads the logs of the other processes on this machine. While a new process takes over from an
// old one, both serve requests, and each has to know what the other has reserved and spent.
type others struct {
	dir, own string
	exist    atomic.Bool // there are other logs

	mu   sync.Mutex
	logs map[string]*otherLog // by folder
}

// otherLog is the log of another process, as far as it was read.
type otherLog struct {
	dir      string
	name     string
	seg      uint64
	off      int64
	open     map[string]begun // by request id
	totals   totals
	reserved map[usage.Account]usage.Money
	complete bool // its process is dead and totals has everything
}

const otherInterval = 50 * time.Millisecond

func newOthers(dir, own string) *others {
	return &others{dir: dir, own: own, logs: map[string]*otherLog{}}
}

// find updates the list of logs.
func (o *others) find() {
	list, err := os.ReadDir(o.dir)
	if err != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	found := map[string]bool{}
	for _, entry := range list {
		folder := entry.Name()
		if name, ok := strings.CutPrefix(folder, runPrefix); ok && folder != o.own {
			found[folder] = true
			if o.logs[folder] == nil {
				o.logs[folder] = &otherLog{dir: filepath.Join(o.dir, folder), name: name, open: map[string]begun{}, totals: totals{}, reserved: map[usage.Account]usage.Money{}}
			}
		}
	}
	for folder := range o.logs {
		if !found[folder] {
			delete(o.logs, folder)
		}
	}
	o.exist.Store(len(o.logs) > 0)
}

// totalsOf returns what an account has spent in the other logs, and what is reserved for the
// open requests of other processes.
func (o *others) totalsOf(name string) (all []usage.Total, reserved usage.Money) {
	if !o.exist.Load() {
		return nil, 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	a := usage.AccountOf(name)
	for _, l := range o.logs {
		if !l.complete {
			l.read()
		}
		if s, ok := l.totals[a]; ok {
			all = append(all, usage.Total{Log: l.name, Org: s.org, Account: name, Spent: s.spent})
		}
		reserved += l.reserved[a]
	}
	return all, reserved
}

// adopted sets the totals of a dead process.
func (o *others) adopted(dead *orphan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	folder := filepath.Base(dead.dir)
	o.logs[folder] = &otherLog{name: strings.TrimPrefix(folder, runPrefix), totals: dead.totals, complete: true}
	o.exist.Store(true)
}

// read reads the records that were written since the last call.
func (l *otherLog) read() {
	for {
		next := l.next() // first: a segment that has a successor gets no more records
		switch err := l.readSegment(); {
		case err == nil && (next == l.seg+1 || l.seg == 0 || next == 0):
		case err == nil, errors.Is(err, os.ErrNotExist):
			// A segment was removed before it was read, also if an older one could not be removed. The
			// records of requests that are still open were moved to a later one.
			clear(l.open)
			clear(l.reserved)
		default:
			return
		}
		if next == 0 {
			return
		}
		l.seg, l.off = next, 0
	}
}

// readSegment reads the new records of the current segment. Before the first segment it does nothing.
func (l *otherLog) readSegment() error {
	if l.seg == 0 {
		return nil
	}
	f, err := os.Open(filepath.Join(l.dir, segmentName(l.seg)))
	if err != nil {
		return err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, l.off, 1<<40))
	_ = f.Close()
	if err != nil {
		return err
	}
	for body := openFrame(b); body != nil; body = openFrame(b) {
		l.take(body)
		l.off += int64(frameHead + len(body))
		b = b[frameHead+len(body):]
	}
	return nil
}

// next returns the id of the segment after the current one, 0 if there is none.
func (l *otherLog) next() uint64 {
	follows := func() bool {
		_, err := os.Stat(filepath.Join(l.dir, segmentName(l.seg+1)))
		return l.seg != 0 && err == nil
	}
	if follows() {
		return l.seg + 1
	}
	var ids []uint64
	list, _ := os.ReadDir(l.dir)
	for _, entry := range list {
		if id, ok := segmentID(entry.Name()); ok && id > l.seg {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return 0
	}
	if follows() { // the list may lack a file that was created while it was read, and have a later one
		return l.seg + 1
	}
	return slices.Min(ids)
}

func (l *otherLog) take(body []byte) {
	if len(body) == 0 {
		return
	}
	switch kind(body[0]) {
	case kindBegun:
		if b, err := decodeBegun(body[1:]); err == nil {
			l.close(b.ID) // an opening that was moved appears twice; its grown reservation follows again
			l.open[b.ID] = b
			l.reserve(&b, b.Reserved)
		}
	case kindReserved:
		if r, err := decodeReserved(body[1:]); err == nil {
			if b, ok := l.open[r.id]; ok {
				l.reserve(&b, r.amount-b.Reserved)
				b.Reserved = r.amount
				l.open[r.id] = b
			}
		}
	case kindEnded:
		if r, err := decodeRow(body[1:]); err == nil {
			l.close(r.ID)
			l.totals.raise(&r)
		}
	}
}

func (l *otherLog) close(id string) {
	if b, ok := l.open[id]; ok {
		l.reserve(&b, -b.Reserved)
		delete(l.open, id)
	}
}

func (l *otherLog) reserve(b *begun, amount usage.Money) {
	for _, a := range usage.AccountsOf(b.Key, b.Team, b.Org) {
		if a.Kind == 0 || amount == 0 {
			continue
		}
		if l.reserved[a] += amount; l.reserved[a] == 0 {
			delete(l.reserved, a)
		}
	}
}

package spool

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// mark is the number of a row and the position after it in the files.
type mark struct {
	row int64
	at  position
}

// following removes the rows of this process after the store has them, if the sink is a Follower. A nil
// following means that the sink is no Follower.
type following struct {
	s       *Spool
	to      Follower
	marks   []mark // ends of batches that the sink has and the store does not, oldest first
	checked time.Time
}

// follow returns a following for the sink, nil if the sink is no Follower.
func (s *Spool) follow(to Sink) *following {
	f, ok := to.(Follower)
	if !ok {
		return nil
	}
	markFollowed(s.dir)
	return &following{s: s, to: f}
}

// idle returns how long the drain waits without rows.
func (f *following) idle() time.Duration {
	if f == nil || len(f.marks) == 0 {
		return checkInterval
	}
	return followInterval
}

// sent records that the sink has the rows up to a mark.
func (f *following) sent(m mark) {
	if n := len(f.marks); n > 0 && f.marks[n-1].row == m.row {
		f.marks[n-1] = m
		return
	}
	f.marks = append(f.marks, m)
}

// check removes the rows that the store has, and sets the cursor back if the sink has lost rows.
func (f *following) check(ctx context.Context, at *cursor) {
	if f == nil || len(f.marks) == 0 || time.Since(f.checked) < followInterval {
		return
	}
	f.checked = time.Now()
	c, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	stored, again, err := f.to.Stored(c, f.s.name)
	if err != nil {
		f.s.o.Logger.Debug("it is not known which usage rows the store has", "error", err)
		return
	}
	var last *mark
	for len(f.marks) > 0 && f.marks[0].row <= stored {
		last, f.marks = &f.marks[0], f.marks[1:]
	}
	if last != nil {
		savePosition(f.s.dir, last.at, last.row)
		f.s.sweep(last.at)
	}
	if again {
		f.marks = nil
		f.s.rewind(at, stored)
	}
}

// awaitStored waits until the store has the rows of a folder, if the sink is a Follower. It reports false if
// ctx ended.
func (a *adopter) awaitStored(ctx context.Context, o *orphan) bool {
	if a.follows == nil {
		return true
	}
	total := o.rows + int64(len(o.lost))
	for n := 1; ; n++ {
		c, cancel := context.WithTimeout(ctx, appendTimeout)
		stored, again, err := a.follows.Stored(c, o.name)
		cancel()
		switch {
		case err == nil && stored >= total:
			savePosition(o.dir, position{}, total)
			return true
		case err == nil && again:
			if !a.sendFrom(ctx, o, position{}, stored) {
				return false
			}
		case n%5 == 0: // no progress: an empty batch shows whether the sink has lost rows
			if _, ok := a.sendAfter(ctx, o, position{}, total); !ok {
				return false
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(followInterval):
		}
	}
}

// maySend reports whether the rows of a folder may go to the sink, and closes the folder if not. Rows that were
// sent to a Follower may only go to a Follower: another sink does not know which of them were stored.
func (a *adopter) maySend(o *orphan) bool {
	if a.follows != nil {
		markFollowed(o.dir)
		return true
	}
	if _, err := os.Stat(filepath.Join(o.dir, followedName)); err != nil {
		return true
	}
	if !a.refused[o.dir] {
		a.refused[o.dir] = true
		a.s.o.Logger.Error("usage spool was sent to a log of events; configure usage.sink again until it is empty", "folder", filepath.Base(o.dir))
	}
	_ = o.lock.Close()
	return false
}

func markFollowed(dir string) {
	_ = os.WriteFile(filepath.Join(dir, followedName), nil, 0o600) // a disk that cannot be written fails elsewhere
}

package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of the spool.
var (
	// ErrFull is that the spool has reached its bound: the store has not taken rows for
	// a long time. Requests that matter least should be turned away.
	ErrFull = errors.New("usage: the spool is full; see why the store takes no rows, or raise the bound")
	// ErrClosed is that the spool was closed.
	ErrClosed = errors.New("usage: the spool is closed")
)

// SpoolOptions is where and how usage is kept on disk.
type SpoolOptions struct {
	Dir      string // shared by all processes of a node; each has a folder of its own in it
	Node     string
	Logger   *slog.Logger // default: none
	MaxBytes int64        // of everything in Dir that is known here; default: 1 GiB
	// Sync has each End wait until the row would outlive a loss of power. Without it
	// that takes 10 ms more, and a killed process loses nothing either way.
	Sync bool

	segment int64         // size at which a new segment is begun; default: 8 MiB
	adopt   time.Duration // between two looks for dead processes; default: 5 s
}

// Opening is what is known of a request before anyone is asked.
type Opening struct {
	ID       string
	Node     string // default: the spool's
	Key      string
	Team     string
	Org      string
	Began    time.Time
	Endpoint string
	Dialect  string
	Model    string
	Target   string // the one that is likely to answer
	Stream   bool
	Prompt   int64  // tokens of the prompt, as counted here
	Price    *Price // of the likely target; nil where none is known
}

// Spool keeps on disk what is known of every request, from before its answer until the
// store has its row. Many goroutines may use it.
type Spool struct {
	o    SpoolOptions
	dir  string
	lock *os.File
	ctx  context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup // what Close waits for

	mu       sync.Mutex
	segs     []*segment // oldest first; the last is written to
	slots    slots
	open     []*Entry // by number of slot
	tag      int64    // of the last entry
	closed   bool
	progress chan struct{} // closed at the next acknowledgement
	drained  position      // up to where the sink has the rows
	draining chan struct{} // held by the one Drain that runs

	syncMu   sync.Mutex // held while the disk is waited for; before mu
	synced   int64
	written  int64 // in all segments since the start; with mu
	fresh    bool  // the folder has a file that a loss of power would lose; with mu
	dirty    atomic.Bool
	syncWake chan struct{}

	wake, full chan struct{} // a row came; a batch is full

	bytes, orphaned             atomic.Int64
	begun, ended, acked, oldest atomic.Int64
	failed, corrupt, lost       atomic.Int64
	writes, room, syncs, sink   state
}

// Entry is one request that has begun.
type Entry struct {
	s    *Spool
	id   string
	slot *slot
	n    int64 // of the slot
	done atomic.Bool

	// Where the opening stands; with the spool's mu.
	seg  *segment
	off  int64
	size int
}

const (
	lockName     = "lock"
	slotsName    = "slots"
	positionName = "position"
	runPrefix    = "run-"
	newPrefix    = ".new-"
	oldPrefix    = ".old-"
)

// OpenSpool makes a folder for this process, which no other one touches while it lives.
func OpenSpool(o SpoolOptions) (*Spool, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<30)
	o.segment = cmp.Or(o.segment, 8<<20)
	o.adopt = cmp.Or(o.adopt, 5*time.Second)
	s := &Spool{o: o, progress: make(chan struct{}), draining: make(chan struct{}, 1),
		syncWake: make(chan struct{}, 1), wake: make(chan struct{}, 1), full: make(chan struct{}, 1)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if err := s.make(); err != nil {
		s.stop()
		return nil, fmt.Errorf("usage: the spool: %w", err)
	}
	s.work.Go(s.keepSynced)
	return s, nil
}

// make builds the folder under a name that nobody adopts, and renames it when the lock
// is held and everything is there.
func (s *Spool) make() (err error) {
	name := fmt.Sprintf("%s-%d-%d", url.PathEscape(s.o.Node), os.Getpid(), time.Now().UnixNano())
	temp := filepath.Join(s.o.Dir, newPrefix+name)
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.release()
			_ = os.RemoveAll(temp)
		}
	}()
	if s.lock, err = lock(filepath.Join(temp, lockName)); err != nil {
		return err
	}
	if s.slots.file, err = create(filepath.Join(temp, slotsName)); err != nil {
		return err
	}
	if err = s.slots.grow(); err != nil {
		return err
	}
	s.dir = temp
	if err = s.rotate(); err != nil {
		return err
	}
	s.dir = filepath.Join(s.o.Dir, runPrefix+name)
	return os.Rename(temp, s.dir)
}

// removeFolder takes the folder out of sight first: of one that is half removed, the
// next process would read that requests have begun and not that they have ended.
func removeFolder(dir string) error {
	old := filepath.Join(filepath.Dir(dir), oldPrefix+filepath.Base(dir))
	if err := os.Rename(dir, old); err != nil {
		return err
	}
	return os.RemoveAll(old)
}

func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // a path of our own folder
}

// encoders are kept, with their buffers.
var encoders = sync.Pool{New: func() any { return &encoder{b: make([]byte, 0, 1024)} }}

// record is an encoder with the head of a frame and a kind in it.
func record(k kind) *encoder {
	e := encoders.Get().(*encoder)
	e.b = append(e.b[:0], make([]byte, frameHead)...)
	e.b = append(e.b, byte(k))
	return e
}

// Begin writes down that a request has begun. When it returns, a row of the request
// will be in the ledger, come what may.
func (s *Spool) Begin(o Opening) (*Entry, error) {
	if o.ID == "" {
		return nil, errors.New("usage: a request needs an ID")
	}
	o.Node = cmp.Or(o.Node, s.o.Node)
	rec := record(kindBegun)
	defer encoders.Put(rec)
	rec.opening(&o)
	if len(rec.b) > maxBody {
		return nil, fmt.Errorf("usage: a record of %d bytes is too large", len(rec.b))
	}
	if s.bytes.Load()+s.orphaned.Load() >= s.o.MaxBytes {
		s.failed.Add(1)
		s.room.fail(s.o.Logger, "usage spool is full", ErrFull)
		return nil, ErrFull
	}
	s.room.pass(s.o.Logger, "usage spool has room again")
	e := &Entry{s: s, id: o.ID}
	s.mu.Lock()
	err := s.begin(e, rec)
	s.mu.Unlock()
	if s.wrote(err) != nil {
		return nil, err
	}
	return e, nil
}

// begin has mu.
func (s *Spool) begin(e *Entry, rec *encoder) (err error) {
	if s.closed {
		return ErrClosed
	}
	s.tag++
	if e.n, e.slot, err = s.slots.take(s.tag); err != nil {
		return err
	}
	rec.int(fieldSlot, e.n)
	rec.int(fieldTag, s.tag)
	if err := s.write(rec.b, e); err != nil {
		s.slots.put(e.n)
		return err
	}
	for int64(len(s.open)) <= e.n {
		s.open = append(s.open, nil)
	}
	s.open[e.n] = e
	s.begun.Add(1)
	return nil
}

// Delivered adds to the number of output tokens that were passed on. It costs one
// addition in memory and outlives a kill. It must not run at the same time as End.
func (e *Entry) Delivered(n int64) {
	if e != nil && n > 0 && !e.done.Load() {
		e.slot.count.Add(n)
	}
}

// End writes the row. When it returns, the row is kept whatever becomes of the process.
// Only the first call does something. After an error the entry is open, as if there had
// been no call: it may be tried again, and becomes a lost row if the process ends.
func (e *Entry) End(r Row) error {
	if e == nil || !e.done.CompareAndSwap(false, true) {
		return nil
	}
	s := e.s
	r.ID, r.Node = e.id, cmp.Or(r.Node, s.o.Node)
	rec := record(kindEnded)
	defer encoders.Put(rec)
	rec.row(&r)
	err := error(nil)
	if len(rec.b) > maxBody {
		err = fmt.Errorf("usage: a record of %d bytes is too large", len(rec.b))
	}
	s.mu.Lock()
	if err == nil {
		err = s.end(e, rec)
	}
	pos := s.written
	s.mu.Unlock()
	if s.wrote(err) != nil {
		e.done.Store(false)
		return err
	}
	s.signal(s.ended.Load() - s.acked.Load())
	if s.o.Sync {
		return s.syncTo(pos)
	}
	return nil
}

// end has mu.
func (s *Spool) end(e *Entry, rec *encoder) error {
	if s.closed {
		return ErrClosed
	}
	seg := e.seg
	if err := s.write(rec.b, nil); err != nil {
		return err
	}
	seg.open--
	s.open[e.n] = nil
	s.slots.put(e.n)
	if s.ended.Add(1)-s.acked.Load() == 1 {
		s.oldest.Store(time.Now().UnixNano())
	}
	return nil
}

// Backlog is the state of the spool.
type Backlog struct {
	Open    int64         // requests that have begun and not ended
	Rows    int64         // of this process that the store has not
	Bytes   int64         // on disk, with what dead processes left
	Oldest  time.Duration // age of the oldest of Rows, or somewhat more
	Failed  int64         // calls of Begin and End that could not write
	Corrupt int64         // places on disk that could not be read
	Lost    int64         // rows made for dead processes
}

// Snapshot is the state now.
func (s *Spool) Snapshot() Backlog {
	ended := s.ended.Load()
	b := Backlog{Open: s.begun.Load() - ended, Rows: max(0, ended-s.acked.Load()), Bytes: s.bytes.Load() + s.orphaned.Load(),
		Failed: s.failed.Load(), Corrupt: s.corrupt.Load(), Lost: s.lost.Load()}
	if b.Rows > 0 {
		b.Oldest = max(0, time.Since(time.Unix(0, s.oldest.Load())))
	}
	return b
}

// Close ends Drain and gives the folder back. What the store does not have stays on
// disk for the next process that drains.
func (s *Spool) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.work.Wait()
	err := s.sync()
	s.mu.Lock()
	defer s.mu.Unlock()
	open := s.begun.Load() - s.ended.Load()
	if open == 0 {
		s.slots.close()
	}
	if open == 0 && s.ended.Load() == s.acked.Load() {
		err = errors.Join(err, removeFolder(s.dir))
	}
	s.release()
	return err
}

// release closes the files, the lock last.
func (s *Spool) release() {
	for _, seg := range s.segs {
		_ = seg.file.Close()
	}
	for _, f := range []*os.File{s.slots.file, s.lock} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// state remembers whether something works, so that only changes are logged.
type state struct{ broken atomic.Bool }

func (st *state) fail(logger *slog.Logger, message string, err error) {
	if st.broken.CompareAndSwap(false, true) {
		logger.Error(message, "error", err)
	}
}

func (st *state) pass(logger *slog.Logger, message string) {
	if st.broken.Load() && st.broken.CompareAndSwap(true, false) {
		logger.Info(message)
	}
}

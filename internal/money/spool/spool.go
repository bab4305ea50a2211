package spool

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

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Errors of the spool.
var (
	// ErrFull reports that the spool has reached its maximum size, because the store has not
	// accepted rows for a long time. The caller should reject its least important requests.
	ErrFull = errors.New("usage: the spool is full; find out why the store rejects rows, or raise the limit")
	// ErrClosed reports that the spool was closed.
	ErrClosed = errors.New("usage: the spool is closed")
)

// Options configure a spool.
type Options struct {
	Dir      string // shared by all processes of a node; each has its own folder in it
	Node     string
	Logger   *slog.Logger // default: none
	MaxBytes int64        // of all known folders in Dir; default: 1 GiB
	// Sync makes End wait until the row survives a power loss. Without Sync a power loss can lose the rows
	// of the last 10 ms. A killed process loses nothing either way.
	Sync bool
	// Keep is how long rows stay on disk after the store has them, up to 64 MiB. A store that
	// has lost rows, such as a promoted standby, gets them again. Default: 15 minutes; negative: not
	// at all.
	Keep time.Duration

	segmentSize   int64         // default: 8 MiB
	adoptInterval time.Duration // between searches for dead processes; default: 5 s
}

// Opening is what is known of a request before an upstream is called.
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
	Target   string // the first candidate
	Stream   bool
	Prompt   int64        // estimated tokens of the prompt
	Price    *usage.Price // of Target; nil: unknown
	Reserved usage.Money  // from the budgets of its accounts
	usage.Client
	usage.Labels
}

// Spool stores the usage of every request on disk, from before its response until the store has its
// row. It is the log of one process; the ledger and the counters of budgets follow from it. It is
// safe for concurrent use.
type Spool struct {
	o    Options
	dir  string
	name string // of the log
	lock *os.File
	ctx  context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup // goroutines that Close waits for

	mu        sync.Mutex
	segs      []*segment // oldest first; the last is written to
	slots     slots
	open      []*Entry // open requests, by slot number
	unwritten []*Entry // open requests whose row could not be written, oldest first
	tag       int64    // tag of the last entry
	totals    totals   // of this log
	others    *others  // logs of other processes in Dir
	closed    bool
	progress  chan struct{} // closed at the next acknowledgement
	drained   position      // end of the rows that the sink has
	draining  chan struct{} // held by the running Drain
	counters  Counters      // of the running Drain

	syncMu   sync.Mutex // held during a sync; acquired before mu
	synced   int64
	written  int64 // bytes written since the start; guarded by mu
	fresh    bool  // a new file is not synced to its folder yet; guarded by mu
	dirty    atomic.Bool
	syncWake chan struct{}

	wake, full chan struct{} // a row was written; a batch is full

	bytes, orphaned             atomic.Int64
	begun, ended, acked, oldest atomic.Int64
	failed, corrupt, lost       atomic.Int64
	writes, space, syncs, sink  healthState
}

// Entry is a request that has begun.
type Entry struct {
	s    *Spool
	id   string
	slot *slot
	n    int64 // slot number
	done atomic.Bool

	// guarded by the spool's mu
	seg     *segment // segment of the opening
	off     int64
	size    int
	counted bool        // the totals include the request
	row     *usage.Row  // to be written later; nil: none
	grown   usage.Money // the reservation after it grew; 0: it did not
}

const (
	lockName     = "lock"
	slotsName    = "slots"
	positionName = "position"
	countedName  = "counted"  // the counters have everything
	followedName = "followed" // rows were sent to a Follower
	runPrefix    = "run-"
	newPrefix    = ".new-"
	oldPrefix    = ".old-"
)

// Open creates a spool with a folder that only this process uses while it runs.
func Open(o Options) (*Spool, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<30)
	o.segmentSize = cmp.Or(o.segmentSize, 8<<20)
	o.adoptInterval = cmp.Or(o.adoptInterval, 5*time.Second)
	o.Keep = cmp.Or(o.Keep, 15*time.Minute)
	s := &Spool{o: o, totals: totals{}, progress: make(chan struct{}), draining: make(chan struct{}, 1),
		syncWake: make(chan struct{}, 1), wake: make(chan struct{}, 1), full: make(chan struct{}, 1)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if err := s.createFolder(); err != nil {
		s.stop()
		return nil, fmt.Errorf("usage: the spool: %w", err)
	}
	s.others = newOthers(o.Dir, filepath.Base(s.dir))
	s.others.find()
	s.work.Go(s.syncLoop)
	s.work.Go(s.findLoop)
	return s, nil
}

// findLoop looks for the logs of other processes, and writes rows that could not be written before.
func (s *Spool) findLoop() {
	tick := time.NewTicker(otherInterval)
	defer tick.Stop()
	var last time.Time
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		s.writeLate()
		// The time of the folder changes when a process creates or removes its own.
		if info, err := os.Stat(s.o.Dir); err == nil && !info.ModTime().Equal(last) {
			last = info.ModTime()
			s.others.find()
		}
	}
}

// createFolder builds the folder under a name that other processes ignore, and renames it when it
// is locked and complete.
func (s *Spool) createFolder() (err error) {
	s.name = fmt.Sprintf("%s-%d-%d", url.PathEscape(s.o.Node), os.Getpid(), time.Now().UnixNano())
	temp := filepath.Join(s.o.Dir, newPrefix+s.name)
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
	s.dir = filepath.Join(s.o.Dir, runPrefix+s.name)
	return os.Rename(temp, s.dir)
}

// removeFolder renames the folder before removing it. Otherwise another process could read a partially
// removed folder and take ended requests for lost ones.
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

// writers pools codecs that write, with their buffers.
var writers = sync.Pool{New: func() any { return &codec{b: make([]byte, 0, 1024)} }}

// record returns a codec with space for a frame header, and a kind.
func record(k kind) *codec {
	e := writers.Get().(*codec)
	e.b = append(e.b[:0], make([]byte, frameHead)...)
	e.b = append(e.b, byte(k))
	return e
}

// Begin records that a request has begun. After it returns, the request gets a row in the ledger
// even if the process dies.
func (s *Spool) Begin(o Opening) (*Entry, error) {
	if o.ID == "" {
		return nil, errors.New("usage: a request needs an ID")
	}
	o.Node = cmp.Or(o.Node, s.o.Node)
	rec := record(kindBegun)
	defer writers.Put(rec)
	rec.opening(&o)
	if len(rec.b) > maxBody {
		return nil, fmt.Errorf("usage: a record of %d bytes is too large", len(rec.b))
	}
	if s.bytes.Load()+s.orphaned.Load() >= s.o.MaxBytes {
		s.failed.Add(1)
		s.space.fail(s.o.Logger, "usage spool is full", ErrFull)
		return nil, ErrFull
	}
	s.space.pass(s.o.Logger, "usage spool has space again")
	e := &Entry{s: s, id: o.ID}
	s.mu.Lock()
	err := s.begin(e, rec)
	s.mu.Unlock()
	if s.recordWrite(err) != nil {
		return nil, err
	}
	return e, nil
}

// begin writes the opening. The caller holds mu.
func (s *Spool) begin(e *Entry, rec *codec) (err error) {
	if s.closed {
		return ErrClosed
	}
	s.tag++
	if e.n, e.slot, err = s.slots.acquire(s.tag); err != nil {
		return err
	}
	rec.place(&e.n, &s.tag)
	err = s.segs[len(s.segs)-1].reserve(s.begun.Load() - s.ended.Load() + 2) // space for this row, and for its opening
	if err == nil {
		err = s.write(rec.b, e)
	}
	if err != nil {
		s.slots.release(e.n)
		return err
	}
	for int64(len(s.open)) <= e.n {
		s.open = append(s.open, nil)
	}
	s.open[e.n] = e
	s.begun.Add(1)
	return nil
}

// Delivered adds to the number of delivered output tokens. It is one addition in memory, and
// survives a kill. It must not run concurrently with End.
func (e *Entry) Delivered(n int64) {
	if e != nil && n > 0 && !e.done.Load() {
		e.slot.count.Add(n)
	}
}

// Reserve records that the reservation of the request has grown to an amount.
func (e *Entry) Reserve(amount usage.Money) {
	if e == nil || e.done.Load() {
		return
	}
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	e.grown = amount
	e.writeGrown()
}

// writeGrown writes the record of a reservation that has grown. The caller holds mu.
func (e *Entry) writeGrown() {
	rec := record(kindReserved)
	defer writers.Put(rec)
	rec.reserved(&reserved{e.id, e.grown})
	_ = e.s.write(rec.b, nil) // only another process of this machine needs it
}

// End writes the row and returns the totals of its accounts. After it returns, the row survives the
// process. Only the first successful call counts. After an error the entry is still open: call End again,
// or EndLater. If the process ends first, the request becomes a lost row.
func (e *Entry) End(r usage.Row) (usage.Totals, error) {
	if e == nil || !e.done.CompareAndSwap(false, true) {
		return usage.Totals{}, nil
	}
	s := e.s
	r.ID, r.Node = e.id, cmp.Or(r.Node, s.o.Node)
	rec := record(kindEnded)
	defer writers.Put(rec)
	rec.row(&r)
	s.mu.Lock()
	sums, err := s.end(e, &r, rec)
	pos := s.written
	s.mu.Unlock()
	if s.recordWrite(err) != nil {
		e.done.Store(false)
		return sums, err
	}
	s.wakeDrain(s.ended.Load() - s.acked.Load())
	if s.o.Sync {
		return sums, s.syncTo(pos)
	}
	return sums, nil
}

// EndLater writes the row as soon as the disk can be written. It is for a row that End could not
// write.
func (e *Entry) EndLater(r usage.Row) {
	if e == nil || !e.done.CompareAndSwap(false, true) {
		return
	}
	s := e.s
	r.ID, r.Node = e.id, cmp.Or(r.Node, s.o.Node)
	s.mu.Lock()
	defer s.mu.Unlock()
	e.row = &r
	s.unwritten = append(s.unwritten, e)
}

// end writes the row r, which rec has encoded. The caller holds mu.
func (s *Spool) end(e *Entry, r *usage.Row, rec *codec) (sums usage.Totals, err error) {
	cost := r.Charged()
	if e.counted { // by an earlier call that failed
		cost = 0
	}
	sums, e.counted = s.totals.add(r, cost), true
	if s.closed {
		return sums, ErrClosed
	}
	seg := e.seg
	if err := s.writeRow(rec, r, sums); err != nil {
		return sums, err
	}
	seg.open--
	s.open[e.n] = nil
	s.slots.release(e.n)
	if s.ended.Add(1)-s.acked.Load() == 1 {
		s.oldest.Store(time.Now().UnixNano())
	}
	return sums, nil
}

// writeRow writes the record of a row, without the attempts if they are too large for a record or for
// the disk. The caller holds mu.
func (s *Spool) writeRow(rec *codec, r *usage.Row, sums usage.Totals) error {
	position := s.ended.Load() + 1
	rec.positionAndTotals(&position, &sums)
	if len(rec.b) <= maxBody {
		if err := s.write(rec.b, nil); err == nil || len(rec.b) <= endSpace {
			return err
		}
	}
	short := record(kindEnded)
	defer writers.Put(short)
	row := *r
	row.Attempts = nil
	short.row(&row)
	short.positionAndTotals(&position, &sums)
	return s.write(short.b, nil)
}

// writeLate writes the rows that were passed to EndLater.
func (s *Spool) writeLate() {
	s.mu.Lock()
	if len(s.unwritten) == 0 {
		s.mu.Unlock()
		return
	}
	var err error
	for len(s.unwritten) > 0 && err == nil {
		e, rec := s.unwritten[0], record(kindEnded)
		rec.row(e.row)
		if _, err = s.end(e, e.row, rec); err == nil {
			e.row, s.unwritten = nil, s.unwritten[1:]
		}
		writers.Put(rec)
	}
	s.mu.Unlock()
	if s.recordWrite(err) == nil {
		s.wakeDrain(s.ended.Load() - s.acked.Load())
	}
}

// Unrecorded adds a request without an entry to the totals of its accounts, and returns these totals.
func (s *Spool) Unrecorded(r usage.Row) usage.Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.totals.add(&r, r.Charged())
}

// Name returns the name of the log, which no other process uses.
func (s *Spool) Name() string { return s.name }

// Spent returns what an account has spent in each log on this machine, and what other processes
// have reserved for it.
func (s *Spool) Spent(account string) (logs []usage.Total, reserved usage.Money) {
	logs, reserved = s.others.totalsOf(account)
	s.mu.Lock()
	defer s.mu.Unlock()
	if own, ok := s.totals[usage.AccountOf(account)]; ok {
		logs = append(logs, usage.Total{Log: s.name, Org: own.org, Account: account, Spent: own.spent})
	}
	return logs, reserved
}

// Shared reports whether another process on this machine has a log, or had one that is not
// removed yet.
func (s *Spool) Shared() bool { return s.others.exist.Load() }

// Backlog is the state of the spool.
type Backlog struct {
	Open    int64         // requests that have begun and not ended
	Rows    int64         // ended requests of this process that the store does not have
	Bytes   int64         // on disk, including folders of dead processes
	Oldest  time.Duration // age of the oldest of Rows, or slightly more
	Failed  int64         // failed calls of Begin and End
	Corrupt int64         // corrupt places on disk
	Lost    int64         // rows created for dead processes
}

// Snapshot returns the current state.
func (s *Spool) Snapshot() Backlog {
	ended := s.ended.Load()
	b := Backlog{Open: s.begun.Load() - ended, Rows: max(0, ended-s.acked.Load()), Bytes: s.bytes.Load() + s.orphaned.Load(),
		Failed: s.failed.Load(), Corrupt: s.corrupt.Load(), Lost: s.lost.Load()}
	if b.Rows > 0 {
		b.Oldest = max(0, time.Since(time.Unix(0, s.oldest.Load())))
	}
	return b
}

// Close ends Drain and releases the folder. Rows that the store or the counters do not have stay on
// disk for the next process, and so do all rows for the time of Keep.
func (s *Spool) Close() error {
	s.writeLate()
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
	switch counted := s.counted().After(time.Now().Add(-time.Second)); {
	case open > 0:
	case s.ended.Load() == 0, s.o.Keep < 0 && counted && s.ended.Load() == s.acked.Load():
		err = errors.Join(err, removeFolder(s.dir))
	case counted:
		err = errors.Join(err, os.WriteFile(filepath.Join(s.dir, countedName), nil, 0o600))
	}
	for _, seg := range s.segs {
		seg.trim()
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

// healthState tracks whether something works, so that only changes are logged.
type healthState struct{ broken atomic.Bool }

func (st *healthState) fail(logger *slog.Logger, message string, err error) {
	if st.broken.CompareAndSwap(false, true) {
		logger.Error(message, "error", err)
	}
}

func (st *healthState) pass(logger *slog.Logger, message string) {
	if st.broken.Load() && st.broken.CompareAndSwap(true, false) {
		logger.Info(message)
	}
}

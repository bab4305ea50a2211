package discover

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
)

// etcdSource lists the workers and watches them from that revision. It verifies the
// watch: watches of etcd have lost events and gone back in time.
type etcdSource struct{ *etcd }

// Etcd returns the source of workers that register under a lease.
func Etcd(o EtcdOptions) (Source, error) {
	e, err := newEtcd(o)
	if err != nil {
		return nil, err
	}
	return etcdSource{e}, nil
}

func (s etcdSource) Name() string { return s.o.Name }

// calm is how long after an error the end of a worker's lease is not trusted: an etcd
// that stood still ends the leases of healthy workers.
const calm = 30 * time.Second

// Watch runs one session after another.
func (s etcdSource) Watch(ctx context.Context, tell func(Change)) {
	var trouble time.Time
	s.use(ctx, func(c *clientv3.Client) {
		var unlisted failures // sessions without a list
		for ctx.Err() == nil {
			w := &watching{etcd: s.etcd, client: c, tell: tell, trouble: trouble}
			err := w.run(ctx)
			if ctx.Err() != nil {
				return
			}
			if !errors.Is(err, errAgain) || errors.Is(err, errHistory) {
				trouble = time.Now()
			}
			if errors.Is(err, errAgain) {
				s.o.Logger.Info("the workers in etcd are listed again", "why", err.Error())
				continue
			}
			tell(Change{Stale: true, Err: err})
			if w.seen > 0 {
				unlisted = 0
			} else {
				err = unlisted.add(err)
			}
			if needsNewClient(err) {
				return
			}
			pause(ctx, retryMost)
		}
	})
}

var (
	// errAgain ends a session that is restarted at once.
	errAgain = errors.New("the list differs from the watch")
	// errHistory means that etcd was emptied or restored to an older state.
	errHistory = errors.New("etcd has another history")
)

// watching is one session: a list and the watch that follows it.
type watching struct {
	*etcd
	client  *clientv3.Client
	tell    func(Change)
	trouble time.Time // when etcd last failed; zero: never

	known   map[string]int64 // the revision of each key
	seen    int64            // the latest revision that was processed
	cut     bool             // etcd has more keys than are read
	cluster uint64
	doubt   struct { // a key that differed at the last pulse
		key string
		rev int64
	}
}

// run runs the session and returns why it ended.
func (w *watching) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := w.list(ctx); err != nil {
		return err
	}
	relist := time.NewTimer(jitter(w.o.Relist))
	defer relist.Stop()
	pulse := time.NewTicker(w.o.Pulse)
	defer pulse.Stop()
	for {
		err := w.follow(ctx, relist, pulse)
		if err != nil {
			return err
		}
		if err := w.compare(ctx); err != nil {
			return err
		}
		relist.Reset(jitter(w.o.Relist))
	}
}

// jitter returns d, ±20 %.
func jitter(d time.Duration) time.Duration { return d - d/5 + rand.N(2*d/5+1) } //nolint:gosec // not a secret

// list reads all workers, page by page at one revision.
func (w *watching) list(ctx context.Context) error {
	w.known = map[string]int64{}
	b := batch{Change: Change{All: true, At: time.Now(), Shaken: w.shaken()}}
	rev, err := w.pages(ctx, 0, nil, func(kv *mvccpb.KeyValue) {
		w.known[string(kv.Key)] = kv.ModRevision
		w.read(&b, kv)
	})
	if err != nil {
		return err
	}
	w.seen, b.Revision = rev, rev
	w.tell(b.Change)
	return nil
}

// pages reads all keys at a revision. 0 means the latest, which it returns.
func (w *watching) pages(ctx context.Context, rev int64, opts []clientv3.OpOption, each func(*mvccpb.KeyValue)) (int64, error) {
	from, end := w.workers(), clientv3.GetPrefixRangeEnd(w.workers())
	for n, limit := 0, int64(pageSize); ; {
		page, err := w.page(ctx, from, append([]clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(limit), clientv3.WithRev(rev)}, opts...))
		if err != nil && limit > smallPage && strings.Contains(err.Error(), "larger than max") {
			limit = smallPage
			continue
		}
		if err != nil {
			return 0, err
		}
		limit = pageSize
		if rev == 0 {
			rev, w.cluster = page.Header.Revision, page.Header.ClusterId
		}
		for _, kv := range page.Kvs {
			if w.named(kv) {
				each(kv)
			}
		}
		if n += len(page.Kvs); !page.More || len(page.Kvs) == 0 {
			w.cut = false
			return rev, nil
		}
		if n >= maxKeys { // the rest would be rejected
			w.o.Logger.Error("etcd has more workers than are taken", "limit", maxWorkers)
			w.cut = true
			return rev, nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

// maxKeys is the maximum number of keys that are read.
const maxKeys = 101_000 // maxWorkers and a page

// named reports whether a key is short enough to be that of a worker.
func (w *watching) named(kv *mvccpb.KeyValue) bool { return len(w.id(kv)) <= maxText }

func (w *watching) page(ctx context.Context, from string, opts []clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	resp, err := w.client.Get(ctx, from, opts...)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	return resp, nil
}

// compare reads the keys at the revision that the watch has reached. They must be
// identical; if not, the watch has lost an event. The watch is then restarted from
// there, which also repairs one that is stuck.
func (w *watching) compare(ctx context.Context) error {
	same, n := true, 0
	_, err := w.pages(ctx, w.seen, []clientv3.OpOption{clientv3.WithKeysOnly()}, func(kv *mvccpb.KeyValue) {
		n++
		same = same && w.known[string(kv.Key)] == kv.ModRevision
	})
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return fmt.Errorf("%w: it is compacted past the watch", errAgain)
	case errors.Is(err, rpctypes.ErrFutureRev):
		return fmt.Errorf("%w: %w", errAgain, errHistory)
	case err != nil:
		return err
	case w.cut: // the watch knows other keys than the first
		return nil
	case !same || n != len(w.known):
		return fmt.Errorf("%w: the watch has lost events", errAgain)
	}
	return nil
}

// follow processes events until the next comparison.
func (w *watching) follow(ctx context.Context, relist *time.Timer, pulse *time.Ticker) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Progress notifications only keep the stream active. They do not advance the
	// revision: servers have sent them before the events that they cover.
	// Watch waits until etcd confirms the watch, without a limit.
	var events clientv3.WatchChan
	opened, from := make(chan clientv3.WatchChan, 1), w.seen+1
	calls.Go(func() {
		opened <- w.client.Watch(clientv3.WithRequireLeader(ctx), w.workers(),
			clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithProgressNotify(), clientv3.WithFragment())
	})
	pulses := make(chan beat, 1)
	beating := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-relist.C:
			return nil
		case events = <-opened:
		case r, ok := <-events:
			if err := w.take(r, ok); err != nil {
				return err
			}
		case <-pulse.C:
			if !beating {
				beating = true
				key, seen := w.any(), w.seen
				calls.Go(func() {
					b := beat{err: crash.ErrPanic}
					crash.Do(w.o.Logger, func() { b = w.beat(ctx, key, seen) })
					pulses <- b
				})
			}
		case b := <-pulses:
			beating = false
			if err := w.judge(b); err != nil {
				return err
			}
		}
	}
}

// take processes the events of one response.
func (w *watching) take(r clientv3.WatchResponse, ok bool) error {
	switch err := r.Err(); {
	case !ok:
		return errors.New("the watch has ended")
	case errors.Is(err, rpctypes.ErrCompacted), r.CompactRevision != 0:
		return fmt.Errorf("%w: it is compacted past the watch", errAgain)
	case err != nil:
		return fmt.Errorf("watch: %w", err)
	}
	together := map[int64]int{} // number of keys deleted at one revision
	for _, e := range r.Events {
		if e.Type == clientv3.EventTypeDelete {
			together[e.Kv.ModRevision]++
		}
	}
	b := batch{Change: Change{At: time.Now(), Shaken: w.shaken()}}
	for _, e := range r.Events {
		if e.Kv.ModRevision < w.seen || !w.named(e.Kv) {
			continue // an older revision, or no worker
		}
		if id := w.id(e.Kv); b.has(id) {
			w.tell(b.Change)
			b = batch{Change: Change{At: b.At, Shaken: b.Shaken}}
		}
		w.seen = e.Kv.ModRevision
		b.Revision = w.seen
		w.event(&b, e, together[e.Kv.ModRevision] > 1)
	}
	if len(b.ids) > 0 {
		w.tell(b.Change)
	}
	return nil
}

// batch is a change with at most one statement about each worker.
type batch struct {
	Change
	ids map[string]struct{}
}

func (b *batch) has(id string) bool { _, ok := b.ids[id]; return ok }

func (b *batch) note(id string) {
	if b.ids == nil {
		b.ids = map[string]struct{}{}
	}
	b.ids[id] = struct{}{}
}

func (w *watching) id(kv *mvccpb.KeyValue) string {
	return strings.TrimPrefix(string(kv.Key), w.workers())
}

// shaken reports whether etcd failed recently.
func (w *watching) shaken() bool { return !w.trouble.IsZero() && time.Since(w.trouble) < calm }

func (w *watching) event(b *batch, e *clientv3.Event, bulk bool) {
	if e.Type == clientv3.EventTypePut {
		if _, known := w.known[string(e.Kv.Key)]; !known && len(w.known) >= maxKeys {
			return // it would be rejected
		}
		w.known[string(e.Kv.Key)] = e.Kv.ModRevision
		w.read(b, e.Kv)
		return
	}
	id := w.id(e.Kv)
	b.note(id)
	delete(w.known, string(e.Kv.Key))
	if bulk || w.shaken() {
		b.Lost = append(b.Lost, id)
	} else {
		b.Left = append(b.Left, id)
	}
}

// read adds the worker of a key.
func (w *watching) read(b *batch, kv *mvccpb.KeyValue) {
	id := w.id(kv)
	b.note(id)
	worker, err := parse(id, kv.Value)
	if err == nil {
		b.Put = append(b.Put, worker)
		return
	}
	if b.Bad == nil {
		b.Bad = map[string]error{}
	}
	b.Bad[id] = err
}

func parse(id string, value []byte) (Worker, error) {
	if len(value) > maxValue {
		return Worker{}, fmt.Errorf("its value has more than %d bytes", maxValue)
	}
	var w Worker
	if err := json.Unmarshal(value, &w); err != nil {
		return Worker{}, fmt.Errorf("its value is not the JSON of a worker: %w", err)
	}
	if max(len(w.Model), len(w.Name), len(w.Protocol), len(w.Engine), len(w.Zone)) > maxText || len(w.URL) > maxURL {
		return Worker{}, errors.New("its fields are too long") // bound the memory before the worker is checked
	}
	if w.ID != id {
		return Worker{}, fmt.Errorf("its id is %.80q, but its key ends in another", w.ID)
	}
	return w, nil
}

package discover

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// beat is the answer to a pulse: what one key is now.
type beat struct {
	key      string
	rev      int64 // of the key; 0: it is not there
	revision int64 // of etcd
	seen     int64 // what the watch had reached when it was asked
	cluster  uint64
	err      error
}

// any is some key that is known, or the prefix if none is. Maps begin anywhere.
func (w *watching) any() string {
	for key := range w.known {
		return key
	}
	return w.workers()
}

// beat asks etcd for one key. It costs next to nothing and tells a watch that is
// quiet from a watch whose etcd is frozen, has no leader, or is not the one that
// it was: a watch from a revision that a new history has not reached is silent.
func (w *watching) beat(ctx context.Context, key string, seen int64) beat {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	resp, err := w.client.Get(ctx, key, clientv3.WithKeysOnly())
	if err != nil {
		return beat{err: fmt.Errorf("pulse: %w", err)}
	}
	b := beat{key: key, seen: seen, revision: resp.Header.Revision, cluster: resp.Header.ClusterId}
	if len(resp.Kvs) > 0 {
		b.rev = resp.Kvs[0].ModRevision
	}
	return b
}

// judge compares a beat with what the watch said. A key may be another than it
// should for a moment, while its event is under way; at the next pulse it may not.
func (w *watching) judge(b beat) error {
	switch {
	case b.err != nil:
		return b.err
	case b.revision < b.seen, b.cluster != w.cluster:
		return fmt.Errorf("%w: %w", errAgain, errHistory)
	}
	if rev, ok := w.known[w.doubt.key]; ok && rev == w.doubt.rev {
		return fmt.Errorf("%w: %w, or the watch has lost events", errAgain, errHistory)
	}
	w.doubt.key = ""
	if rev, ok := w.known[b.key]; ok && rev != b.rev {
		w.doubt.key, w.doubt.rev = b.key, rev
	}
	return nil
}

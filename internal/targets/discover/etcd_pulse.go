package discover

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// beat is the response to a pulse: the state of one key.
type beat struct {
	key      string
	rev      int64 // of the key; 0: it does not exist
	revision int64 // of etcd
	seen     int64 // the revision of the watch when the pulse was sent
	cluster  uint64
	err      error
}

// any returns some known key, or the prefix if there is none.
func (w *watching) any() string {
	for key := range w.known {
		return key
	}
	return w.workers()
}

// beat reads one key from etcd. It is cheap, and distinguishes an idle watch from one
// whose etcd is frozen, has no leader or was replaced: a watch from a revision that a
// new history has not reached stays silent.
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

// judge compares a beat with the state of the watch. A key may differ once, while its
// event is on its way, but not at the next pulse.
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

package discover

import (
	"context"
	"time"
)

// Source reports workers. Etcd, File, DNS and Local return one.
type Source interface {
	// Name is the prefix of its workers' ids. It contains no slash.
	Name() string
	// Watch reports all workers and then changes, until the context ends. If the source
	// does not respond it reports Stale and tries again; no error ends it.
	Watch(ctx context.Context, tell func(Change))
}

// Change is a report of a source. It holds differences, because ten thousand workers
// that register one by one are ten thousand changes, and because it matters how a
// worker disappeared.
type Change struct {
	All  bool             // Put is the complete list
	Put  []Worker         // new or changed workers
	Left []string         // ids that disappeared one by one, by deregistration or the end of a lease
	Lost []string         // ids that disappeared in any other way: many at once, or after an error
	Bad  map[string]error // ids whose entries are invalid, and why

	Revision int64     // of the source; 0 if it has none
	At       time.Time // when the source responded
	Stale    bool      // the source does not respond; all other fields but Err are ignored
	Err      error     // why it does not respond; nil: the source logs it itself
	Shaken   bool      // the source failed recently: keep lost workers until it has confirmed their absence for a while
}

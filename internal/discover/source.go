package discover

import (
	"context"
	"time"
)

// Source says which workers there are. Etcd, File, DNS and Local make one.
type Source interface {
	// Name stands before the ids of its workers. It has no slash.
	Name() string
	// Watch tells what there is, and then what has changed, until the context
	// ends. A source that cannot be asked says so with Stale and is asked again:
	// there is no error that ends it.
	Watch(ctx context.Context, tell func(Change))
}

// Change is what a source has to say. It holds differences and not everything:
// ten thousand workers that register at once are ten thousand small changes, and
// who leaves leaves in a way that matters.
type Change struct {
	All  bool             // Put is everything that there is
	Put  []Worker         // new, or changed
	Left []string         // ids that went one by one, each by its own will or its own lease
	Lost []string         // ids that went in any other way: many in one stroke, or after trouble
	Bad  map[string]error // ids that are there and cannot be read, and why

	Revision int64     // the source's own; 0 where it has none
	At       time.Time // when the source said so
	Stale    bool      // the source does not answer; nothing else in the change counts
	Shaken   bool      // the source was in trouble lately: whoever is lost is kept until it has said so for a while
}

package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/bounds"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
)

// Node is a gateway process that uses the store.
type Node struct {
	ID       string // of the process
	Name     string // of the node
	Version  string
	Started  time.Time
	Seen     time.Time     // by its own clock
	Stopped  time.Time     // zero: it did not say so
	Config   string        // digest of its configuration
	Loaded   time.Time     // when the configuration was loaded
	Refused  time.Time     // when a reload was refused; zero: the last one was not
	Open     int64         // requests
	Waiting  int64         // rows that are not in the ledger yet
	Oldest   time.Duration // age of the oldest of them
	Captured bool          // a capture is attached
}

// Limits of what is known of nodes.
const (
	maxNodes       = 1000
	maxNodeConfigs = 20
	maxConfigText  = 256 << 10
	nodeTTL        = 24 * time.Hour // after it was last seen
)

const nodeColumns = `id, name, version, started, seen, stopped, config, loaded, refused, open, waiting, oldest, captured`

// AddNode adds a process. It removes the processes of the same node that have stopped, and those that
// were not seen for a day.
func (s *Store) AddNode(ctx context.Context, n Node, text string) error {
	return s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		if err := c.Exec(ctx, `DELETE FROM nodes WHERE name = $1 AND stopped > 0 OR seen < $2`, bounds.Text(n.Name), nanos(n.Seen.Add(-nodeTTL))); err != nil {
			return err
		}
		if err := c.Exec(ctx, `DELETE FROM nodes WHERE id IN (SELECT id FROM nodes ORDER BY seen DESC, id LIMIT $1 OFFSET $2)`, int64(maxNodes), int64(maxNodes-1)); err != nil {
			return err
		}
		return putNode(ctx, c, n, text)
	})
}

// UpdateNode writes the state of a process again. The text is that of a configuration that the store
// may not have; empty if it has it.
func (s *Store) UpdateNode(ctx context.Context, n Node, text string) error {
	return s.db.Write(ctx, func(ctx context.Context, c db.Conn) error { return putNode(ctx, c, n, text) })
}

func putNode(ctx context.Context, c db.Conn, n Node, text string) error {
	args := []any{bounds.Text(n.ID), bounds.Text(n.Name), bounds.Text(n.Version), nanos(n.Started), nanos(n.Seen), nanos(n.Stopped), bounds.Text(n.Config), nanos(n.Loaded), nanos(n.Refused),
		n.Open, n.Waiting, int64(n.Oldest), n.Captured}
	if err := c.Exec(ctx, `INSERT INTO nodes (`+nodeColumns+`) VALUES `+db.Placeholders(1, len(args))+` ON CONFLICT (id) DO UPDATE SET
		seen = excluded.seen, stopped = excluded.stopped, config = excluded.config, loaded = excluded.loaded, refused = excluded.refused, open = excluded.open,
		waiting = excluded.waiting, oldest = excluded.oldest, captured = excluded.captured`, args...); err != nil {
		return err
	}
	if text == "" || len(text) > maxConfigText {
		return c.Exec(ctx, `UPDATE node_configs SET seen = $1 WHERE digest = $2 AND seen < $1`, nanos(n.Seen), bounds.Text(n.Config))
	}
	if err := c.Exec(ctx, `DELETE FROM node_configs WHERE digest IN (SELECT digest FROM node_configs WHERE digest <> $1 ORDER BY seen DESC, digest LIMIT $2 OFFSET $3)`,
		bounds.Text(n.Config), int64(maxNodes), int64(maxNodeConfigs-1)); err != nil {
		return err
	}
	return c.Exec(ctx, `INSERT INTO node_configs (digest, text, seen) VALUES ($1, $2, $3) ON CONFLICT (digest) DO UPDATE SET seen = excluded.seen`,
		bounds.Text(n.Config), bounds.TextTo(text, maxConfigText), nanos(n.Seen))
}

// Nodes returns the processes that are known, by name, the latest first.
func (s *Store) Nodes(ctx context.Context) (list []Node, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		list = nil
		return c.Rows(ctx, func(row db.Scan) error {
			var n Node
			var started, seen, stopped, loaded, refused, oldest int64
			if err := row(&n.ID, &n.Name, &n.Version, &started, &seen, &stopped, &n.Config, &loaded, &refused, &n.Open, &n.Waiting, &oldest, &n.Captured); err != nil {
				return err
			}
			n.Started, n.Seen, n.Stopped, n.Loaded, n.Refused = fromNanos(started), fromNanos(seen), fromNanos(stopped), fromNanos(loaded), fromNanos(refused)
			n.Oldest = time.Duration(oldest)
			list = append(list, n)
			return nil
		}, `SELECT `+nodeColumns+` FROM nodes ORDER BY name, started DESC, id LIMIT $1`, int64(maxNodes))
	})
	return list, err
}

// NodeConfig returns the configuration with a digest, or ErrNotFound.
func (s *Store) NodeConfig(ctx context.Context, digest string) (text string, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		return c.Row(ctx, `SELECT text FROM node_configs WHERE digest = $1`, digest)(&text)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return text, err
}

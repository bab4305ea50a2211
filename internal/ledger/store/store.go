package store

import (
	"context"
	"embed"
	"io/fs"
	"log/slog"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
)

//go:embed schema/*.sql
var ownSchema embed.FS

// Options configure a store.
type Options struct {
	// Migrate runs missing migrations when the database is first reached. Without it the store
	// waits until another node has run them.
	Migrate bool
	Logger  *slog.Logger  // default: none
	Timeout time.Duration // of a call; default: 5 s
	Alerts  AlertRules

	schema fs.FS // for tests; default: the embedded one
}

// Store keeps everything in one database. It is safe for concurrent use, also by several processes.
type Store struct {
	db     *db.DB
	alerts AlertRules
}

// Open opens the store at sqlite:PATH or postgres://…. It fails if the URL or the file cannot be
// used. If a server is down, calls fail until it is up.
func Open(_ context.Context, address string, o Options) (*Store, error) {
	if o.schema == nil {
		o.schema = ownSchema
	}
	d, err := db.Open(address, db.Options{Schema: o.schema, Migrate: o.Migrate, Logger: o.Logger, Timeout: o.Timeout})
	if err != nil {
		return nil, err
	}
	return &Store{db: d, alerts: o.Alerts}, nil
}

// Examine returns the facts of the database at an address. It writes nothing.
func Examine(ctx context.Context, address string) (db.Facts, error) {
	return db.Examine(ctx, address, ownSchema)
}

// Close closes the store. Calls in flight fail.
func (s *Store) Close() error { return s.db.Close() }

// Ready returns nil when the database was reached and has the needed tables, or else the reason. It
// does not query the database.
func (s *Store) Ready() error { return s.db.Ready() }

// Read runs queries of a package that has tables of its own in the store. do may be called several
// times.
func (s *Store) Read(ctx context.Context, do func(context.Context, db.Conn) error) error {
	return s.db.Read(ctx, do)
}

// Write runs a transaction of such a package. do may be called several times; only the effects of the
// last call stay.
func (s *Store) Write(ctx context.Context, do func(context.Context, db.Conn) error) error {
	return s.db.Write(ctx, do)
}

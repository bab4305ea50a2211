package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/api/admin/client"
	"github.com/isogloss-gateway/isogloss/internal/app/running"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/people/pepperfile"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Keyring is the admin API of a running gateway, or without one that over the configured store in this process.
type Keyring struct {
	*client.Client
	// Store describes the store: the file, or the database without its credentials.
	Store string
	// Notes are what the operator should know and what does not keep a command from working.
	Notes []string

	models *route.Table // nil: any name may be a model
	known  []string     // their names
	close  func() error
}

// localOperator is the owner of the machine who runs a command.
type localOperator struct{ name string }

// Operator returns an owner. The name is in the audit log.
func (o localOperator) Operator(*http.Request) (access.Record, *llm.Error) {
	return access.Record{ID: o.name, Role: access.Owner}, nil
}

// ledgerLimits reports what accounts have spent by the ledger. Without a gateway there are no other
// counters.
type ledgerLimits struct{ store *store.Store }

// Use returns what an account has spent in the window of its budget, or in total if it has none. Requests
// of the last second or so may be missing: gateways write them a moment later.
func (l ledgerLimits) Use(ctx context.Context, _ string, a quota.Account) (admin.Use, error) {
	since := time.Unix(0, 0)
	if a.Limit.Budget > 0 && a.Limit.Window > 0 {
		since = time.Now().Add(-a.Limit.Window)
	}
	spent, err := l.store.Spent(ctx, budget.Owner(a.ID), since)
	if err != nil {
		return admin.Use{}, err
	}
	return admin.Use{Spent: spent.Since[0]}, nil
}

// keyringPatience limits how long OpenKeyring waits for the store's tables.
const keyringPatience = 15 * time.Second

// OpenKeyring returns the admin API of the running gateway of the configuration. If none runs, it opens the
// configured store.
func (o Options) OpenKeyring(ctx context.Context) (*Keyring, error) { return o.openKeyring(ctx, true) }

// OpenExistingKeyring is OpenKeyring for a store that exists, as far as that can be seen without opening it.
func (o Options) OpenExistingKeyring(ctx context.Context) (*Keyring, error) {
	return o.openKeyring(ctx, false)
}

func (o Options) openKeyring(ctx context.Context, create bool) (*Keyring, error) {
	var p *config.Place
	wrong := errors.New("keys are kept in the store of a configuration file; name the file with -c or ISOGLOSS_CONFIG, or start the gateway")
	if o.Config != "" {
		p, wrong = config.LoadPlace(o.Config, o.Env, config.Environment(o.Env)...)
	}
	g, err := o.findGateway(ctx, p)
	switch {
	case err == nil:
		return o.askGateway(g, p, wrong), nil
	case !errors.Is(err, errNoGateway):
		return nil, err
	case wrong != nil:
		return nil, wrong
	case p.Store.URL == "":
		return nil, errors.New("the configuration has no store, in which keys are kept; write 'store: sqlite' into it")
	}
	if err := o.checkMarker(p); err != nil {
		return nil, err
	}
	if _, err := os.Stat(p.Store.File()); err != nil && p.Store.SQLite() && !create {
		return nil, err
	}
	return openStore(ctx, p)
}

// askGateway returns the keyring of a running gateway. wrong is what is wrong with the configuration file.
func (o *Options) askGateway(g *running.Gateway, p *config.Place, wrong error) *Keyring {
	k := &Keyring{Client: client.New(g.Transport()), Store: g.Store, close: func() error { return nil }}
	if p != nil {
		k.readModels(p)
		if running.SameStore(p.Store.AbsoluteName(), g.Store) {
			k.Store = p.Store.Name()
		}
	}
	switch {
	case o.Config == "":
		k.Notes = []string{fmt.Sprintf("no configuration file is named; this is the gateway on %s", g.Address)}
	case wrong != nil:
		k.Notes = []string{mistakesNote(wrong)}
	case p.Wrong != nil:
		k.Notes = []string{mistakesNote(p.Wrong)}
	}
	return k
}

// mistakesNote returns the first mistake of a configuration, which does not matter to a command.
func mistakesNote(wrong error) string {
	first, _, more := strings.Cut(wrong.Error(), "\n")
	if more {
		first += " (and more: 'isogloss check' lists them)"
	}
	return first
}

// openStore returns the keyring of the configured store, in this process.
func openStore(ctx context.Context, p *config.Place) (*Keyring, error) {
	peppers, err := openPeppers(p.Config)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, p.Store.URL.Reveal(), store.Options{Migrate: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		return nil, err
	}
	api := admin.New(admin.Options{Operators: localOperator{"command line: " + whoami()}, Peppers: peppers, Keys: s, Tenants: s, Ledger: s, Audit: s, Limits: ledgerLimits{s}, Cell: p.Cell,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	k := &Keyring{Client: client.New(client.InProcess(api)), Store: p.Store.Name(), close: s.Close}
	k.readModels(p)
	if p.Wrong != nil {
		k.Notes = []string{mistakesNote(p.Wrong)}
	}
	if err := awaitStore(ctx, s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return k, nil
}

// awaitStore waits until the store has its tables, and for a migration as long as that takes.
func awaitStore(ctx context.Context, s *store.Store) error {
	patience, cancel := context.WithTimeout(ctx, keyringPatience)
	defer cancel()
	for {
		err := s.Ready()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || patience.Err() != nil && !errors.Is(err, store.ErrMigrating) {
			return fmt.Errorf("the store cannot be used: %w", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func whoami() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// openPeppers returns the configured peppers, or the one in the data folder.
func openPeppers(cfg *config.Config) (access.Peppers, error) {
	if len(cfg.Store.Peppers) > 0 {
		return access.NewPeppers(cfg.Store.Peppers)
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return access.Peppers{}, fmt.Errorf("data: %w; write a folder that the gateway may use", err)
	}
	file := filepath.Join(cfg.Data, "pepper")
	if err := checkPepper(file, cfg); err != nil {
		return access.Peppers{}, err
	}
	pepper, err := pepperfile.Load(file)
	if err != nil {
		return access.Peppers{}, err
	}
	return access.NewPeppers([]secret.String{pepper})
}

// checkPepper fails if a database exists without its pepper. A new pepper would make all
// existing keys invalid.
func checkPepper(file string, cfg *config.Config) error {
	_, err := os.Stat(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return nil // Load reports the error
	}
	database := cfg.Store.File()
	if _, err := os.Stat(database); err == nil {
		return fmt.Errorf("there is no pepper in %s, and %s has keys that were made with one; put it back from its backup, or remove the database to start over", file, database)
	}
	return nil
}

// Close closes the store, if this process has opened it.
func (k *Keyring) Close() error { return k.close() }

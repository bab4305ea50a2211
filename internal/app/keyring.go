package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// Keyring manages keys directly in the store, without a running gateway.
type Keyring struct {
	// Store describes the store: the file, or the database without its credentials.
	Store string

	store   *store.Store
	peppers access.Peppers
	actor   string
	cfg     *config.Config
}

// MadeKey is a new or rotated key. Its text is not stored and cannot be shown again.
type MadeKey struct {
	ID      string
	Text    secret.String
	Expires time.Time // zero: never
}

// keyringPatience limits how long OpenKeyring waits for the store's tables.
const keyringPatience = 15 * time.Second

// OpenKeyring opens the configured store.
func (o Options) OpenKeyring(ctx context.Context) (*Keyring, error) {
	if o.Config == "" {
		return nil, errors.New("keys are kept in the store of a configuration file; name the file with -c or ISOGLOSS_CONFIG")
	}
	cfg, err := o.LoadConfig()
	if err != nil {
		return nil, err
	}
	if cfg.Store.URL == "" {
		return nil, errors.New("the configuration has no store, in which keys are kept; write 'store: sqlite' into it")
	}
	peppers, err := openPeppers(cfg)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, cfg.Store.URL.Reveal(), store.Options{Migrate: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		return nil, err
	}
	k := &Keyring{Store: storeName(cfg.Store), store: s, peppers: peppers, actor: "command line: " + whoami(), cfg: cfg}
	if err := k.await(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return k, nil
}

// await waits until the store has its tables, and for a migration as long as that takes.
func (k *Keyring) await(ctx context.Context) error {
	patience, cancel := context.WithTimeout(ctx, keyringPatience)
	defer cancel()
	for {
		err := k.store.Ready()
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
	pepper, err := access.LoadPepper(file)
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
		return nil // LoadPepper reports the error
	}
	database := sqliteFile(cfg)
	if _, err := os.Stat(database); err == nil {
		return fmt.Errorf("there is no pepper in %s, and %s has keys that were made with one; put it back from its backup, or remove the database to start over", file, database)
	}
	return nil
}

// HasKeyring reports whether the configured store exists, as far as that can be seen
// without opening it: OpenKeyring creates a missing SQLite file.
func (o Options) HasKeyring() bool {
	if o.Config == "" {
		return false
	}
	cfg, err := o.LoadConfig()
	if err != nil || cfg.Store.URL == "" {
		return false
	}
	if cfg.Store.SQLite() {
		_, err = os.Stat(sqliteFile(cfg))
	}
	return err == nil
}

// sqliteFile returns the path of the SQLite file.
func sqliteFile(cfg *config.Config) string {
	return strings.TrimPrefix(cfg.Store.URL.Reveal(), "sqlite:")
}

// Close closes the store.
func (k *Keyring) Close() error { return k.store.Close() }

// Create creates a key, and its organisation and team if they do not exist.
func (k *Keyring) Create(ctx context.Context, r access.Record) (MadeKey, error) {
	id, hidden, text := access.Mint(access.Env(k.cfg.Cell, r.Role))
	r.ID, r.Digests = id, []access.Digest{k.peppers.Digest(id, hidden)}
	if err := k.ensure(ctx, r.Org, r.Team); err != nil {
		return MadeKey{}, err
	}
	if err := k.store.CreateKey(ctx, r); err != nil {
		return MadeKey{}, err
	}
	return MadeKey{ID: id, Text: text, Expires: r.Expires}, k.note(ctx, "create-key", "key:"+id)
}

// List returns the keys of one organisation, or of all.
func (k *Keyring) List(ctx context.Context, org string) ([]access.Record, error) {
	var all []access.Record
	for {
		after := ""
		if len(all) > 0 {
			after = all[len(all)-1].ID
		}
		page, err := k.store.Keys(ctx, store.KeyFilter{Org: org}, after, store.MaxPerPage)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
	}
}

// Find returns the key with an id or a name. A name may belong to several keys; then Find
// returns the one that is not revoked, or an error with the ids.
func (k *Keyring) Find(ctx context.Context, idOrName string) (access.Record, error) {
	r, err := k.store.Key(ctx, idOrName)
	if !errors.Is(err, access.ErrUnknown) {
		return r, err
	}
	named, err := k.named(ctx, idOrName)
	if err != nil {
		return r, err
	}
	if valid := slices.DeleteFunc(slices.Clone(named), func(r access.Record) bool { return !r.Revoked.IsZero() }); len(valid) > 0 {
		named = valid
	}
	switch len(named) {
	case 0:
		return r, fmt.Errorf("there is no key with the id or name %q; 'isogloss keys list' shows them", idOrName)
	case 1:
		return named[0], nil
	}
	ids := make([]string, len(named))
	for i, n := range named {
		ids[i] = n.ID
	}
	return r, fmt.Errorf("%d keys have the name %q; write an id: %s", len(ids), idOrName, strings.Join(ids, ", "))
}

// named returns the keys with a name.
func (k *Keyring) named(ctx context.Context, name string) ([]access.Record, error) {
	all, err := k.List(ctx, "")
	return slices.DeleteFunc(all, func(r access.Record) bool { return r.Name != name }), err
}

// Revoke revokes a key permanently.
func (k *Keyring) Revoke(ctx context.Context, idOrName string) (access.Record, error) {
	r, err := k.Find(ctx, idOrName)
	if err != nil {
		return r, err
	}
	if r, err = k.store.RevokeKey(ctx, r.ID, time.Now()); err != nil {
		return r, err
	}
	return r, k.note(ctx, "revoke-key", "key:"+r.ID)
}

// Update changes a key's name, team, expiry, scopes and limits.
func (k *Keyring) Update(ctx context.Context, idOrName string, edit func(*access.Record) error) (access.Record, error) {
	r, err := k.Find(ctx, idOrName)
	if err != nil {
		return r, err
	}
	if !r.Revoked.IsZero() {
		return r, fmt.Errorf("the key %s is revoked permanently; create another one", r.ID)
	}
	if err := edit(&r); err != nil {
		return r, err
	}
	if err := k.ensure(ctx, r.Org, r.Team); err != nil {
		return r, err
	}
	if r, err = k.store.UpdateKey(ctx, r.ID, edit); err != nil {
		return r, err
	}
	return r, k.note(ctx, "update-key", "key:"+r.ID)
}

// Rotate gives a key a new secret; the old one works for a while.
func (k *Keyring) Rotate(ctx context.Context, idOrName string, keep time.Duration) (MadeKey, error) {
	r, err := k.Find(ctx, idOrName)
	if err != nil {
		return MadeKey{}, err
	}
	hidden, text := access.MintAgain(access.Env(k.cfg.Cell, r.Role), r.ID)
	if _, err := k.store.RotateKey(ctx, r.ID, k.peppers.Digest(r.ID, hidden), time.Now().Add(keep)); err != nil {
		return MadeKey{}, err
	}
	return MadeKey{ID: r.ID, Text: text, Expires: r.Expires}, k.note(ctx, "rotate-key", "key:"+r.ID)
}

// ensure creates the organisation and the team of a key if they do not exist.
func (k *Keyring) ensure(ctx context.Context, org, team string) error {
	if org == "" {
		return nil
	}
	if err := k.ensureTenant(ctx, Tenant{Org: org, Name: org}); err != nil || team == "" {
		return err
	}
	return k.ensureTenant(ctx, Tenant{Org: org, Team: team, Name: team})
}

// note writes an audit entry for a change that was made. If that fails, the change
// stays and the error reports it.
func (k *Keyring) note(ctx context.Context, action, object string) error {
	if err := k.store.Audit(ctx, store.Entry{At: time.Now(), Actor: k.actor, Action: action, Object: object, Detail: "allowed"}); err != nil {
		return fmt.Errorf("the change was made, but its audit entry could not be written: %w", err)
	}
	return nil
}

// storeName returns the address of a store without its credentials.
func storeName(s config.Store) string {
	text := s.URL.Reveal()
	if s.SQLite() {
		return text
	}
	u, err := url.Parse(text)
	if err != nil {
		return "postgres"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

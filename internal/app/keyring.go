package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/secret"
	"github.com/isogloss-gateway/isogloss/internal/store"
)

// Keyring makes and ends keys on the store itself, whether or not a gateway runs.
type Keyring struct {
	store   *store.Store
	peppers access.Peppers
	actor   string
}

// MadeKey is a key that was just made. Nobody can show its text again.
type MadeKey struct {
	ID   string
	Text secret.String
}

// keyringPatience is for a store that has to be made first.
const keyringPatience = 15 * time.Second

// OpenKeyring opens the store that the configuration names.
func (o Options) OpenKeyring(ctx context.Context) (*Keyring, error) {
	cfg, err := o.LoadConfig()
	if err != nil {
		return nil, err
	}
	if cfg.Store.URL == "" {
		return nil, errors.New("the configuration names no store, which is where keys are kept; write 'store: sqlite' into it")
	}
	peppers, err := openPeppers(cfg)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, cfg.Store.URL.Reveal(), store.Options{Migrate: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		return nil, err
	}
	k := &Keyring{store: s, peppers: peppers, actor: "command line: " + whoami()}
	if err := k.await(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return k, nil
}

// await waits until the store has its tables.
func (k *Keyring) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keyringPatience)
	defer cancel()
	for {
		err := k.store.Ready()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the store cannot be used: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func whoami() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// openPeppers are the configuration's, or the one in the data folder.
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

// checkPepper keeps a new pepper from being made beside keys of an old one: none of
// them would open anything, and nobody would know why.
func checkPepper(file string, cfg *config.Config) error {
	_, err := os.Stat(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return nil // LoadPepper says what is wrong with it
	}
	database := strings.TrimPrefix(cfg.Store.URL.Reveal(), "sqlite:")
	if _, err := os.Stat(database); err == nil {
		return fmt.Errorf("there is no pepper in %s, and %s has keys that were made with one; put it back from its backup, or remove the database to begin anew", file, database)
	}
	return nil
}

// Close closes the store.
func (k *Keyring) Close() error { return k.store.Close() }

// Create makes a key. A team that is new is made with it.
func (k *Keyring) Create(ctx context.Context, r access.Record) (MadeKey, error) {
	env := access.EnvLive
	if r.Role != "" {
		env = access.EnvAdmin
	}
	id, hidden, text := access.Mint(env)
	r.ID, r.Digests = id, []access.Digest{k.peppers.Digest(id, hidden)}
	if err := k.ensure(ctx, r.Org, r.Team); err != nil {
		return MadeKey{}, err
	}
	if err := k.store.CreateKey(ctx, r); err != nil {
		return MadeKey{}, err
	}
	return MadeKey{ID: id, Text: text}, k.note(ctx, "key.create", id)
}

// List returns keys, of one organisation or of all.
func (k *Keyring) List(ctx context.Context, org string) ([]access.Record, error) {
	var all []access.Record
	for {
		after := ""
		if len(all) > 0 {
			after = all[len(all)-1].ID
		}
		page, err := k.store.Keys(ctx, store.KeyFilter{Org: org}, after, store.MostPerPage)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
	}
}

// Show returns one key.
func (k *Keyring) Show(ctx context.Context, id string) (access.Record, error) {
	r, err := k.store.Key(ctx, id)
	return r, known(err, id)
}

// Revoke ends a key for good.
func (k *Keyring) Revoke(ctx context.Context, id string) error {
	if _, err := k.store.RevokeKey(ctx, id, time.Now()); err != nil {
		return known(err, id)
	}
	return k.note(ctx, "key.revoke", id)
}

// Rotate gives a key a new secret; the old one works for a while.
func (k *Keyring) Rotate(ctx context.Context, id string, keep time.Duration) (MadeKey, error) {
	r, err := k.store.Key(ctx, id)
	if err != nil {
		return MadeKey{}, known(err, id)
	}
	env := access.EnvLive
	if r.Role != "" {
		env = access.EnvAdmin
	}
	hidden, text := access.MintAgain(env, id)
	if _, err := k.store.RotateKey(ctx, id, k.peppers.Digest(id, hidden), time.Now().Add(keep)); err != nil {
		return MadeKey{}, err
	}
	return MadeKey{ID: id, Text: text}, k.note(ctx, "key.rotate", id)
}

func known(err error, id string) error {
	if errors.Is(err, access.ErrUnknown) {
		return fmt.Errorf("there is no key with the id %q; 'isogloss keys list' shows them", id)
	}
	return err
}

// ensure makes the organisation and the team of a key, if they are new.
func (k *Keyring) ensure(ctx context.Context, org, team string) error {
	if org == "" {
		return nil
	}
	if _, err := k.store.Org(ctx, org); errors.Is(err, store.ErrNothing) {
		if err := k.store.CreateOrg(ctx, store.Org{ID: org, Name: org, Created: time.Now()}); err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
	} else if err != nil {
		return err
	}
	if team == "" {
		return nil
	}
	if _, err := k.store.Team(ctx, org, team); !errors.Is(err, store.ErrNothing) {
		return err
	}
	err := k.store.CreateTeam(ctx, store.Team{Org: org, ID: team, Name: team, Created: time.Now()})
	if errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}

// note writes down who did what. What was done stays done if that fails, and the
// operator is told.
func (k *Keyring) note(ctx context.Context, action, id string) error {
	if err := k.store.Audit(ctx, store.Entry{At: time.Now(), Actor: k.actor, Action: action, Object: "key:" + id, Detail: "allowed"}); err != nil {
		return fmt.Errorf("it is done, but could not be written to the audit log: %w", err)
	}
	return nil
}

package admin

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/quota"
	"github.com/isogloss-gateway/isogloss/internal/store"
	"github.com/isogloss-gateway/isogloss/internal/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Options is what the API works on. A *store.Store is Keys, Orgs, Teams, Ledger and
// Audit at once.
type Options struct {
	Operators Operators
	Peppers   access.Peppers
	Keys      Keys
	Orgs      Orgs
	Teams     Teams
	Ledger    Ledger
	Audit     Audit
	Targets   Targets
	Config    Config
	Limits    Limits // may be nil: the routes for it then say so

	// Loopback says that the listener is bound to loopback, where a host name is the
	// sign of a page that points its own name there.
	Loopback bool
	Version  string           // of the gateway; default dev
	Logger   *slog.Logger     // default none
	Now      func() time.Time // default time.Now
}

// Operators knows whose key a request carries. It limits those who guess.
type Operators interface {
	Operator(r *http.Request) (access.Record, *llm.Error)
}

// Keys is where keys are kept.
type Keys interface {
	Key(ctx context.Context, id string) (access.Record, error)
	Keys(ctx context.Context, f store.KeyFilter, after string, limit int) ([]access.Record, error)
	CreateKey(ctx context.Context, r access.Record) error
	UpdateKey(ctx context.Context, id string, edit func(*access.Record) error) (access.Record, error)
	RevokeKey(ctx context.Context, id string, at time.Time) (access.Record, error)
	RotateKey(ctx context.Context, id string, next access.Digest, oldUntil time.Time) (access.Record, error)
}

// Orgs is where organisations are kept.
type Orgs interface {
	Org(ctx context.Context, id string) (store.Org, error)
	Orgs(ctx context.Context, after string, limit int) ([]store.Org, error)
	CreateOrg(ctx context.Context, o store.Org) error
	UpdateOrg(ctx context.Context, id string, edit func(*store.Org) error) (store.Org, error)
}

// Teams is where teams are kept.
type Teams interface {
	Team(ctx context.Context, org, id string) (store.Team, error)
	Teams(ctx context.Context, org, after string, limit int) ([]store.Team, error)
	CreateTeam(ctx context.Context, t store.Team) error
	UpdateTeam(ctx context.Context, org, id string, edit func(*store.Team) error) (store.Team, error)
}

// Ledger has a row for every request.
type Ledger interface {
	Usage(ctx context.Context, q store.UsageQuery) ([]store.Sum, error)
	Rows(ctx context.Context, q store.RowQuery) ([]usage.Row, error)
}

// Audit is the log of what operators did.
type Audit interface {
	Audit(ctx context.Context, e store.Entry) error
	AuditLog(ctx context.Context, q store.AuditQuery) ([]store.Entry, error)
	VerifyAudit(ctx context.Context) (store.Verdict, error)
}

// Targets knows how those are who answer requests.
type Targets interface{ Targets() []Target }

// Config is the configuration that is served.
type Config interface {
	Effective() Configuration
	// Reload reads the configuration again. Mistakes are what is wrong with it, and then
	// the one before is still served; an error is that it could not be read at all.
	Reload(ctx context.Context) ([]Mistake, error)
}

// Limits knows what an account has used of what it may.
type Limits interface {
	Use(ctx context.Context, org string, a quota.Account) (Use, error)
}

// Use is what an account has used.
type Use struct {
	Requests    int64 // in the last minute
	Tokens      int64 // in the last minute
	Concurrency int64 // open requests
	Spent       usage.Money
}

package admin

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/names"
	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/ledger/nodes"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Options are the dependencies of the API. A *store.Store implements Keys, Tenants, Ledger,
// Audit and Nodes.
type Options struct {
	Operators Operators
	Peppers   access.Peppers
	Keys      Keys
	Tenants   Tenants
	Ledger    Ledger
	Audit     Audit
	Targets   Targets
	Config    Config
	Nodes     Nodes
	Self      nodes.Self       // this node
	Limits    Limits           // nil: the routes for it return 501
	Runner    Runner           // nil: run-request returns 501
	Sessions  Sessions         // nil: create-session returns 501
	Captures  func() []Capture // captures that are attached; nil: never
	ClientURL string           // base URL of the client port
	Cell      string           // in the text of new keys; empty: none

	// Loopback says that the listener is bound to loopback. Then only localhost and IP addresses
	// are accepted as host, which prevents DNS rebinding.
	Loopback bool
	Version  string           // of the gateway; default dev
	Logger   *slog.Logger     // default none
	Now      func() time.Time // default time.Now
}

// Operators authenticates requests and limits guessing.
type Operators interface {
	Operator(r *http.Request) (access.Record, *llm.Error)
}

// Keys stores keys.
type Keys interface {
	names.Keys
	Key(ctx context.Context, id string) (access.Record, error)
	Keys(ctx context.Context, f store.KeyFilter, after string, limit int) ([]access.Record, error)
	CreateKey(ctx context.Context, r access.Record) error
	UpdateKey(ctx context.Context, id string, edit func(*access.Record) error) (access.Record, error)
	RevokeKey(ctx context.Context, id string, at time.Time) (access.Record, error)
	RotateKey(ctx context.Context, id string, next access.Digest, oldUntil time.Time) (access.Record, error)
	KeyUses(ctx context.Context, ids []string, since time.Time) (map[string]store.KeyUse, error)
}

// Tenants stores organisations and teams. A team is named by its organisation and its id, an organisation
// without a team.
type Tenants interface {
	names.Tenants
	Tenant(ctx context.Context, org, team string) (store.Tenant, error)
	Orgs(ctx context.Context, after string, limit int) ([]store.Tenant, error)
	Teams(ctx context.Context, org, after string, limit int) ([]store.Tenant, error)
	CreateTenant(ctx context.Context, t store.Tenant) error
	UpdateTenant(ctx context.Context, org, team string, edit func(*store.Tenant) error) (store.Tenant, error)
}

// Ledger stores a row for every request.
type Ledger interface {
	Usage(ctx context.Context, q store.UsageQuery) ([]store.Sum, error)
	Rows(ctx context.Context, q store.RowQuery) ([]usage.Row, error)
	Refusals(ctx context.Context, q store.RefusalQuery) ([]store.Refused, error)
}

// Audit stores the operators' actions.
type Audit interface {
	Audit(ctx context.Context, e store.Entry) error
	AuditLog(ctx context.Context, q store.AuditQuery) ([]store.Entry, error)
	VerifyAudit(ctx context.Context) (store.Verdict, error)
}

// Targets returns the state of the targets and of the models that route to them.
type Targets interface {
	Targets() []Target
	Models(ctx context.Context) models.Listing
	// Explain returns the targets of a request in the order in which they would be tried. The model is
	// for dialects whose requests do not name it.
	Explain(dialect, model string, body []byte) (*fleet.Explanation, *llm.Error)
}

// Runner serves requests of the client port.
type Runner interface {
	// Run serves a request as a key, whatever credentials the request has. It calls begin with the
	// request's id and model before anything is sent; an error refuses the request. It reports false,
	// and writes nothing, if the path is not that of a model endpoint.
	Run(key access.Record, begin func(id, model string) *llm.Error, w http.ResponseWriter, r *http.Request) bool
}

// Sessions keeps sessions of operators' browsers.
type Sessions interface {
	// BeginSession begins a session with the key of a request and returns its cookie, and when it ends. An
	// *llm.Error says why the request begins none.
	BeginSession(ctx context.Context, r *http.Request) (*http.Cookie, time.Time, error)
}

// Config is the configuration of the gateway.
type Config interface {
	Effective() Configuration
	// Reload reads the configuration again. If it returns mistakes or an error, the previous
	// configuration stays in effect. An error means that the configuration could not be read.
	Reload(ctx context.Context) ([]openapi.Mistake, error)
}

// Nodes stores what the gateways report of themselves.
type Nodes interface {
	Nodes(ctx context.Context) ([]store.Node, error)
	NodeConfig(ctx context.Context, digest string) (string, error)
}

// Limits returns an account's current use of its limits.
type Limits interface {
	Use(ctx context.Context, org string, a quota.Account) (Use, error)
}

// Capture is a command that is attached to the gateway and gets the text of exchanges.
type Capture struct {
	Since   time.Time `json:"since"`
	User    string    `json:"user" doc:"User id of the command in the operating system of the node."`
	Model   string    `json:"model,omitempty" doc:"It gets exchanges of this model."`
	Key     string    `json:"key,omitempty" doc:"It gets exchanges of this key."`
	Request string    `json:"request,omitempty" doc:"It gets the exchange with this request id."`
}

// Use is the use of an account.
type Use struct {
	Requests    int64 // in the last minute
	Tokens      int64 // in the last minute
	Concurrency int64 // open requests
	Spent       usage.Money
}

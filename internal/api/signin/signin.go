package signin

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/people/identity"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Options configure the sign-in.
type Options struct {
	URL     string // of the client port, as people reach it, without a slash at its end
	Admin   string // of the admin port; empty: operators do not sign in at the provider
	Issuer  string // empty: there is no provider, and only keys begin sessions
	CA      string // file with the CA of the provider's servers; empty: the system's
	Client  string // the gateway's id at the provider
	Secret  secret.String
	Scopes  []string
	IDToken bool   // clients get the ID token, not the access token
	Notice  string // shown by clients before the sign-in
	Key     []byte // of the cookies of sign-ins, the same on all nodes; empty: one of this process

	People   People
	Verifier Verifier
	Revoked  *identity.Revoked // of this node
	Store    Store
	Logger   *slog.Logger
}

// People admits the owners of tokens and of keys.
type People interface {
	Admit(r *http.Request, token string) (*access.Person, *llm.Error)
	Prove(r *http.Request) (access.Record, access.Proof, *llm.Error)
	ProvenOperator(r *http.Request, p access.Proof) (access.Record, *llm.Error)
	ProvenVisitor(r *http.Request, p access.Proof) (access.Visitor, *llm.Error)
	Admitted(r *http.Request, token string) (access.Visitor, *llm.Error)
}

// Verifier checks ID tokens and returns the mail address of their owner.
type Verifier interface {
	SignedIn(ctx context.Context, issuer, client, nonce, token string) (mail string, err error)
}

// Store keeps sign-ins and sessions, and the audit log.
type Store interface {
	AddSignIn(ctx context.Context, n store.SignIn, now time.Time) error
	PendingSignIn(ctx context.Context, code string, now time.Time) (store.SignIn, error)
	FinishSignIn(ctx context.Context, code string, status store.SignInStatus, tokens []byte, now time.Time) error
	TakeSignIn(ctx context.Context, id string, now time.Time) (store.SignIn, error)
	Session(ctx context.Context, id string, now time.Time) (store.SignIn, error)
	RenewSession(ctx context.Context, id string, tokens []byte) error
	EndSession(ctx context.Context, id string) error
	RevokeToken(ctx context.Context, digest string, expires, now time.Time) (added bool, err error)
	RevokedTokens(ctx context.Context, now time.Time) ([]string, error)
	Audit(ctx context.Context, e store.Entry) error
}

// Server serves the sign-in.
type Server struct {
	o             Options
	provider      *provider
	client, admin map[string]http.Handler // by path
	operators     browsers                // of the admin port
	visitors      browsers                // of the client port
	failures      *access.Failures        // wrong user codes
	started       *access.Failures        // device codes, by address
	unknown       *access.Failures        // tokens that are not known, by address
	refusals      refusals
	renewals      singleflight.Group // of sessions, by id
}

// New returns a server. It fetches nothing.
func New(o Options) (*Server, error) {
	client, err := identity.NewClient(o.CA)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, failures: access.NewFailures(), started: access.NewFailures(), unknown: access.NewFailures()}
	if len(o.Key) == 0 {
		s.o.Key = []byte(newSecret())
	}
	s.provider = &provider{o: &s.o, client: client}
	s.operators = browsers{s: s, cookie: sessionCookie, purpose: sessionSecret, origin: o.Admin}
	s.visitors = browsers{s: s, cookie: visitCookie, purpose: visitSecret, origin: o.URL}
	s.admin = map[string]http.Handler{logoutPath: samePage(post(s.logout))}
	if o.Issuer == "" {
		return s, nil
	}
	s.client = map[string]http.Handler{
		metadataPath: get(s.serveMetadata),
		devicePath:   post(s.startDevice),
		tokenPath:    post(s.serveToken),
		revokePath:   post(s.serveRevoke),
		verifyPath:   samePage(byMethod{http.MethodGet: s.showVerify, http.MethodPost: s.startVerify}),
		callbackPath: get(s.finishVerify),
	}
	s.admin[loginPath], s.admin[loginCallbackPath] = get(s.startLogin), get(s.finishLogin)
	if o.Admin == "" {
		s.admin[loginPath], s.admin[loginCallbackPath] = http.HandlerFunc(noSessions), http.HandlerFunc(noSessions)
	}
	return s, nil
}

// Paths of the client port.
const (
	metadataPath = "/.well-known/oauth-authorization-server"
	devicePath   = "/oauth/device_authorization"
	tokenPath    = "/oauth/token" //nolint:gosec // a path
	revokePath   = "/oauth/revoke"
	callbackPath = "/oauth/callback"
	verifyPath   = "/device"
)

// Paths of the admin port.
const (
	loginPath         = "/login"
	loginCallbackPath = "/login/callback"
	logoutPath        = "/logout"
)

// ClientPaths returns the paths of the client port.
func ClientPaths() []string {
	return []string{metadataPath, devicePath, tokenPath, revokePath, verifyPath, callbackPath}
}

// AdminPaths returns the paths of the admin port.
func AdminPaths() []string { return []string{loginPath, loginCallbackPath, logoutPath} }

// SignsIn reports whether people can sign in at an identity provider.
func (s *Server) SignsIn() bool { return s != nil && s.o.Issuer != "" }

// Client returns the handler of one of ClientPaths, nil without an identity provider.
func (s *Server) Client(path string) http.Handler { return s.client[path] }

// Admin returns the handler of one of AdminPaths, nil if there is none.
func (s *Server) Admin(path string) http.Handler { return s.admin[path] }

// noSessions answers browsers of operators if identity.sign_in has no admin address.
func noSessions(w http.ResponseWriter, _ *http.Request) {
	writePage(w, http.StatusNotFound, "No sign-in here", "The gateway's operator has not configured identity.sign_in.admin. Use a key or a token.", "")
}

// maxForm is the size of the forms that clients and browsers send.
const maxForm = 64 << 10

// byMethod selects a handler by method. HEAD is served like GET.
type byMethod map[string]http.HandlerFunc

func get(h http.HandlerFunc) http.Handler  { return byMethod{http.MethodGet: h} }
func post(h http.HandlerFunc) http.Handler { return byMethod{http.MethodPost: h} }

func (m byMethod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	h := m[method]
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if h == nil {
		var allowed []string
		for name := range m {
			allowed = append(allowed, name)
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		http.Error(w, "this path has no "+r.Method, http.StatusMethodNotAllowed)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	h(w, r)
}

// samePage refuses forms that pages of other origins send.
func samePage(h http.Handler) http.Handler { return http.NewCrossOriginProtection().Handler(h) }

// audit records a sign-in of a person, or of nobody who is known. The log has it if the store cannot be reached.
func (s *Server) audit(r *http.Request, p *access.Person, action, detail string) {
	var who access.Record
	if p != nil {
		who = p.Record
	}
	s.auditRecord(r, who, action, detail)
}

func (s *Server) auditRecord(r *http.Request, who access.Record, action, detail string) {
	e := store.Entry{At: time.Now(), Actor: "identity", Action: action, Object: "sign-in", Address: access.Peer(r), Detail: plain.Short(detail, maxDetail)}
	if who.ID != "" {
		e.Actor, e.Org, e.Object = who.ID, who.Org, "key:"+who.ID
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), auditTimeout)
	defer cancel()
	if err := s.o.Store.Audit(ctx, e); err != nil {
		s.o.Logger.Error("a sign-in is not in the audit log", "action", action, "person", e.Actor, "error", err)
	}
}

// maxDetail is the number of characters of the reason that an entry of the audit log has.
const maxDetail = 300

const auditTimeout = 5 * time.Second

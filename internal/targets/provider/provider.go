// Package provider describes upstreams: their protocol, address, credential, and their
// deviations from the protocol's specification. A provider is data; only a new credential
// scheme needs code.
package provider

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Provider is one upstream: a preset with the operator's settings applied. It is
// immutable after Bind.
type Provider struct {
	Name     string // name in the operator's configuration
	Preset   string // its preset; empty: none
	Workers  string // pool of a discovered worker; empty for a configured provider
	Protocol protocol.Name
	BaseURL  *url.URL // in the form that the vendor's SDK accepts; may have a query
	// Envelope is the form in which a cloud offers the protocol; empty: none.
	Envelope string
	Project  string // of the cloud
	Location string // of the cloud, or its region
	// APIVersion is the protocol version to use if the client sends none; empty means the
	// protocol's default.
	APIVersion string
	// AcceptedVersions lists further versions that the provider accepts. Empty without
	// APIVersion means every known version.
	AcceptedVersions []string
	// ForwardUnknownVersion forwards requests with an unknown version unparsed.
	ForwardUnknownVersion bool
	Auth                  Auth
	Key                   secret.String
	// Cloud is the source of the credential for AWSAuth, GoogleAuth and AzureAuth; else nil.
	Cloud Cloud
	// Credential signs requests instead of Key, if it is not nil: one of a file, or one that Bind sets.
	Credential Credential
	Headers    http.Header // sent with every request, in addition to the protocol's own

	HTTP           HTTPVersion
	UpstreamStream StreamMode
	IncludeUsage   bool // request usage on streams even if the client did not
	Extensions     Extensions
	Rerank         Rerank
	UnknownIDs     UnknownIDs
	CacheSalt      CacheSalt
	ThinkTags      ThinkTags
	Quirks         []Quirk
	Paths          []Path // further forwarded paths; exact matches only
	Timeouts       Timeouts

	Concurrency  int // maximum concurrent requests per model; 0: the gateway's default
	Quota        Quota
	Health       Check
	Metrics      string // URL of the metrics of a worker's engine; empty: they are not read
	Continuation Continuation

	redactor *secret.Redactor // of ownSecrets, after Bind
	cloud    CloudName        // after Bind
}

// Secrets returns the texts that must not be shown: the credential, the values of headers and
// those of the base URL's query. Versions and features are not secret, and errors name them.
func (p *Provider) Secrets() []string {
	if p.Credential == nil {
		return p.ownSecrets()
	}
	return append(p.ownSecrets(), p.Credential.Secrets()...)
}

// ownSecrets returns the secrets of the configuration.
func (p *Provider) ownSecrets() []string {
	list := []string{p.Key.Reveal()}
	add := func(name string, values []string) {
		name = strings.ToLower(name)
		if strings.HasSuffix(name, "version") || strings.HasSuffix(name, "beta") {
			return
		}
		for _, v := range values {
			list = append(list, v)
			list = append(list, strings.Fields(v)...) // a scheme and a credential
		}
	}
	for name, values := range p.Headers {
		add(name, values)
	}
	if p.BaseURL != nil && p.BaseURL.RawQuery != "" {
		for name, values := range p.BaseURL.Query() {
			add(name, values)
		}
	}
	return list
}

// Bind sets the credential of a cloud and computes what Redactor and CloudName return. Without
// one (nil), the provider keeps the credential of its configuration. Bind is called once, before
// the provider serves requests.
func (p *Provider) Bind(cloud Credential) {
	if cloud != nil {
		p.Credential = cloud
	}
	p.cloud, p.redactor = p.findCloud(), p.ownRedactor()
}

func (p *Provider) ownRedactor() *secret.Redactor {
	return secret.NewRedactor(p.ownSecrets()).WithNames(p.names())
}

// Redactor removes the provider's secrets from texts, and the names of the operator's account
// at a cloud.
func (p *Provider) Redactor() *secret.Redactor {
	own := p.redactor
	if own == nil {
		own = p.ownRedactor()
	}
	if p.Credential == nil {
		return own
	}
	return own.With(p.Credential.Redactor())
}

// Pool returns the name of the provider's retry budget: workers of a model share one, and
// a configured provider has its own.
func (p *Provider) Pool() string { return cmp.Or(p.Workers, p.Name) }

// Quota is the scope of an upstream rate limit.
type Quota string

// The scopes of a rate limit.
const (
	QuotaModel    Quota = "model"    // the requested model
	QuotaProvider Quota = "provider" // all models of the credential
)

// Check is an active health check. An empty Path turns it off.
type Check struct {
	Path  string // relative to the provider's origin
	Every time.Duration
}

// Continuation is the way in which a provider continues a truncated response.
type Continuation string

// The continuation methods. All send the beginning of the response as the last assistant
// message.
const (
	NoContinuation   Continuation = "none"
	ContinueTrailing Continuation = "trailing" // no further parameter: the provider always continues such a message
	ContinueVLLM     Continuation = "vllm"     // with continue_final_message and without a generation prompt
	ContinuePrefix   Continuation = "prefix"   // and "prefix": true on the message
)

// Auth is a credential scheme.
type Auth string

// The credential schemes.
const (
	Bearer   Auth = "bearer"         // Authorization: Bearer KEY
	APIKey   Auth = "api-key"        // api-key: KEY (Azure)
	XAPIKey  Auth = "x-api-key"      // x-api-key: KEY (Anthropic)
	XGoogKey Auth = "x-goog-api-key" // x-goog-api-key: KEY (Google)
	NoneAuth Auth = "none"

	AWSAuth    Auth = "aws"    // a SigV4 signature
	GoogleAuth Auth = "google" // Authorization: Bearer TOKEN, an OAuth token of Google Cloud
	AzureAuth  Auth = "azure"  // Authorization: Bearer TOKEN, a token of Microsoft Entra
)

// HTTPVersion is the version of HTTP towards an upstream.
type HTTPVersion string

// The versions of HTTP.
const (
	AutoHTTP HTTPVersion = "auto" // what TLS negotiates, and HTTP/1.1 without TLS
	HTTP1    HTTPVersion = "h1"
	H2C      HTTPVersion = "h2c" // HTTP/2 without TLS
)

// StreamMode says when the gateway requests a stream from the upstream.
type StreamMode string

// The stream modes.
const (
	Mirror StreamMode = "mirror" // if the client requested one
	Always StreamMode = "always" // always; a non-streaming client gets the collected response
)

// Extensions says how to treat members with which a vendor extends the dialect, such as
// NVIDIA's nvext.
type Extensions string

// The treatments of extensions.
const (
	ForwardExtensions Extensions = "forward"
	RefuseExtensions  Extensions = "refuse"
	DropExtensions    Extensions = "drop" // removed and reported in Isogloss-Fidelity
)

// UnknownIDs says how to treat requests that name an id of the provider's whose owner is
// not known. Empty: RefuseUnknown if several organisations have keys, else ForwardUnknown.
type UnknownIDs string

// The treatments of unknown ids.
const (
	RefuseUnknown  UnknownIDs = "refuse"
	ForwardUnknown UnknownIDs = "forward"
)

// CacheSalt says whether requests get a salt for the prefix cache of an engine. With a salt no
// tenant can find out what others have in the cache.
type CacheSalt string

// The kinds of salts.
const (
	NoSalt     CacheSalt = "none"
	TenantSalt CacheSalt = "tenant" // one for each organisation, or for each key of the file
	SharedSalt CacheSalt = "shared" // as TenantSalt, if several organisations have keys
)

// ThinkTags says how to treat reasoning that an engine leaves in the text of a response,
// as <think>…</think>. Empty: NoThinkTags.
type ThinkTags string

// The treatments of reasoning in the text.
const (
	NoThinkTags ThinkTags = "none"   // it stays in the text
	ThinkStart  ThinkTags = "start"  // a text that begins with the start tag begins with reasoning
	ThinkOpened ThinkTags = "opened" // the prompt ends with the start tag: every text begins with reasoning
)

// Parses reports whether reasoning is separated from the text.
func (t ThinkTags) Parses() bool { return t == ThinkStart || t == ThinkOpened }

// Rerank is a provider's format for reranking.
type Rerank string

// The rerank formats.
const (
	RerankSame   Rerank = "same"   // the client's own format
	RerankCohere Rerank = "cohere" // version 2 of Cohere's API
	RerankJina   Rerank = "jina"
)

// Quirk is an edit of requests that a provider needs.
type Quirk struct {
	Rename, To string // a top-level request member and what this provider calls it; "nvext.a" reaches into nvext
}

// RenameField is a Quirk that renames a member of the request.
func RenameField(from, to string) Quirk { return Quirk{Rename: from, To: to} }

// Path is a method and a path that are forwarded to a provider in addition to its
// protocol's endpoints.
type Path struct {
	Method string
	Path   string // the path on the gateway, for example /v1/audio/speech
}

// Timeouts is the set of time limits of one request.
type Timeouts struct {
	// Time to connect to the provider.
	Connect time.Duration `key:"connect" example:"2s"`
	// Time to the first byte of the response.
	FirstByte time.Duration `key:"first_byte" example:"5m"`
	// Time to the first content of a stream. The default, 0, leaves it to idle.
	FirstToken time.Duration `key:"first_token" example:"30s"`
	// Time between two reads of the response.
	Idle time.Duration `key:"idle" example:"1m"`
	// Time of the whole exchange.
	Total time.Duration `key:"total" example:"1h"`
}

// Check refuses 0, which is no time limit.
func (t *Timeouts) Check(at *settings.At) {
	for key, d := range map[string]time.Duration{"connect": t.Connect, "first_byte": t.FirstByte, "first_token": t.FirstToken, "idle": t.Idle, "total": t.Total} {
		if d == 0 && at.Has(key) {
			at.Wrong(key, "is 0; write a duration such as 30s")
		}
	}
}

// Over returns the time limits with those of base where there is none.
func (t Timeouts) Over(base Timeouts) Timeouts {
	return Timeouts{cmp.Or(t.Connect, base.Connect), cmp.Or(t.FirstByte, base.FirstByte), cmp.Or(t.FirstToken, base.FirstToken), cmp.Or(t.Idle, base.Idle), cmp.Or(t.Total, base.Total)}
}

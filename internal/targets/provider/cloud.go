package provider

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// Credential is a credential that changes while the gateway runs, or that depends on the
// request. It is safe for concurrent use.
type Credential interface {
	// Sign sets the credential on a complete request, just before it is sent. body is the
	// request's whole body; nil if it is empty or not held.
	Sign(ctx context.Context, req *http.Request, body []byte) error
	// Renew is called after an upstream refused a signed request with 401 or 403. It reports
	// whether the request may succeed if it is signed again.
	Renew(ctx context.Context, req *http.Request, resp *http.Response) bool
	// Secrets returns the texts that must not be shown.
	Secrets() []string
	// Redactor removes Secrets from texts.
	Redactor() *secret.Redactor
}

// Cloud says where the credential of auth aws, google or azure comes from. It is one of
// *AWS, *Google and *Azure.
type Cloud interface {
	// Fingerprint tells two credentials apart and reveals none.
	Fingerprint() string
}

// AWS is the source of a credential for SigV4: the default chain of the AWS SDK, and then
// roles.
type AWS struct {
	Region  string
	Service string // name for the signature
	Profile string // of the shared configuration files; empty: the default chain
	Roles   []Role // assumed one after the other
}

// Role is a role of AWS that is assumed with the credential before it.
type Role struct {
	ARN        string
	ExternalID string
	Session    string // name of the session
	Tags       []Tag
	Transitive []string      // keys of the tags that later roles of the chain keep
	Duration   time.Duration // of the session; 0: the SDK's default of 15 minutes
}

// Tag is a session tag.
type Tag struct{ Key, Value string }

// Google is the source of an OAuth token.
type Google struct {
	File         string   // with the credential; empty: application default credentials
	Impersonate  string   // service account whose token is used; empty: none
	Delegates    []string // service accounts between the credential and Impersonate
	Scopes       []string
	QuotaProject string // sent as x-goog-user-project
}

// Azure is the source of an Entra token: a client secret, a certificate, else a workload
// identity if the environment has one, else a managed identity.
type Azure struct {
	Tenant, Client string
	Secret         *secret.File // nil: none
	Certificate    string       // PEM or PKCS #12 file; empty: none
	Password       secret.String
	Scope          string
	Authority      string // URL; empty: the public cloud's, or AZURE_AUTHORITY_HOST
}

// Fingerprint implements Cloud.
func (a *AWS) Fingerprint() string { return fingerprint("aws", a) }

// Fingerprint implements Cloud.
func (g *Google) Fingerprint() string { return fingerprint("google", g) }

// Fingerprint implements Cloud. A secret counts by its text at the time of the load.
func (a *Azure) Fingerprint() string {
	plain := *a
	plain.Secret = nil
	text := ""
	if a.Secret != nil {
		text = a.Secret.Path() + "\x00" + a.Secret.Loaded().Reveal()
	}
	return fingerprint("azure", plain, text, a.Password.Reveal())
}

func fingerprint(vendor string, values ...any) string {
	text, _ := json.Marshal(values) // structs of strings have a JSON form
	sum := sha256.Sum256(slices.Concat([]byte(vendor), text))
	return vendor + ":" + hex.EncodeToString(sum[:16])
}

// FileKey is an API key in a file that may be replaced at any time.
type FileKey struct {
	auth Auth
	file *secret.File
}

// NewFileKey returns the key in a file, sent as auth says.
func NewFileKey(auth Auth, file *secret.File) *FileKey { return &FileKey{auth: auth, file: file} }

// Sign sets the key's present text.
func (k *FileKey) Sign(_ context.Context, req *http.Request, _ []byte) error {
	k.auth.set(req.Header, k.file.Get())
	return nil
}

// Renew reports whether the file has another key than the refused request.
func (k *FileKey) Renew(_ context.Context, req *http.Request, _ *http.Response) bool {
	again := http.Header{}
	k.auth.set(again, k.file.Get())
	return !slices.Equal(again[k.auth.Header()], req.Header[k.auth.Header()])
}

// Secrets returns the present key and the one before it.
func (k *FileKey) Secrets() []string { return k.file.Secrets() }

// Redactor removes the present key and the one before it from texts.
func (k *FileKey) Redactor() *secret.Redactor { return k.file.Redactor() }

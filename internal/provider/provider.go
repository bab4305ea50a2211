// Package provider knows who serves models: the protocol they speak, their
// address, their credential, and the habits that differ from the protocol's
// specification. A provider is data; code is only for a new credential scheme.
package provider

import (
	"cmp"
	"net/http"
	"net/url"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/secret"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Provider is one upstream as the gateway uses it: a catalogue row with the
// operator's settings laid over it. It does not change after it was built.
type Provider struct {
	Name     string // the operator's name for it
	Preset   string // the row of the catalogue that it is; empty where it is none
	Workers  string // the pool that it belongs to, where it was found; empty where it is written
	Protocol protocol.Name
	BaseURL  *url.URL // as the vendor's own SDK takes it; may carry a query
	// APIVersion is the version of the protocol that this provider is sent where
	// the client did not name one; empty means the protocol's own default.
	APIVersion string
	// AcceptedVersions are further versions that it takes as they are. None, and
	// no APIVersion, means every version that is known.
	AcceptedVersions []string
	// ForwardUnknownVersion sends on what asks for a version that nobody here
	// knows, unread.
	ForwardUnknownVersion bool
	Auth                  Auth
	Key                   secret.String
	Headers               http.Header // sent with every request, on top of the protocol's own

	UpstreamStream StreamMode
	IncludeUsage   bool // ask for usage on streams where the client did not
	NvExt          NvExt
	Rerank         Rerank
	Quirks         []Quirk
	Paths          []Path // other paths that are forwarded, each exactly
	Timeouts       Timeouts

	Concurrency  int // requests that each model may have open at once; 0 is the gateway's own limit
	Quota        Quota
	Health       Check
	Continuation Continuation
}

// Pool is whose retries are counted together: those of all workers that serve the
// same, or the provider's own.
func (p *Provider) Pool() string { return cmp.Or(p.Workers, p.Name) }

// Quota says what a rate limit counts for.
type Quota string

// What a rate limit may count for.
const (
	QuotaModel    Quota = "model"    // the model that was asked
	QuotaProvider Quota = "provider" // every model of the credential
)

// Check is how a provider is asked whether it is well; an empty Path is never.
type Check struct {
	Path  string // on the provider's origin
	Every time.Duration
}

// Continuation is how a provider is asked for the rest of an answer.
type Continuation string

// The ways to ask for the rest of an answer. All end the conversation with the
// answer's beginning, as a message of the assistant.
const (
	NoContinuation   Continuation = "none"
	ContinueTrailing Continuation = "trailing" // and nothing else: such a message is always continued
	ContinueVLLM     Continuation = "vllm"     // and continue_final_message without a generation prompt
	ContinuePrefix   Continuation = "prefix"   // and "prefix": true on the message
)

// Auth is how a credential is put on a request.
type Auth string

// The credential schemes.
const (
	Bearer   Auth = "bearer"         // Authorization: Bearer KEY
	APIKey   Auth = "api-key"        // api-key: KEY, as Azure has it
	XAPIKey  Auth = "x-api-key"      // x-api-key: KEY, as Anthropic has it
	XGoogKey Auth = "x-goog-api-key" // x-goog-api-key: KEY, as Google has it
	NoneAuth Auth = "none"
)

// StreamMode says whether the upstream is asked to stream.
type StreamMode string

// The stream modes.
const (
	Mirror StreamMode = "mirror" // as the client asked
	Always StreamMode = "always" // always; a client that did not ask gets the collected answer
)

// NvExt says what is done with a request's nvext member.
type NvExt string

// What may be done with nvext.
const (
	NvExtForward NvExt = "forward"
	NvExtRefuse  NvExt = "refuse"
	NvExtDrop    NvExt = "drop" // taken out, and reported in Isogloss-Fidelity
)

// Rerank is the form in which a provider is asked to order documents.
type Rerank string

// The forms of reranking.
const (
	RerankSame   Rerank = "same"   // as the client wrote it
	RerankCohere Rerank = "cohere" // version 2 of Cohere's API
	RerankJina   Rerank = "jina"
)

// Quirk is a habit of a provider that its requests are edited for.
type Quirk struct {
	Rename, To string // a top-level request member and what this provider calls it; "nvext.a" reaches into nvext
}

// RenameField is the quirk of a provider that calls a request member by another name.
func RenameField(from, to string) Quirk { return Quirk{Rename: from, To: to} }

// Path is a method and a path that a provider serves beyond its protocol.
type Path struct {
	Method string
	Path   string // as the client calls it on the gateway, for example /v1/audio/speech
}

// Timeouts bound one request to a provider.
type Timeouts struct {
	Connect    time.Duration // until the connection stands
	FirstByte  time.Duration // until the answer's headers are here
	FirstToken time.Duration // until a stream has said something; 0 sets no limit of its own
	Idle       time.Duration // between two reads of the answer
	Total      time.Duration // the whole exchange, all attempts together
}

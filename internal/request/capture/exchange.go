package capture

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/edge/agents"
)

// Exchange is one request and its response, on both sides of the gateway. Its JSON names
// are those of earlier versions, so that a command can attach to a gateway of another
// version.
type Exchange struct {
	ID            string      `json:"id"`
	Time          time.Time   `json:"time"`
	Version       string      `json:"version"` // of the gateway
	Model         string      `json:"model"`   // that the client requested
	Route         string      `json:"route"`
	Client        string      `json:"client"` // the client's protocol
	Path          string      `json:"path"`   // without the query
	Stream        bool        `json:"stream"`
	RequestHeader http.Header `json:"header"`
	RequestBody   []byte      `json:"ask"`

	Attempts []*Attempt `json:"tries"`
	Answered int        `json:"taken"` // index of the attempt whose response the client received; -1 without one

	Upstream       string      `json:"upstream"` // protocol of the target, also where no attempt was made
	Status         int         `json:"status"`
	ResponseHeader http.Header `json:"seen_header"`
	ResponseBody   []byte      `json:"seen"`
	Fidelity       string      `json:"fidelity"`
	Error          string      `json:"error,omitempty"`   // kind of the error
	Settings       []string    `json:"special,omitempty"` // settings of the provider that changed the upstream request
	Continued      bool        `json:"joined,omitempty"`  // several attempts contributed to the response

	secrets []string
	once    sync.Once
}

// Attempt is one attempt of an exchange.
type Attempt struct {
	Target        string      `json:"target"`
	Protocol      string      `json:"protocol"`
	Model         string      `json:"model"`
	Path          string      `json:"path"`
	RequestHeader http.Header `json:"header"`
	RequestBody   []byte      `json:"body"`

	Status         int         `json:"status"` // 0 without a response
	ResponseHeader http.Header `json:"answer_header"`
	ResponseBody   []byte      `json:"answer"`
	Truncated      bool        `json:"broken,omitempty"` // the response body ended with an error

	recorder *Recorder
}

// recordedHeaders are the headers that are recorded. The list is closed, so that no new
// way to send a credential is recorded.
var recordedHeaders = append([]string{
	"Accept", "Content-Type", "Content-Encoding", "User-Agent", "Retry-After", "Retry-After-Ms", "X-Should-Retry",
	"Isogloss-Fidelity-Mode", "Isogloss-Criticality", "Isogloss-Target", "Isogloss-Attempts", "Isogloss-Fidelity",
}, agents.FeatureHeaders()...)

func recordedHeader(h http.Header) http.Header {
	out := http.Header{}
	for _, name := range recordedHeaders {
		if v := h[name]; len(v) > 0 {
			out[name] = slices.Clone(v)
		}
	}
	return out
}

// redact replaces credentials in all that was recorded, before any of it leaves the
// process.
func (x *Exchange) redact() { x.once.Do(x.replaceSecrets) }

func (x *Exchange) replaceSecrets() {
	r := secret.NewRedactor(x.secrets)
	text := func(t string) string { return string(r.Redact([]byte(t))) }
	x.RequestBody, x.ResponseBody, x.Path = r.Redact(x.RequestBody), r.Redact(x.ResponseBody), text(x.Path)
	all := []http.Header{x.RequestHeader, x.ResponseHeader}
	for _, a := range x.Attempts {
		a.RequestBody, a.ResponseBody, a.Path = r.Redact(a.RequestBody), r.Redact(a.ResponseBody), text(a.Path)
		all = append(all, a.RequestHeader, a.ResponseHeader)
	}
	for _, h := range all {
		for _, values := range h {
			for i := range values {
				values[i] = text(values[i])
			}
		}
	}
}

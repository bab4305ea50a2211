package fleet

import (
	"fmt"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/targets/health"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Outcome is the outcome of one attempt.
type Outcome struct {
	Err         *llm.Error // nil: the attempt succeeded
	Aborted     bool       // the gateway itself ended the attempt
	Unreachable bool       // no connection was made
	Status      int        // of the upstream's response; 0 without one
	Header      http.Header
	FirstToken  time.Duration // until the first token, or until the headers of a non-streaming response
	Caller      string        // the client key
}

// Report updates a target's health and its concurrency limit after an attempt. An attempt
// that the client or the gateway cancelled does not count.
func Report(t *route.Target, slot limit.Permit, o Outcome) {
	if t.Live == nil {
		return
	}
	if o.Header != nil {
		t.Live.Learn(o.Header)
	}
	if o.Err == nil {
		slot.FirstToken(o.FirstToken)
		t.Live.UsedBy(o.Caller)
		t.Live.Succeeded(o.FirstToken)
		return
	}
	if o.Aborted || o.Err.Kind == llm.Cancelled {
		return
	}
	f, failed := o.failure()
	if !failed { // the client's fault: the target works
		t.Live.UsedBy(o.Caller)
		t.Live.Succeeded(0)
		return
	}
	if f.Kind == health.Timeout || f.Kind == health.Limited {
		slot.Failed()
	}
	t.Live.Failed(f)
}

// failure classifies the error. It returns false if the target is not at fault.
func (o Outcome) failure() (health.Failure, bool) {
	f := health.Failure{RetryAfter: o.Err.RetryAfter, Header: o.Header, Caller: o.Caller, Reason: o.reason()}
	kind, failed := o.kind()
	f.Kind = kind
	return f, failed
}

func (o Outcome) kind() (health.Kind, bool) {
	switch {
	case o.Err.Code == llm.MalformedOutput, o.Err.Code == llm.MissingSignature: // the target works
		return 0, false
	case o.Err.Kind == llm.UpstreamAuth:
		return health.Credential, true
	case o.Err.Code == llm.ModelMissing:
		return health.Missing, true
	case o.Status == http.StatusForbidden:
		return health.Denied, true
	case o.Status == http.StatusTooManyRequests, o.Status == statusOverloaded:
		return health.Limited, true
	case o.Status >= http.StatusInternalServerError:
		return health.Server, true
	case o.Unreachable:
		return health.Unreachable, true
	}
	switch o.Err.Kind {
	case llm.RateLimit, llm.Quota:
		return health.Limited, true
	case llm.Timeout:
		return health.Timeout, true
	case llm.Overloaded:
		return health.Server, true
	case llm.Upstream:
		return health.Broken, true
	default:
		return 0, false
	}
}

// statusOverloaded is the status that some upstreams send instead of 503.
const statusOverloaded = 529

// reason returns the error's status or code for operators. It never contains a text of the
// upstream, which may quote the prompt.
func (o Outcome) reason() string {
	switch {
	case o.Status >= http.StatusMultipleChoices:
		return fmt.Sprintf("HTTP %d", o.Status)
	case o.Err.Code != "":
		return plain.Word(o.Err.Code)
	}
	return string(o.Err.Kind)
}

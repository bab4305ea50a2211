package admin

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Bounds of run-request.
const (
	maxRunBody   = 16 << 20 // with images
	maxRuns      = 4        // at once, of an operator
	maxRunModel  = 128      // characters of a model's name in the audit log
	runUserAgent = "isogloss-run"
)

type runIn struct {
	keyPath
	Body runBody
}

// runBody is a request of the client port. The request is a text, because it is sent as it is.
type runBody struct {
	Path    string `json:"path" minLength:"1" maxLength:"1024" pattern:"^/[^/]" doc:"Path of a model endpoint of the client port, with its query, such as /v1/chat/completions."`
	Request string `json:"request" doc:"The body of the request, as text."`
}

func (s *server) runRoute() route {
	rt := route{Operation: openapi.ForMedia[runIn]("run-request", http.MethodPost, prefix+"/keys/{key}/run",
		"Run a request as a key, which pays for it; the response is that of the client port", "application/json", "text/event-stream", "application/vnd.amazon.eventstream")}
	rt.MaxBody, rt.raw = maxRunBody, s.runRequest
	return rt
}

// runRequest serves a request as the client port does, as a key and without its secret.
func (s *server) runRequest(w http.ResponseWriter, r *http.Request, c *call, read func(any) *openapi.Problem) error {
	if s.Runner == nil {
		return openapi.NewProblem(http.StatusNotImplemented, "not_available", "this gateway cannot run requests of operators")
	}
	if !s.runs.Enter(c.operator.ID, maxRuns) {
		p := openapi.NewProblem(http.StatusTooManyRequests, "too_many_runs", "%d of your requests are running; wait until one has ended, or stop one", maxRuns)
		p.Retry = retryAfter
		return p
	}
	defer s.runs.Leave(c.operator.ID)
	in := new(runIn)
	if p := read(in); p != nil {
		return p
	}
	key, err := s.keyToRun(r, c, in.Key)
	if err != nil {
		return err
	}
	inner, err := in.Body.request(r)
	if err != nil {
		return err
	}
	e := s.entry(c, allowed)
	e.Object, e.Org = "key:"+key.ID, key.Org
	begun := false
	served := s.Runner.Run(key, func(id, model string) *llm.Error {
		begun = true
		e.Detail = allowed + ": request " + id + ", model " + plain.Short(model, maxRunModel)
		ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
		defer cancel()
		if err := s.Audit.Audit(ctx, e); err != nil {
			return &llm.Error{Kind: llm.Overloaded, Code: "store_unavailable", RetryAfter: retryAfter, Message: auditLogName + " is not available, so the request was not sent; try again later", Cause: err}
		}
		return nil
	}, w, inner)
	switch {
	case !served:
		return invalid("body.path", "expected the path of a model endpoint of the client port, such as /v1/chat/completions")
	case !begun: // refused before its model was known
		e.Detail = failed + ": refused"
		s.writeAudit(r.Context(), e)
	}
	return nil
}

// keyToRun returns a client's key that the operator may use. A person's account is only for that person:
// a row of the ledger with the person's name must be the person's own.
func (s *server) keyToRun(r *http.Request, c *call, id string) (access.Record, error) {
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	key, err := s.key(ctx, c, id)
	switch {
	case err != nil:
		return key, err
	case key.Role != "":
		return key, conflict("operator_key", "this is an operator's key, which no request can use; choose a client's key")
	case key.Owner != "":
		return key, forbidden("person_only", "this key belongs to a person, who alone may use it; choose a client's key")
	case access.IsPerson(id) && id != c.operator.ID:
		return key, forbidden("person_only", "only the person may use this account; choose a client's key")
	}
	return key, nil
}

// request returns the request of the client port. It has nothing of the operator's request but the
// address and the context: no header and no credential.
func (b *runBody) request(r *http.Request) (*http.Request, error) {
	to, err := url.ParseRequestURI(b.Path)
	if err != nil || to.Host != "" || to.Scheme != "" {
		return nil, invalid("body.path", "expected a path with its query")
	}
	inner, err := http.NewRequestWithContext(r.Context(), http.MethodPost, to.String(), strings.NewReader(b.Request))
	if err != nil {
		return nil, invalid("body.path", "expected a path with its query")
	}
	inner.RemoteAddr, inner.Host = r.RemoteAddr, r.Host
	inner.Header = http.Header{"Content-Type": {"application/json"}, "User-Agent": {runUserAgent}}
	return inner, nil
}

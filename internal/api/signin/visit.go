package signin

import (
	"context"
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

// VisitPath is the page of the client port on which clients see what they use, and people keep their own keys.
// Sessions of the port are for this page and for the endpoints that it shows; paths of models read no cookie.
const VisitPath = "/my-usage"

const (
	visitCookie  = "isogloss-usage"
	visitSecret  = "session of the client port"
	visitAttempt = "visit" // in place of a user code, which has eight letters
)

// Visitor returns the client of a request with the cookie of a session of the client port.
func (s *Server) Visitor(r *http.Request) (access.Visitor, *llm.Error) {
	if fault := fromOwnPage(r); fault != nil {
		return access.Visitor{}, fault
	}
	t, fault := s.visitors.tokens(r)
	switch {
	case fault != nil:
		return access.Visitor{}, fault
	case t.Proof.Key != "":
		return s.o.People.ProvenVisitor(r, t.Proof)
	}
	return s.o.People.Admitted(r, t.Bearer)
}

// HasVisit reports whether a request has the cookie of a session of the client port.
func (s *Server) HasVisit(r *http.Request) bool { return s != nil && s.visitors.secret(r) != "" }

// BeginVisit begins a session of the browser of a client with a key.
func (s *Server) BeginVisit(ctx context.Context, r *http.Request, key string) (*http.Cookie, error) {
	if fault := fromOwnPage(r); fault != nil {
		return nil, fault
	}
	inner := r.Clone(ctx)
	inner.Header = http.Header{"Authorization": {"Bearer " + key}}
	_, proof, fault := s.o.People.Prove(inner)
	if fault == nil {
		_, fault = s.o.People.ProvenVisitor(inner, proof)
	}
	if fault != nil {
		return nil, fault
	}
	return s.visitors.begin(ctx, r, proof.Key, tokens{Proof: proof}, keySessionTime)
}

// StartVisit sends a person to the identity provider, for a session of the client port.
func (s *Server) StartVisit(w http.ResponseWriter, r *http.Request) {
	s.begin(w, r, s.o.URL, callbackPath, visitAttempt)
}

// finishVisit begins a session of the client port with the provider's answer.
func (s *Server) finishVisit(w http.ResponseWriter, r *http.Request, t tokens, person *access.Person, err error) {
	if err != nil {
		status, message := explain(err)
		if status == http.StatusServiceUnavailable {
			s.o.Logger.Warn("a sign-in failed", "error", err, "address", access.Peer(r))
		} else {
			s.auditRefusal(r, person, "page", message, err)
		}
		writePage(w, status, "Not signed in", message, "")
		return
	}
	c, err := s.visitors.begin(r.Context(), r, person.Record.ID, t, sessionTime)
	if err != nil {
		s.o.Logger.Warn("a sign-in failed", "error", err)
		writePage(w, http.StatusServiceUnavailable, "Not signed in", "The gateway's store cannot be reached. Try again in a minute.", s.o.URL+VisitPath)
		return
	}
	s.audit(r, person, "sign-in", "page of the client port")
	http.SetCookie(w, c)
	writeOnward(w, s.o.URL+VisitPath)
}

// EndVisit ends the session of a browser.
func (s *Server) EndVisit(w http.ResponseWriter, r *http.Request) error {
	if fault := fromOwnPage(r); fault != nil {
		return fault
	}
	s.signOut(w, r, &s.visitors, "my-usage")
	return nil
}

package signin

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

// sessionTime is how long a session lasts that began at the identity provider. It ends earlier if the
// provider does not renew its tokens, or if the person is revoked.
const sessionTime = 8 * time.Hour

// renewTimeout is how long the renewal of a session's tokens may take.
const renewTimeout = 30 * time.Second

const sessionCookie = "isogloss-session"

// startLogin sends an operator to the identity provider.
func (s *Server) startLogin(w http.ResponseWriter, r *http.Request) {
	s.begin(w, r, s.o.Admin, loginCallbackPath, "")
}

// finishLogin creates a session with the provider's answer.
func (s *Server) finishLogin(w http.ResponseWriter, r *http.Request) {
	a, ok := s.readAttempt(w, r, s.o.Admin)
	if !ok || a.code != "" {
		writePage(w, http.StatusBadRequest, "Not signed in", "This sign-in was not started in this browser, or it is too old. Start again.", s.o.Admin+loginPath)
		return
	}
	t, person, err := s.finish(r, a, s.o.Admin+loginCallbackPath)
	if err == nil {
		if _, fault := person.Operator(); fault != nil {
			err = fault
		}
	}
	if err != nil {
		status, message := explain(err)
		if status == http.StatusServiceUnavailable {
			s.o.Logger.Warn("an operator's sign-in failed", "error", err, "address", access.Peer(r))
		} else {
			s.auditRefusal(r, person, "browser", message, err)
		}
		writePage(w, status, "Not signed in", message, "")
		return
	}
	c, err := s.operators.begin(r.Context(), r, person.Record.ID, t, sessionTime)
	if err != nil {
		s.o.Logger.Warn("an operator's sign-in failed", "error", err)
		writePage(w, http.StatusServiceUnavailable, "Not signed in", "The gateway's store cannot be reached. Try again in a minute.", s.o.Admin+loginPath)
		return
	}
	s.audit(r, person, "sign-in", "browser, role "+string(person.Role))
	http.SetCookie(w, c)
	writeSession(w, string(person.Role))
}

// logout ends the session of a browser, and its tokens at the provider.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	again := "/"
	if s.HasSessions() {
		again = s.o.Admin + loginPath
	}
	s.signOut(w, r, &s.operators, again)
}

// signOut ends the session of a browser. again is where the person can sign in.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request, b *browsers, again string) {
	secret := b.secret(r)
	http.SetCookie(w, b.newCookie(r, "", 0))
	id := digest(b.purpose, secret)
	n, err := s.o.Store.Session(r.Context(), id, time.Now())
	if err == nil {
		err = s.o.Store.EndSession(r.Context(), id)
	}
	if err != nil && !errors.Is(err, store.ErrNoSignIn) {
		s.o.Logger.Warn("a session cannot be ended", "error", err)
		writePage(w, http.StatusServiceUnavailable, "Not signed out", "The gateway's store cannot be reached. Try again in a minute.", "")
		return
	}
	if t, opened := unseal(secret, n.Tokens); err == nil && opened == nil {
		s.auditSignOut(r, t)
		if t.Refresh != "" {
			_ = s.provider.revoke(r.Context(), netip.Addr{}, t.Refresh) // the session is over in any case
		}
	}
	writePage(w, http.StatusOK, "Signed out", "Your session has ended.", again)
}

func (s *Server) auditSignOut(r *http.Request, t tokens) {
	if t.Proof.Key != "" {
		s.auditRecord(r, access.Record{ID: t.Proof.Key}, "sign-out", "browser")
		return
	}
	person, _ := s.o.People.Admit(r, t.Bearer)
	s.audit(r, person, "sign-out", "browser")
}

// HasSessions reports whether operators sign in at the identity provider.
func (s *Server) HasSessions() bool { return s.SignsIn() && s.o.Admin != "" }

// HasSession reports whether a request has the cookie of a session.
func (s *Server) HasSession(r *http.Request) bool { return s != nil && s.operators.secret(r) != "" }

// Operator returns the operator of a request with the cookie of a session. Only pages of the same
// origin may use the cookie.
func (s *Server) Operator(r *http.Request) (access.Record, *llm.Error) {
	if fault := fromOwnPage(r); fault != nil {
		return access.Record{}, fault
	}
	t, fault := s.operators.tokens(r)
	switch {
	case fault != nil:
		return access.Record{}, fault
	case t.Proof.Key != "":
		return s.o.People.ProvenOperator(r, t.Proof)
	}
	p, fault := s.o.People.Admit(r, t.Bearer)
	if fault != nil {
		return access.Record{}, fault
	}
	return p.Operator()
}

// tokens returns the tokens of the session of a request.
func (b *browsers) tokens(r *http.Request) (tokens, *llm.Error) {
	t, err := b.s.sessionTokens(r, b.purpose, b.secret(r))
	var fault *llm.Error
	switch {
	case err == nil:
		return t, nil
	case errors.Is(err, store.ErrNoSignIn), errors.Is(err, errRefused):
		return t, &llm.Error{Kind: llm.Authentication, Code: "session_ended", Message: "the session has ended; sign in again"}
	case errors.As(err, &fault):
		return t, fault
	}
	return t, &llm.Error{Kind: llm.Overloaded, Code: "session_unavailable", Message: "the session cannot be checked, because the store or the identity provider cannot be reached; try again", Cause: err}
}

// sessionTokens returns the tokens of a session, renewed if they have expired.
func (s *Server) sessionTokens(r *http.Request, purpose, secret string) (tokens, error) {
	id := digest(purpose, secret)
	t, _, err := s.openSession(r, id, secret)
	if err != nil || t.Proof.Key != "" || time.Now().Before(t.Expires) {
		return t, err
	}
	// The renewal goes on if the browser leaves: the provider gives a refresh token once, and without the
	// new one the session would end.
	renewed, err, _ := s.renewals.Do(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), renewTimeout)
		defer cancel()
		return s.renewSession(r.WithContext(ctx), id, secret)
	})
	t, _ = renewed.(tokens)
	return t, err
}

func (s *Server) openSession(r *http.Request, id, secret string) (tokens, store.SignIn, error) {
	n, err := s.o.Store.Session(r.Context(), id, time.Now())
	if err != nil {
		return tokens{}, n, err
	}
	t, err := unseal(secret, n.Tokens)
	return t, n, err
}

// renewSession renews the tokens of a session. If the provider refuses, another node may have used the
// refresh token before.
func (s *Server) renewSession(r *http.Request, id, secret string) (tokens, error) {
	old, n, err := s.openSession(r, id, secret)
	if err != nil || time.Now().Before(old.Expires) {
		return old, err
	}
	t, err := s.renew(r, netip.Addr{}, old.Refresh)
	if errors.Is(err, errRefused) {
		if other, _, again := s.openSession(r, id, secret); again == nil && time.Now().Before(other.Expires) {
			return other, nil
		}
	}
	if err != nil {
		return t, err
	}
	sealed, err := seal(n.Seal, t)
	if err != nil {
		return t, err
	}
	return t, s.o.Store.RenewSession(r.Context(), id, sealed)
}

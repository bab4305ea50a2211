package signin

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

const (
	deviceGrant  = "urn:ietf:params:oauth:grant-type:device_code"
	pollInterval = 5 * time.Second
	pollSlack    = time.Second // by which a client may poll too early
)

// Purposes of digests.
const (
	deviceSecret  = "device code"
	userSecret    = "user code"
	sessionSecret = "session"
)

// serveMetadata describes the gateway as an authorization server (RFC 8414).
func (s *Server) serveMetadata(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"issuer":                                s.o.URL,
		"device_authorization_endpoint":         s.o.URL + devicePath,
		"token_endpoint":                        s.o.URL + tokenPath,
		"revocation_endpoint":                   s.o.URL + revokePath,
		"grant_types_supported":                 []string{deviceGrant, "refresh_token"},
		"response_types_supported":              []string{},
		"token_endpoint_auth_methods_supported": []string{"none"},
	})
}

// startDevice creates a device code and a user code.
func (s *Server) startDevice(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	if wait := s.started.Add(r, now); wait > 0 {
		writeError(w, http.StatusTooManyRequests, "slow_down", "this address has started too many sign-ins; wait", wait)
		return
	}
	device, user := newSecret(), newUserCode()
	key, err := sealKey(device)
	if err == nil {
		err = s.o.Store.AddSignIn(r.Context(), store.SignIn{ID: digest(deviceSecret, device), Code: digest(userSecret, user), Status: store.SignInPending, Seal: key, Expires: now.Add(signInTime)}, now)
	}
	if err != nil {
		s.unavailable(w, "a sign-in cannot begin", err)
		return
	}
	shown := user[:4] + "-" + user[4:]
	answer := map[string]any{
		"device_code": device, "user_code": shown, "expires_in": int(signInTime.Seconds()), "interval": int(pollInterval.Seconds()),
		"verification_uri": s.o.URL + verifyPath, "verification_uri_complete": s.o.URL + verifyPath + "?user_code=" + shown,
	}
	if s.o.Notice != "" {
		answer["login_notice"] = s.o.Notice
	}
	writeJSON(w, http.StatusOK, answer)
}

// userLetters are the letters of user codes. Without vowels they form no words.
const userLetters = "BCDFGHJKLMNPQRSTVWXZ"

// newUserCode returns eight random letters, which is 34 bits.
func newUserCode() string {
	code := make([]byte, 0, 8)
	random := make([]byte, 1)
	for len(code) < cap(code) {
		_, _ = rand.Read(random)          // never fails
		if n := int(random[0]); n < 240 { // a multiple of 20, so that all letters are equally frequent
			code = append(code, userLetters[n%len(userLetters)])
		}
	}
	return string(code)
}

// userCode returns the letters of a user code as a person has typed it.
func userCode(text string) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(userLetters, c) {
			return c
		}
		return -1
	}, strings.ToUpper(text))
}

// showVerify shows the page on which a person enters the user code. The code of the link is filled in
// and never sent without the person.
func (s *Server) showVerify(w http.ResponseWriter, r *http.Request) {
	writeForm(w, http.StatusOK, userCode(r.URL.Query().Get("user_code")), "")
}

// startVerify sends a person who has entered a user code to the identity provider.
func (s *Server) startVerify(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	code := userCode(r.PostFormValue("user_code"))
	if wait := s.failures.Wait(r, now); wait > 0 {
		w.Header().Set("Retry-After", seconds(wait))
		writeForm(w, http.StatusTooManyRequests, code, "There were too many wrong codes from your address. Wait a minute.")
		return
	}
	_, err := s.o.Store.PendingSignIn(r.Context(), digest(userSecret, code), now)
	switch {
	case errors.Is(err, store.ErrNoSignIn):
		s.failures.Add(r, now)
		writeForm(w, http.StatusBadRequest, "", "This code is wrong or has expired. Check it, or start the sign-in again on your device.")
	case err != nil:
		s.o.Logger.Warn("a sign-in cannot begin", "error", err)
		writeForm(w, http.StatusServiceUnavailable, code, "The gateway's store cannot be reached. Try again in a minute.")
	default:
		s.begin(w, r, s.o.URL, callbackPath, digest(userSecret, code))
	}
}

// finishVerify approves or denies the sign-in of a device with the provider's answer.
func (s *Server) finishVerify(w http.ResponseWriter, r *http.Request) {
	a, ok := s.readAttempt(w, r, s.o.URL)
	if !ok || a.code == "" {
		writePage(w, http.StatusBadRequest, "Not signed in", "This sign-in was not started in this browser, or it is too old. Enter the code again.", s.o.URL+verifyPath)
		return
	}
	t, person, err := s.finish(r, a, s.o.URL+callbackPath)
	if a.code == visitAttempt {
		s.finishVisit(w, r, t, person, err)
		return
	}
	if err != nil {
		status, message := explain(err)
		if status == http.StatusServiceUnavailable {
			s.o.Logger.Warn("a sign-in failed", "error", err, "address", access.Peer(r))
		} else {
			_ = s.o.Store.FinishSignIn(r.Context(), a.code, store.SignInDenied, nil, time.Now()) // it expires otherwise
			s.auditRefusal(r, person, "device", message, err)
		}
		writePage(w, status, "Not signed in", message, "")
		return
	}
	if err := s.approve(r, a.code, t); err != nil {
		s.o.Logger.Warn("a sign-in failed", "error", err, "address", access.Peer(r))
		writePage(w, http.StatusBadRequest, "Not signed in", "The sign-in on your device has expired. Start it again there.", "")
		return
	}
	s.audit(r, person, "sign-in", "device")
	writePage(w, http.StatusOK, "Signed in", "You can close this page and return to your terminal.", "")
}

// approve seals the tokens for the device.
func (s *Server) approve(r *http.Request, code string, t tokens) error {
	now := time.Now()
	n, err := s.o.Store.PendingSignIn(r.Context(), code, now)
	if err != nil {
		return err
	}
	sealed, err := seal(n.Seal, t)
	if err != nil {
		return err
	}
	return s.o.Store.FinishSignIn(r.Context(), code, store.SignInApproved, sealed, now)
}

// serveToken gives tokens to a device, and new ones for a refresh token.
func (s *Server) serveToken(w http.ResponseWriter, r *http.Request) {
	device, refresh := r.PostFormValue("device_code"), r.PostFormValue("refresh_token")
	switch grant := r.PostFormValue("grant_type"); {
	case grant == deviceGrant && device != "":
		s.takeTokens(w, r, device)
	case grant == "refresh_token" && refresh != "":
		s.refreshTokens(w, r, refresh)
	case grant == deviceGrant, grant == "refresh_token":
		writeError(w, http.StatusBadRequest, "invalid_request", "the device code or the refresh token is missing", 0)
	default:
		writeError(w, http.StatusBadRequest, "unsupported_grant_type", "the grant type is not supported; use "+deviceGrant+" or refresh_token", 0)
	}
}

func (s *Server) takeTokens(w http.ResponseWriter, r *http.Request, device string) {
	now := time.Now()
	n, err := s.o.Store.TakeSignIn(r.Context(), digest(deviceSecret, device), now)
	switch {
	case errors.Is(err, store.ErrNoSignIn):
		writeError(w, http.StatusBadRequest, "expired_token", "the device code is unknown, used or expired; sign in again", 0)
		return
	case err != nil:
		s.unavailable(w, "a sign-in cannot be read", err)
		return
	case n.Status == store.SignInDenied:
		writeError(w, http.StatusBadRequest, "access_denied", "the sign-in was refused or cancelled", 0)
		return
	case n.Status == store.SignInPending && now.Sub(n.Polled) < pollInterval-pollSlack:
		writeError(w, http.StatusBadRequest, "slow_down", "poll less often", 0)
		return
	case n.Status == store.SignInPending:
		writeError(w, http.StatusBadRequest, "authorization_pending", "the person has not signed in yet", 0)
		return
	}
	t, err := unseal(device, n.Tokens)
	if err != nil {
		s.unavailable(w, "the tokens of a sign-in cannot be opened", err)
		return
	}
	writeTokens(w, t)
}

// refreshTokens renews tokens. A person who is not admitted any more has to sign in again.
func (s *Server) refreshTokens(w http.ResponseWriter, r *http.Request, refresh string) {
	if s.limited(w, r) {
		return
	}
	t, err := s.renew(r, access.Network(r), refresh)
	if errors.Is(err, errRefused) {
		s.unknown.Add(r, time.Now())
	}
	var fault *llm.Error
	switch {
	case errors.As(err, &fault) && (fault.Kind == llm.Authentication || fault.Kind == llm.Permission), errors.Is(err, errRefused):
		writeError(w, http.StatusUnauthorized, "invalid_grant", "the sign-in has ended; sign in again", 0)
	case err != nil:
		s.unavailable(w, "tokens cannot be renewed", err)
	default:
		writeTokens(w, t)
	}
}

// limited refuses a client from whose address too many unknown tokens came.
func (s *Server) limited(w http.ResponseWriter, r *http.Request) bool {
	wait := s.unknown.Wait(r, time.Now())
	if wait > 0 {
		writeError(w, http.StatusTooManyRequests, "slow_down", "too many unknown tokens came from this address; wait", wait)
	}
	return wait > 0
}

// renew gets new tokens and checks that the gateway admits their owner.
func (s *Server) renew(r *http.Request, from netip.Addr, refresh string) (tokens, error) {
	got, err := s.provider.refresh(r.Context(), from, refresh)
	if err != nil {
		return tokens{}, err
	}
	t, err := s.provider.tokens(got)
	if err != nil {
		return t, err
	}
	_, err = s.admit(r, &t)
	return t, err
}

// serveRevoke ends a token (RFC 7009): an access token here, and either kind at the identity provider.
func (s *Server) serveRevoke(w http.ResponseWriter, r *http.Request) {
	token := r.PostFormValue("token")
	if token == "" {
		writeError(w, http.StatusBadRequest, "invalid_request", "the token is missing", 0)
		return
	}
	if s.limited(w, r) {
		return
	}
	known, err := s.revokeBearer(r, token)
	if !known { // the provider does not say whether it knows a token, such as a refresh token
		s.unknown.Add(r, time.Now())
	}
	if err := errors.Join(err, s.provider.revoke(r.Context(), access.Network(r), token)); err != nil {
		s.unavailable(w, "a token cannot be revoked", err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{})
}

// unavailable answers a request that may be tried again.
func (s *Server) unavailable(w http.ResponseWriter, what string, err error) {
	s.o.Logger.Warn(what, "error", err)
	writeError(w, http.StatusServiceUnavailable, "temporarily_unavailable", "the identity provider or the gateway's store cannot be reached; try again", 2*time.Second)
}

func writeTokens(w http.ResponseWriter, t tokens) {
	answer := map[string]any{"access_token": t.Bearer, "token_type": "Bearer", "expires_in": max(0, int(time.Until(t.Expires).Seconds()))}
	if t.Refresh != "" {
		answer["refresh_token"] = t.Refresh
	}
	if t.Mail != "" {
		answer["email"] = t.Mail
	}
	writeJSON(w, http.StatusOK, answer)
}

// writeError writes an error as RFC 6749 defines it.
func writeError(w http.ResponseWriter, status int, code, message string, wait time.Duration) {
	if wait > 0 {
		w.Header().Set("Retry-After", seconds(wait))
	}
	writeJSON(w, status, map[string]any{"error": code, "error_description": message})
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds()) + 1) }

func writeJSON(w http.ResponseWriter, status int, v map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that disconnected needs nothing
}

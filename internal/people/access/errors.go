package access

import (
	"errors"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/edge/agents"
	"github.com/isogloss-gateway/isogloss/llm"
)

// ErrUnknown is returned by a [Source] that has no key with an id.
var ErrUnknown = errors.New("there is no such key")

// Errors for callers. No message contains a part of a key. A caller without the correct
// secret learns only that the key is wrong.

func errNoKey(r *http.Request) *llm.Error {
	return &llm.Error{Kind: llm.Authentication, Message: "no API key was sent; " + agents.HintFor(r)}
}

func errWrongKey() *llm.Error {
	return &llm.Error{Kind: llm.Authentication, Code: "invalid_api_key",
		Message: "this API key is not known to the gateway; check that it was copied completely, or ask the gateway's operator for one"}
}

func errExpired() *llm.Error {
	return &llm.Error{Kind: llm.Authentication, Code: "expired_api_key", Message: "this API key has expired; ask the gateway's operator for a new one"}
}

func errRotated() *llm.Error {
	return &llm.Error{Kind: llm.Authentication, Code: "expired_api_key", Message: "this API key was replaced by a newer one; use that, or ask the gateway's operator for it"}
}

func errRevoked() *llm.Error {
	return &llm.Error{Kind: llm.Authentication, Code: "revoked_api_key", Message: "this API key was revoked; ask the gateway's operator for a new one"}
}

func errPersonRevoked() *llm.Error {
	return &llm.Error{Kind: llm.Permission, Code: "revoked_account", Message: "your access to this gateway was revoked; ask the gateway's operator"}
}

func errPersonRemoved() *llm.Error {
	return &llm.Error{Kind: llm.Permission, Code: "removed_account", Message: "your company's directory does not assign this gateway to you, or no longer does; ask its administrator"}
}

func errNoToken() *llm.Error {
	return &llm.Error{Kind: llm.Authentication, Code: "invalid_token", Message: "the token is not a signed JWT of a configured identity provider"}
}

func errNoRole() *llm.Error {
	return &llm.Error{Kind: llm.Permission, Code: "no_role", Message: "your account has no role in the admin API; ask the gateway's operator for one"}
}

func errBlocked() *llm.Error {
	return &llm.Error{Kind: llm.Permission, Code: "blocked", Message: "the team or organisation of this API key is blocked; ask the gateway's operator to unblock it"}
}

func errAddress() *llm.Error {
	return &llm.Error{Kind: llm.Permission, Code: "address_not_allowed",
		Message: "this API key may not be used from your address; send from a network that it allows, or ask the gateway's operator to add yours"}
}

func errEndpoint() *llm.Error {
	return &llm.Error{Kind: llm.Permission, Code: "endpoint_not_allowed",
		Message: "this API key may not use this endpoint; ask the gateway's operator to allow it"}
}

func errModel() *llm.Error {
	return &llm.Error{Kind: llm.Permission, Code: llm.ModelNotAllowed, Param: "model",
		Message: "this API key may not use this model; GET /v1/models lists those that it may, and the gateway's operator can allow more"}
}

func errOperatorKey() *llm.Error {
	return &llm.Error{Kind: llm.Permission, Code: "operator_key", Message: "this is an operator's key, for the admin API only; send a client's key"}
}

func errClientKey() *llm.Error {
	return &llm.Error{Kind: llm.Permission, Code: "client_key", Message: "this is a client's key, which the admin API does not accept; send an operator's key"}
}

// errUnavailable is the error for keys that cannot be checked now. It is never 401: clients discard
// a key that is reported as wrong.
func errUnavailable(message string, cause error) *llm.Error {
	return &llm.Error{Kind: llm.Overloaded, Code: "keys_unavailable", RetryAfter: time.Second, Message: message, Cause: cause}
}

func errTooManyWrong(wait time.Duration) *llm.Error {
	return &llm.Error{Kind: llm.RateLimit, Code: "too_many_wrong_keys", RetryAfter: wait,
		Message: "too many wrong API keys came from your address; wait, and send a valid key"}
}

package scim

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

// Error types of RFC 7644, section 3.12.
const (
	invalidFilter = "invalidFilter"
	invalidSyntax = "invalidSyntax"
	invalidPath   = "invalidPath"
	invalidValue  = "invalidValue"
	mutability    = "mutability"
	uniqueness    = "uniqueness"
)

// fault is a problem that is sent as a SCIM error.
type fault struct{ *openapi.Problem }

// write sends the error.
func (f *fault) write(w http.ResponseWriter) {
	body := struct {
		Schemas []string `json:"schemas"`
		Status  string   `json:"status"`
		Type    string   `json:"scimType,omitempty"`
		Detail  string   `json:"detail"`
	}{Schemas: []string{"urn:ietf:params:scim:api:messages:2.0:Error"}, Status: strconv.Itoa(f.Status), Detail: f.Detail}
	if slices.Contains([]string{invalidFilter, invalidSyntax, invalidPath, invalidValue, mutability, uniqueness}, f.Code) {
		body.Type = f.Code
	}
	f.SetHeader(w.Header())
	w.Header().Set("Content-Type", "application/scim+json")
	w.WriteHeader(f.Status)
	_ = json.MarshalWrite(w, body) // the client may have disconnected
}

// Errors never quote what was sent.

func notFound(detail string) *fault {
	return &fault{openapi.NewProblem(http.StatusNotFound, "not_found", "%s", detail)}
}

func invalid(kind, format string, args ...any) *openapi.Problem {
	return openapi.NewProblem(http.StatusBadRequest, kind, format, args...)
}

func tooMuch(format string, args ...any) *openapi.Problem {
	return openapi.NewProblem(http.StatusRequestEntityTooLarge, "too_large", format, args...)
}

func full(format string, args ...any) *openapi.Problem {
	return openapi.NewProblem(http.StatusInsufficientStorage, "full", format, args...)
}

var errMissing = openapi.NewProblem(http.StatusNotFound, "not_found", "there is no such resource in this directory")

// asProblem returns the problem of an error of the store.
func asProblem(err error) error {
	var p *openapi.Problem
	var own store.Error
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, store.ErrExists):
		return openapi.NewProblem(http.StatusConflict, uniqueness, "another resource of this directory has the same userName, externalId or displayName")
	case errors.As(err, &own):
		return invalid(invalidValue, "%s", own.Error())
	}
	return admin.Unavailable(err)
}

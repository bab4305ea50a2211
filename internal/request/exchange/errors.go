package exchange

import (
	"bytes"
	"cmp"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// RejectedCredential returns the client's error for an upstream that rejects the
// gateway's credential.
func RejectedCredential(p *provider.Provider) *llm.Error {
	wrong := "api_key"
	if p.Cloud != nil {
		wrong = "auth"
	}
	return &llm.Error{Kind: llm.UpstreamAuth, Message: "the provider '" + p.Name + "' rejected the gateway's own credential; its " + wrong + " must be fixed"}
}

// maxQuoted is the number of bytes of a path that an error quotes.
const maxQuoted = 200

// Unserved returns the error for a model none of whose providers supports the endpoint.
// For a token count it is a 501, after which clients estimate the count themselves. For a
// compaction it is a 404, because Codex would retry a 501.
func Unserved(c *Call, by protocol.Name) *llm.Error {
	kind, code := llm.InvalidRequest, "unsupported_protocol"
	switch c.Operation {
	case codec.CountTokens:
		kind, code = llm.NotSupported, ""
	case codec.Compact:
		kind, code = llm.NotFound, "not_supported"
	}
	path := c.Client.URL.EscapedPath()
	return &llm.Error{Kind: kind, Code: code, Param: "model",
		Message: "the model '" + Printable(c.Body.Model) + "' is served over " + string(by) + ", which has no equivalent of " + path[:min(len(path), maxQuoted)]}
}

// NamesModel reports whether an upstream's error response says that it does not have the
// model: with the code for that, or with the model's name.
func NamesModel(err *llm.Error, status int, model string) bool {
	return status == http.StatusNotFound && (err.Code == "model_not_found" || err.Relayed && hasWord(err.Message, model))
}

// hasWord reports whether a text has a word that is not a part of a longer one.
func hasWord(text, word string) bool {
	part := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_' }
	for at := 0; word != ""; at += len(word) {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		at += i
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[at+len(word):])
		if !part(before) && !part(after) {
			return true
		}
	}
	return false
}

// streamWord finds the word stream in an error: alone, as the start of a longer word, or as a part
// of an operation's name, such as InvokeModelWithResponseStream.
var streamWord = regexp.MustCompile(`\b[Ss]tream|[a-z]Stream`)

// RefusesStream reports whether an upstream's error says that it does not stream the response.
// Some models do not stream, some not with tools, and some not for every account.
func RefusesStream(err *llm.Error, status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnprocessableEntity, http.StatusNotImplemented:
		return streamWord.MatchString(err.Param) || streamWord.MatchString(err.Message)
	}
	return false
}

// MissingModel returns the client's error for a model whose target does not exist. The
// client used a name of the gateway's, so it is not its mistake.
func MissingModel(name string, t *Target) *llm.Error {
	return &llm.Error{Kind: llm.Upstream, Code: llm.ModelMissing, Param: "model", Message: "the model '" + name + "' cannot be served: the provider '" +
		t.Provider.Name + "' has no model '" + string(Redact([]byte(Printable(t.Model)), t.Provider)) + "'; the target must be fixed in the gateway's configuration"}
}

// Redact removes the gateway's credentials and the names of the operator's cloud account from
// an upstream's error. Some upstreams quote the key that they reject, and clouds the account.
func Redact(body []byte, p *provider.Provider) []byte { return p.Redactor().Redact(body) }

// RedactError removes credentials and names of the operator's account from a decoded error of
// an upstream.
func RedactError(err *llm.Error, p *provider.Provider) *llm.Error {
	if err == nil || !err.Relayed {
		return err
	}
	e := *err
	for _, text := range []*string{&e.Message, &e.Code, &e.Param} {
		*text = string(Redact([]byte(*text), p))
	}
	return &e
}

// HasPrivate reports whether one of the values of a header contains a credential of the gateway or
// a name of the operator's cloud account. A value that is a request id is no such name.
func HasPrivate(p *provider.Provider, values ...string) bool {
	r := p.Redactor()
	return slices.ContainsFunc(values, func(v string) bool { return r.Contains(v) || r.HasNames("request id: "+v) })
}

// SetNoRetry sets the header that keeps SDKs from retrying after a 429 that a retry
// cannot resolve, such as an exhausted account (VER-26).
func (d *Delivery) SetNoRetry(err *llm.Error) {
	if err.Kind == llm.Quota {
		d.Writer.SetHeader(shouldRetry, "false")
	}
}

// SetRetry sets the headers that say when a client may retry an error, in whole seconds, or
// that it should not: Claude Code retries a 401 for minutes.
func SetRetry(h http.Header, err *llm.Error) {
	if err.RetryAfter > 0 {
		h["Retry-After"] = []string{strconv.FormatInt(int64(math.Ceil(err.RetryAfter.Seconds())), 10)}
	}
	if err.Kind == llm.Authentication || err.Kind == llm.NotSupported {
		h[shouldRetry] = []string{"false"}
	}
}

// SendStatus relays a response whose status is not 2xx, to a client of the same dialect
// or for a forwarded path.
func (d *Delivery) SendStatus() *llm.Error {
	switch status := d.Trip.Response.StatusCode; {
	case status == http.StatusUnauthorized: // the upstream rejects the gateway's credential, not the client's
		return RejectedCredential(d.Target.Provider)
	case status >= 400:
		return d.sendError(status)
	default:
		return &llm.Error{Kind: llm.Upstream, Code: "upstream_redirect", Message: "the upstream responded with status " + strconv.Itoa(status) + "; check the provider's base_url"}
	}
}

// sendError relays an upstream's error response. A body that is not JSON is usually a
// proxy's error page; the client then gets the status as an error in its dialect.
func (d *Delivery) sendError(status int) *llm.Error {
	body, err := d.Trip.ReadError()
	if err != nil {
		return err
	}
	fault := &llm.Error{Kind: upstream.KindOf(status), Status: status, Code: "upstream_status", Relayed: true,
		Message: "the upstream responded with status " + strconv.Itoa(status)}
	if !isJSON(body) {
		fault.Relayed = false
		return fault
	}
	if dialect := d.Target.Dialect; dialect != nil {
		decoded := RedactError(dialect.Codec.DecodeError(status, d.Trip.Response.Header, body), d.Target.Provider)
		fault.Kind, fault.Code = decoded.Kind, cmp.Or(decoded.Code, fault.Code) // they are logged
		d.SetNoRetry(decoded)
		if d.hidesOverflow(decoded, body) {
			return decoded
		}
	}
	d.Result.Err = fault
	d.SendBody(status, Redact(body, d.Target.Provider), d.CopyContentType)
	return nil
}

// hidesOverflow reports whether an upstream rejects a prompt as too long without using
// the dialect's wording. Agents search for that wording to shorten the prompt (ERR-18).
func (d *Delivery) hidesOverflow(e *llm.Error, body []byte) bool {
	words := d.Call.Dialect.Overflow
	return words != "" && e.Code == llm.ContextLength && !bytes.Contains(body, []byte(words))
}

// CopyContentType sets the content type of the upstream's response.
func (d *Delivery) CopyContentType(h http.Header) {
	if v := d.Trip.Response.Header["Content-Type"]; len(v) > 0 && !HasPrivate(d.Target.Provider, v...) {
		h["Content-Type"] = v
	}
}

// isJSON reports whether a body is a JSON object or array, with duplicate names and
// invalid UTF-8 allowed.
func isJSON(body jsontext.Value) bool {
	kind := body.Kind()
	return (kind == '{' || kind == '[') && body.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

package relay

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/llm"
)

// maxErrorBody bounds an upstream's error answer.
const maxErrorBody = 1 << 20

// answer writes the upstream's answer to the client. An error that came inside it
// is in the upstream's own words.
func (r *Relay) answer(x *exchange) *llm.Error {
	if x.translation != nil {
		return x.told(r.answerTranslated(x))
	}
	return x.told(r.passOn(x))
}

// passOn passes the answer on as it came where both sides agree on streaming, else
// collected or taken apart.
func (r *Relay) passOn(x *exchange) *llm.Error {
	events := mediaType(x.upstream.Header) == "text/event-stream"
	switch status := x.upstream.StatusCode; {
	case status < 200 || status >= 300:
		return r.answerStatus(x)
	case x.ask.stream && events:
		return r.relayStream(x)
	case x.ask.stream != events && x.endpoint.generates && !x.endpoint.collect:
		return r.otherForm(x)
	case x.ask.stream && x.endpoint.collect:
		return r.explode(x)
	case events && x.endpoint.collect:
		return r.collect(x)
	}
	return r.relayWhole(x)
}

// answerStatus answers where the upstream's status says that there is no answer.
func (r *Relay) answerStatus(x *exchange) *llm.Error {
	switch status := x.upstream.StatusCode; {
	case status == http.StatusUnauthorized: // the client's key was good enough for us
		return x.badCredential()
	case status >= 400:
		return r.relayError(x)
	default:
		return &llm.Error{Kind: llm.Upstream, Code: "upstream_redirect", Message: "the upstream answered with status " + strconv.Itoa(status) + ", which is no answer; check the provider's base_url"}
	}
}

// badCredential is what a client is told when the upstream refuses us.
func (x *exchange) badCredential() *llm.Error {
	return &llm.Error{Kind: llm.UpstreamAuth, Message: "the provider '" + x.target.Provider.Name + "' refused the gateway's own credential; its api_key needs mending"}
}

// relayWhole passes on an answer that is not streamed. It is held until it is
// here whole, because only then it is known to be an answer.
func (r *Relay) relayWhole(x *exchange) *llm.Error {
	body, err := x.readAnswer()
	if err != nil {
		return err
	}
	if err := x.tap.Body(body); err != nil {
		return err
	}
	x.writeWhole(x.upstream.StatusCode, body)
	return nil
}

// readAnswer reads an answer whole.
func (x *exchange) readAnswer() ([]byte, *llm.Error) {
	limit := x.state.Limits.Answer
	body, err := readSized(io.LimitReader(x.upstream.Body, limit+1), min(x.upstream.ContentLength, limit))
	switch {
	case err != nil:
		return nil, x.upstreamError(err)
	case int64(len(body)) > limit:
		return nil, &llm.Error{Kind: llm.Upstream, Code: "upstream_too_large", Message: "the upstream's answer is larger than limits.answer, " + sizeText(limit)}
	}
	return body, nil
}

// writeWhole sends a body that is known to its end.
func (x *exchange) writeWhole(status int, body []byte) {
	h := x.out.header()
	x.answerHeaders(h)
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.seen.Status = status
	x.saidWhole(len(body))
	x.charge()
	x.out.commit(status)
	x.out.said = true
	if err := x.out.write(body, time.Now()); err != nil {
		x.seen.Err = clientGone(err)
	}
}

// explode makes a stream of a whole answer, for a client that asked for one.
func (r *Relay) explode(x *exchange) *llm.Error {
	body, err := x.readAnswer()
	if err != nil {
		return err
	}
	if err := x.tap.Body(body); err != nil {
		return err
	}
	events, cause := x.dialect.Explode(body)
	if cause != nil {
		return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: "the upstream's answer cannot be streamed", Cause: cause}
	}
	return x.writeEvents(events)
}

// relayError passes on an upstream's error answer. What is not JSON is a page of
// some proxy on the way; the client gets its status in the dialect's own form.
func (r *Relay) relayError(x *exchange) *llm.Error {
	status := x.upstream.StatusCode
	body, err := io.ReadAll(io.LimitReader(x.upstream.Body, maxErrorBody))
	if err != nil {
		return x.upstreamError(err)
	}
	fault := &llm.Error{Kind: kindOf(status), Status: status, Code: "upstream_status", Relayed: true,
		Message: "the upstream answered with status " + strconv.Itoa(status)}
	if !isJSON(body) {
		fault.Relayed = false
		x.answerHeaders(x.out.header())
		return fault
	}
	if x.speaks != nil { // a path that is only forwarded has no dialect of its own
		told := x.speaks.DecodeError(status, x.upstream.Header, body)
		x.discourage(told)
		if x.overflow(told, body) {
			return x.told(told)
		}
	}
	x.seen.Err = fault
	x.writeWhole(status, redact(body, x.target.Provider))
	return nil
}

// overflow reports whether an upstream says that a prompt is too long, and not in the
// words of the dialect. Agents look for those to shorten it, so an engine's own are
// not passed on. ERR-18
func (x *exchange) overflow(e *llm.Error, body []byte) bool {
	d, ok := x.dialect.(interface{ OverflowWords() string })
	return ok && e.Code == llm.ContextLength && !bytes.Contains(body, []byte(d.OverflowWords()))
}

// isJSON reports whether a body is a whole JSON object or list, with the oddities
// that a reader of it may put up with.
func isJSON(body jsontext.Value) bool {
	kind := body.Kind()
	return (kind == '{' || kind == '[') && body.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// kindOf sorts an upstream's error status.
func kindOf(status int) llm.Kind {
	switch {
	case status == http.StatusTooManyRequests:
		return llm.RateLimit
	case status == http.StatusServiceUnavailable, status == 529:
		return llm.Overloaded
	case status == http.StatusGatewayTimeout:
		return llm.Timeout
	case status == http.StatusForbidden:
		return llm.Permission
	case status == http.StatusNotFound:
		return llm.NotFound
	case status < 500:
		return llm.InvalidRequest
	}
	return llm.Upstream
}

// redact takes the gateway's own credential out of what an upstream has said:
// some quote the key that they refuse.
func redact(body []byte, p *provider.Provider) []byte {
	if key := p.Key.Reveal(); key != "" {
		return bytes.ReplaceAll(body, []byte(key), []byte("***"))
	}
	return body
}

func mediaType(h http.Header) string {
	v := h.Get("Content-Type")
	if v == "application/json" || v == "text/event-stream" {
		return v
	}
	m, _, err := mime.ParseMediaType(v)
	if err != nil {
		return ""
	}
	return m
}

package main

import (
	"net/http"
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// mode is how the answer travels on both sides.
type mode string

const (
	streamed  mode = "stream"    // both sides stream
	whole     mode = "whole"     // neither does
	collected mode = "collected" // the upstream streams, the client gets one body
)

func modes() []mode { return []mode{streamed, whole, collected} }

// phase is what the client has received when the failure happens.
type phase int

const (
	early phase = iota // nothing visible
	late               // some words, where the client streams
)

// scenario is one way to fail and what the client has to see of it.
type scenario struct {
	name   string
	does   string // the target, for docs/reliability.md
	sees   string // the client without a second target, likewise
	script testrig.Script
	when   phase

	statuses   []int  // allowed without a second target; 200 means a complete answer
	attempts   int64  // most attempts on the target for one request; 0 means three
	requests   int    // sent one after the other; 0 means one
	final      bool   // the client's own fault: no other target is tried
	ejects     bool   // the next request does not try the target again, if there is another
	retryAfter string // header that has to reach the client
	copied     bool   // a client of the upstream's dialect gets the fault as it is, after the whole text
	secret     string // must not reach the client
	quoted     string // must reach the client
	timeouts   string // setting of the target; empty means timeouts that only a broken gateway reaches
	modes      []mode // in which it can happen; nil means all
	upstreams  []testrig.Dialect
	url        func(*testrig.Upstream, string) string // of targets that are not on the plain listener, without the dialect's path
}

func (s *scenario) applies(p pair, m mode) bool {
	return (s.modes == nil || slices.Contains(s.modes, m)) && (s.upstreams == nil || slices.Contains(s.upstreams, p.upstream))
}

var (
	badGateway  = []int{http.StatusBadGateway}
	timedOut    = []int{http.StatusGatewayTimeout}
	serverError = []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, 529}
	overloaded  = []int{http.StatusServiceUnavailable, 529}
	streams     = []mode{streamed, collected}
)

// scenarios returns the board: the sixteen failures that every gateway meets, the six
// that gateways miss or disagree on, and some near them.
func scenarios() []*scenario {
	return slices.Concat(connectionFailures(), silences(), brokenAnswers(), errorResponses(), invalidResponses())
}

func connectionFailures() []*scenario {
	return []*scenario{
		{name: "refused", does: "the connection is refused", sees: "502", statuses: badGateway,
			url: func(u *testrig.Upstream, name string) string { return "http://" + u.RefusedAddr + "/" + name }},
		{name: "reset", does: "the connection is reset after the request was read", sees: "502", statuses: badGateway, script: (*testrig.Call).Reset},
		{name: "tls-failure", does: "the certificate is self-signed", sees: "502", statuses: badGateway, script: testrig.Answer("bad"),
			url: func(u *testrig.Upstream, name string) string { return "https://" + u.TLSAddr + "/" + name }},
		{name: "tls-plain", does: "plain HTTP where TLS is expected", sees: "502", statuses: badGateway, script: testrig.Answer("bad"),
			url: func(u *testrig.Upstream, name string) string { return "https://" + u.Addr + "/" + name }},
		{name: "not-http", does: "the server does not speak HTTP", sees: "502", statuses: badGateway, script: notHTTP},
	}
}

func silences() []*scenario {
	return []*scenario{
		{name: "silent", timeouts: timeouts(limit), does: "the request is read and never answered", sees: "504", statuses: timedOut, attempts: 1, script: (*testrig.Call).Hold},
		{name: "slow-headers", timeouts: timeouts(limit), does: "the headers come byte by byte and take longer than `first_byte`", sees: "504", statuses: timedOut, attempts: 1, script: slowHeaders},
		{name: "slow-first-token", timeouts: timeouts(limit), does: "headers and keep-alives come in time, the first token later than `first_token` (a non-streaming body: later than `idle`)", sees: "504",
			statuses: timedOut, attempts: 1, script: slowFirstToken},
		{name: "headers-then-silence", timeouts: timeouts(limit), does: "headers, then nothing", sees: "504", statuses: timedOut, attempts: 1, script: headersThenSilence},
		{name: "stall-mid-answer", timeouts: idleTimeout(limit), does: "half of the answer, then nothing", sees: "error event; non-streaming: 504", statuses: timedOut, attempts: 1, when: late, script: stall},
		{name: "slow-but-healthy", timeouts: timeouts(wideLimit), does: "each of three phases takes 40 % of its timeout", sees: "the answer of this target", statuses: []int{200}, attempts: 1, script: slowButHealthy},
	}
}

func brokenAnswers() []*scenario {
	return []*scenario{
		{name: "cut-mid-answer", does: "the connection is reset in mid-answer", sees: "error event; non-streaming: 502", statuses: badGateway, attempts: 1, when: late,
			script: cut((*testrig.Call).Reset)},
		{name: "closed-mid-answer", does: "the connection is closed in mid-answer", sees: "error event; non-streaming: 502", statuses: badGateway, attempts: 1, when: late,
			script: cut(func(*testrig.Call) bool { return false })},
		{name: "no-finish", does: "a stream that ends cleanly without a finish reason", sees: "error event", statuses: badGateway, attempts: 1, when: late, modes: streams, script: noFinish()},
		{name: "done-without-finish", does: "`[DONE]` of OpenAI Chat without a finish reason", sees: "the answer: `[DONE]` proves the end", statuses: []int{200}, modes: streams,
			upstreams: []testrig.Dialect{testrig.Chat}, copied: true, script: noFinish("data: [DONE]\n\n")},
		{name: "empty-stream", does: "status 200 without an event, or with an empty body", sees: "502", statuses: badGateway, script: empty},
		{name: "error-event", does: "the stream's first event is an error", sees: "5xx", statuses: serverError, modes: streams, script: errorEvent(0)},
		{name: "error-event-late", does: "an error event after some tokens", sees: "error event", statuses: serverError, modes: streams, when: late, script: errorEvent(4)},
		{name: "truncated-json", does: "truncated JSON in a complete body", sees: "502", statuses: badGateway, script: truncatedJSON},
	}
}

func errorResponses() []*scenario {
	return []*scenario{
		{name: "error-body-200", does: "status 200 with an error as its body", sees: "5xx", statuses: serverError, script: errorBody},
		{name: "429", does: "429 without Retry-After", sees: "429", statuses: []int{429}, script: testrig.Status(429)},
		{name: "429-retry-after", does: "429 with Retry-After: 30", sees: "429 with Retry-After, after one attempt", statuses: []int{429}, attempts: 1, retryAfter: "30", script: testrig.Status(429, "Retry-After", "30")},
		{name: "500-storm", does: "every request gets a 500, six in a row", sees: "5xx", statuses: serverError, requests: 6, script: testrig.Status(500)},
		{name: "503", does: "503 to every request", sees: "503 (529 where the dialect has it)", statuses: overloaded, script: testrig.Status(503)},
		{name: "503-then-recovery", does: "503 once, then answers", sees: "the answer", statuses: []int{200}, requests: 2, script: recovery},
		{name: "529", does: "529, overloaded", sees: "503 (529 where the dialect has it)", statuses: overloaded, script: testrig.Status(529)},
		{name: "401-our-credential", does: "401 for the provider's credential", sees: "502 `upstream_auth`, never 401", statuses: badGateway, attempts: 1, requests: 2, ejects: true, secret: "sk-chaos", script: unauthorized(401)},
		{name: "403-our-credential", does: "403 with a message that the key is invalid", sees: "502 `upstream_auth`, never 403", statuses: badGateway, attempts: 1, requests: 2, ejects: true, secret: "sk-chaos",
			script: unauthorized(403)},
		{name: "400-client-fault", does: "400 for the client's request", sees: "400 at once; no other target is tried", statuses: []int{400}, attempts: 1, final: true,
			quoted: "the temperature is above two", script: errorMessage(400, "the temperature is above two")},
		{name: "413-client-fault", does: "413 for the client's request", sees: "413 at once; no other target is tried", statuses: []int{413, 400}, attempts: 1, final: true,
			quoted: "the prompt has too many images", script: errorMessage(413, "the prompt has too many images")},
	}
}

func invalidResponses() []*scenario {
	return []*scenario{
		{name: "garbage", does: "the right content type with random bytes", sees: "502", statuses: badGateway, script: garbage},
		{name: "wrong-content-type", does: "status 200, application/octet-stream", sees: "502", statuses: badGateway,
			script: respond("application/octet-stream", "\x00\x01\x02\xff\xfe chaos")},
		{name: "html-200", does: "an HTML page of a proxy with status 200", sees: "502", statuses: badGateway,
			script: respond("text/html; charset=utf-8", htmlPage)},
	}
}

const htmlPage = "<!DOCTYPE html>\n<html><head><title>Welcome</title></head>\n\n<body><h1>It works!</h1></body></html>\n"

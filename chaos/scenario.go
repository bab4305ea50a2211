package main

import (
	"net/http"
	"slices"
)

// mode is how the answer travels on both sides.
type mode string

const (
	streamed  mode = "stream"    // both sides stream
	whole     mode = "whole"     // neither does
	collected mode = "collected" // the upstream streams, the client gets one body
)

func modes() []mode { return []mode{streamed, whole, collected} }

// phase is what a client has got of the answer when the fault happens.
type phase int

const (
	early phase = iota // nothing that anybody could see
	late               // some words of the answer, where the client streams
)

// scenario is one way to fail, and what the client is to see of it.
type scenario struct {
	name string
	says string // for docs/reliability.md
	sees string // likewise
	play script
	when phase

	// statuses are those that fit where nobody rescues; 200 means that the answer is whole.
	statuses []int
	// tries is how often the target may be asked for one request; 0 means three times.
	tries int64
	// asks is how many requests are sent one after the other; 0 means one.
	asks int
	// final means that the answer is the client's business: no other target is asked.
	final bool
	// aside means that the target is not asked again by the next request, if there
	// is another.
	aside bool
	// retryAfter is the header that has to reach the client.
	retryAfter string
	// secret must not reach the client, and quoted must.
	secret, quoted string
	// modes and dialects of the upstream in which it can happen; nil means all.
	modes    []mode
	dialects []dialect
	// url is for targets that are not on the plain listener.
	url func(*upstream, string, dialect) string
}

func (s *scenario) applies(p pair, m mode) bool {
	return (s.modes == nil || slices.Contains(s.modes, m)) && (s.dialects == nil || slices.Contains(s.dialects, p.upstream))
}

func (s *scenario) requests() int { return max(s.asks, 1) }

func (s *scenario) mayTry() int64 {
	if s.tries == 0 {
		return 3
	}
	return s.tries
}

var (
	gatewayFault = []int{http.StatusBadGateway}
	timedOut     = []int{http.StatusGatewayTimeout}
	serverFault  = []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, 529}
	overloaded   = []int{http.StatusServiceUnavailable, 529}
	streams      = []mode{streamed, collected}
)

// scenarios is the board: the sixteen of the field, the six that the best peer
// misses or that peers disagree on, and some that lie near them.
func scenarios() []*scenario {
	return slices.Concat(connections(), silences(), broken(), refusals(), nonsense())
}

func connections() []*scenario {
	return []*scenario{
		{name: "refused", says: "the connection is refused", sees: "502", statuses: gatewayFault,
			url: func(u *upstream, name string, d dialect) string {
				return "http://" + u.refusing + "/" + name + d.base()
			}},
		{name: "reset", says: "the connection is reset when the request was read", sees: "502", statuses: gatewayFault, play: (*call).reset},
		{name: "tls-failure", says: "the certificate is signed by nobody", sees: "502", statuses: gatewayFault, play: answerAs("bad"),
			url: func(u *upstream, name string, d dialect) string { return "https://" + u.secure + "/" + name + d.base() }},
		{name: "tls-plain", says: "plain HTTP where TLS is spoken", sees: "502", statuses: gatewayFault, play: answerAs("bad"),
			url: func(u *upstream, name string, d dialect) string { return "https://" + u.plain + "/" + name + d.base() }},
		{name: "not-http", says: "what answers is no HTTP server", sees: "502", statuses: gatewayFault, play: playNotHTTP},
	}
}

func silences() []*scenario {
	return []*scenario{
		{name: "silent", says: "the request is read and nothing is ever said", sees: "504", statuses: timedOut, tries: 1, play: (*call).hold},
		{name: "slow-headers", says: "the headers come byte by byte and take longer than `first_byte`", sees: "504", statuses: timedOut, tries: 1, play: playSlowHeaders},
		{name: "slow-first-token", says: "headers and keep-alives come, the first word later than `first_token` (a whole body: later than `idle`)", sees: "504",
			statuses: timedOut, tries: 1, play: playSlowFirstToken},
		{name: "headers-then-silence", says: "headers, and then nothing", sees: "504", statuses: timedOut, tries: 1, play: playHeadersThenSilence},
		{name: "stall-mid-answer", says: "half of the answer, and then nothing", sees: "error event; a whole answer: 504", statuses: timedOut, tries: 1, when: late, play: playStall},
		{name: "slow-but-healthy", says: "every step takes most of what it may", sees: "the answer, from this target", statuses: []int{200}, tries: 1, play: playSlowButHealthy},
	}
}

func broken() []*scenario {
	return []*scenario{
		{name: "cut-mid-answer", says: "the connection is reset in the middle of the answer", sees: "error event; a whole answer: 502", statuses: gatewayFault, tries: 1, when: late,
			play: playCut((*call).reset)},
		{name: "closed-mid-answer", says: "the connection is closed in the middle of the answer", sees: "error event; a whole answer: 502", statuses: gatewayFault, tries: 1, when: late,
			play: playCut(func(*call) bool { return false })},
		{name: "no-finish", says: "a stream that ends cleanly without a finish reason", sees: "error event", statuses: gatewayFault, tries: 1, when: late, modes: streams, play: playNoFinish("")},
		{name: "done-without-finish", says: "`[DONE]` of OpenAI Chat without a finish reason", sees: "the answer: `[DONE]` proves the end", statuses: []int{200}, modes: streams,
			dialects: []dialect{chat}, play: playNoFinish("data: [DONE]\n\n")},
		{name: "empty-stream", says: "status 200 and no event, or an empty body", sees: "502", statuses: gatewayFault, play: playEmpty},
		{name: "error-event", says: "the stream's first event is an error", sees: "5xx", statuses: serverFault, modes: streams, play: playErrorEvent(0)},
		{name: "error-event-late", says: "an error event after some words", sees: "error event", statuses: serverFault, modes: streams, when: late, play: playErrorEvent(4)},
		{name: "truncated-json", says: "JSON that ends in the middle, in a body that does not", sees: "502", statuses: gatewayFault, play: playTruncatedJSON},
	}
}

func refusals() []*scenario {
	return []*scenario{
		{name: "error-body-200", says: "status 200 with an error as its body", sees: "5xx", statuses: serverFault, play: playErrorBody},
		{name: "429", says: "429 without Retry-After", sees: "429", statuses: []int{429}, play: playStatus(429)},
		{name: "429-retry-after", says: "429 with Retry-After: 30", sees: "429 with Retry-After, after one try", statuses: []int{429}, tries: 1, retryAfter: "30", play: playStatus(429, "Retry-After: 30")},
		{name: "500-storm", says: "every request gets a 500, six in a row", sees: "5xx", statuses: serverFault, asks: 6, play: playStatus(500)},
		{name: "503", says: "503 for good", sees: "503 (529 where the dialect has it)", statuses: overloaded, play: playStatus(503)},
		{name: "503-then-recovery", says: "503 once, and then answers", sees: "the answer", statuses: []int{200}, asks: 2, play: playRecovery},
		{name: "529", says: "529, overloaded", sees: "503 (529 where the dialect has it)", statuses: overloaded, play: playStatus(529)},
		{name: "401-our-credential", says: "401 for our credential", sees: "502 `upstream_auth`, never 401", statuses: gatewayFault, tries: 1, asks: 2, aside: true, secret: "sk-chaos", play: playUnauthorized(401)},
		{name: "403-our-credential", says: "403 that says that the key is invalid", sees: "502 `upstream_auth`, never 403", statuses: gatewayFault, tries: 1, asks: 2, aside: true, secret: "sk-chaos",
			play: playUnauthorized(403)},
		{name: "400-client-fault", says: "400, the client's own fault", sees: "400 at once; no other target is asked", statuses: []int{400}, tries: 1, final: true,
			quoted: "the temperature is above two", play: playStatusSaying(400, "the temperature is above two")},
		{name: "413-client-fault", says: "413, the client's own fault", sees: "413 at once; no other target is asked", statuses: []int{413, 400}, tries: 1, final: true,
			quoted: "the prompt has too many images", play: playStatusSaying(413, "the prompt has too many images")},
	}
}

func nonsense() []*scenario {
	return []*scenario{
		{name: "garbage", says: "the right content type and bytes that mean nothing", sees: "502", statuses: gatewayFault, play: playGarbage},
		{name: "wrong-content-type", says: "status 200, application/octet-stream", sees: "502", statuses: gatewayFault,
			play: func(c *call) bool { return c.whole(200, "application/octet-stream", "\x00\x01\x02\xff\xfe chaos") }},
		{name: "html-200", says: "a proxy's HTML page with status 200", sees: "502", statuses: gatewayFault,
			play: func(c *call) bool { return c.whole(200, "text/html; charset=utf-8", htmlPage) }},
	}
}

const htmlPage = "<!DOCTYPE html>\n<html><head><title>Welcome</title></head>\n\n<body><h1>It works!</h1></body></html>\n"

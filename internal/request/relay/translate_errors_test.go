package relay

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/edge/ingress"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

// wireFault is an error as a client reads it: the dialect's error type, the message and
// the code.
type wireFault struct{ word, message, code string }

// readFault parses an error in a dialect's own format.
func readFault(t testing.TB, dialect protocol.Name, body string) wireFault {
	t.Helper()
	var e struct {
		Type  string `json:"type"`
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
			Status  string `json:"status"`
			Code    any    `json:"code"`
			Details any    `json:"details"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("no error of %s: %v: %s", dialect, err, body)
	}
	f := wireFault{word: e.Error.Type, message: e.Error.Message}
	switch dialect {
	case anthropicDialect:
		if d, ok := e.Error.Details.(map[string]any); ok {
			f.code, _ = d["error_code"].(string)
		}
		if e.Type != "error" {
			t.Errorf("not Anthropic's envelope: %s", body)
		}
	case geminiDialect:
		f.word = e.Error.Status
		if _, ok := e.Error.Code.(float64); !ok {
			t.Errorf("not Google's envelope: %s", body)
		}
		if list, ok := e.Error.Details.([]any); ok {
			for _, d := range list {
				if reason, ok := d.(map[string]any)["reason"].(string); ok {
					f.code = reason
				}
			}
		}
	default:
		f.code, _ = e.Error.Code.(string)
		if !strings.Contains(body, `"param":`) {
			t.Errorf("not OpenAI's envelope: %s", body)
		}
	}
	if f.word == "" || f.message == "" {
		t.Errorf("the envelope lacks a member: %s", body)
	}
	return f
}

// errorBody returns the body of an upstream's error response.
func errorBody(dialect protocol.Name, word, code, message string) string {
	switch dialect {
	case anthropicDialect:
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q,"details":{"error_code":%q}},"request_id":"req_1"}`, word, message, code)
	case geminiDialect: // has its own error types
		status := 400
		switch word {
		case "authentication_error":
			word, code = "INVALID_ARGUMENT", "API_KEY_INVALID"
		case "overloaded_error":
			word, status = "UNAVAILABLE", 503
		}
		return fmt.Sprintf(`{"error":{"code":%d,"message":%q,"status":%q,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":%q}]}}`, status, message, word, code)
	}
	return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%q}}`, message, word, code)
}

// TestTranslatedErrorResponses checks that an upstream error keeps its status, message
// and code and takes the format of the client's dialect (ERR-01, ERR-02, ERR-12, VER-25).
func TestTranslatedErrorResponses(t *testing.T) {
	words := map[int]map[protocol.Name]string{ // error types by status, as the client reads them
		400: {chatDialect: "invalid_request_error", responsesDialect: "invalid_request_error", anthropicDialect: "invalid_request_error", geminiDialect: "INVALID_ARGUMENT"},
		404: {chatDialect: "invalid_request_error", responsesDialect: "invalid_request_error", anthropicDialect: "not_found_error", geminiDialect: "NOT_FOUND"},
		413: {chatDialect: "invalid_request_error", responsesDialect: "invalid_request_error", anthropicDialect: "request_too_large", geminiDialect: "INVALID_ARGUMENT"},
		429: {chatDialect: "rate_limit_error", responsesDialect: "rate_limit_error", anthropicDialect: "rate_limit_error", geminiDialect: "RESOURCE_EXHAUSTED"},
		500: {chatDialect: "server_error", responsesDialect: "server_error", anthropicDialect: "api_error", geminiDialect: "INTERNAL"},
		503: {chatDialect: "server_error", responsesDialect: "server_error", anthropicDialect: "overloaded_error", geminiDialect: "UNAVAILABLE"},
		529: {chatDialect: "server_error", responsesDialect: "server_error", anthropicDialect: "overloaded_error", geminiDialect: "UNAVAILABLE"},
	}
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		for status, word := range words {
			for _, stream := range []bool{false, true} {
				g := newGateway(t, speaking(upstream))
				g.up.Answer(upstreamtest.JSON(status, errorBody(upstream, "some_error", "some_code", "what happened"), "Retry-After", "7", "X-Ratelimit-Limit-Requests", "5"))
				path, ask := simpleRequest(client, stream)
				resp, body, err := g.post(t, path, ask)
				got := readFault(t, client, body)
				want := wireFault{word[client], "what happened", "some_code"}
				if err != nil || got != want || resp.StatusCode != clientStatus(client, status) {
					t.Errorf("%d: %v %s %+v, want %+v", status, err, resp.Status, got, want)
				}
				h := resp.Header
				if h.Get("Retry-After") != "7" || h.Get("Content-Type") != "application/json" || h.Get(ingress.RequestIDHeader(g.relay.dialects.ByName[client])) == "" {
					t.Errorf("%d: %v", status, h)
				}
				if limits := h.Get("X-Ratelimit-Limit-Requests"); (limits != "") != (g.relay.dialects.ByName[client].Headers.Vendor == g.relay.dialects.ByName[upstream].Headers.Vendor) {
					t.Errorf("ERR-10: the vendor's own headers are for its own dialect: %v", h)
				}
			}
		}
	})
}

// clientStatus returns the status that a client gets for an upstream's status.
func clientStatus(client protocol.Name, status int) int {
	switch {
	case status == 500:
		return http.StatusBadGateway
	case (status == 503 || status == 529) && client == anthropicDialect:
		return 529
	case status == 529:
		return http.StatusServiceUnavailable
	}
	return status
}

// TestTranslatedCredentialTrouble checks that an upstream error about the gateway's
// credential is hidden from the client, whether it is a status, a body or an event
// (ERR-14, ERR-15, ERR-19).
func TestTranslatedCredentialTrouble(t *testing.T) {
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		for name, answer := range map[string]upstreamtest.Script{
			"401":         upstreamtest.JSON(401, errorBody(upstream, "authentication_error", "invalid_api_key", "bad key "+upstreamKey)),
			"200":         upstreamtest.JSON(200, errorBody(upstream, "authentication_error", "invalid_api_key", "bad key "+upstreamKey)),
			"first event": upstreamtest.Stream(errorEvent(upstream, "authentication_error", "invalid_api_key", "bad key "+upstreamKey)),
		} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, stream %t", name, stream), func(t *testing.T) {
					g := newGateway(t, speaking(upstream))
					g.up.Answer(answer)
					path, ask := simpleRequest(client, stream)
					resp, body, _ := g.post(t, path, ask)
					f := readFault(t, client, body)
					if resp.StatusCode != http.StatusBadGateway || strings.Contains(body+fmt.Sprint(resp.Header)+g.line(t), upstreamKey) || !strings.Contains(f.message, "provider 'up'") {
						t.Errorf("%s %s", resp.Status, body)
					}
				})
			}
		}
	})
}

// errorEvent returns an error event of a stream.
func errorEvent(dialect protocol.Name, word, code, message string) string {
	switch dialect {
	case anthropicDialect:
		return "event: error\ndata: " + errorBody(dialect, word, code, message) + "\n\n"
	case responsesDialect:
		return fmt.Sprintf("event: error\ndata: {\"type\":\"error\",\"code\":%q,\"message\":%q,\"param\":null,\"sequence_number\":1}\n\n", code, message)
	}
	return "data: " + errorBody(dialect, word, code, message) + "\n\n"
}

func TestTranslatedErrorsDoNotShowTheKey(t *testing.T) {
	begun := sharedCase(t, "text")
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		for name, answer := range map[string]upstreamtest.Script{
			"status":      upstreamtest.JSON(400, errorBody(upstream, "x", upstreamKey, "with "+upstreamKey), "Retry-After", upstreamKey),
			"first event": upstreamtest.Stream(errorEvent(upstream, "x", upstreamKey, "with "+upstreamKey)),
			"mid-stream":  upstreamtest.Stream(beginning(begun, upstream) + errorEvent(upstream, "x", upstreamKey, "with "+upstreamKey)),
		} {
			t.Run(name, func(t *testing.T) {
				g := newGateway(t, speaking(upstream))
				g.up.Answer(answer)
				path, ask := simpleRequest(client, true)
				resp, body, err := g.post(t, path, ask)
				if err != nil || strings.Contains(body+fmt.Sprint(resp.Header)+g.line(t), upstreamKey) || !strings.Contains(body, "with ***") {
					t.Errorf("%v %s %v %s", err, resp.Status, resp.Header, body)
				}
			})
		}
	})
}

// beginning returns an upstream's stream up to and including its first text.
func beginning(c shared, dialect protocol.Name) string {
	var b strings.Builder
	for _, e := range strings.SplitAfter(c.stream(dialect), "\n\n") {
		b.WriteString(e)
		if hasText(e, dialect) {
			return b.String()
		}
	}
	return b.String()
}

func hasText(event string, dialect protocol.Name) bool {
	word := map[protocol.Name]string{chatDialect: `"content":"`, responsesDialect: "response.output_text.delta", anthropicDialect: "text_delta", geminiDialect: `"text":"`}[dialect]
	return strings.Contains(event, word)
}

// prelude returns the events of an upstream's stream before its first text.
func prelude(c shared, dialect protocol.Name) string {
	var b strings.Builder
	for _, e := range strings.SplitAfter(c.stream(dialect), "\n\n") {
		if hasText(e, dialect) {
			break
		}
		b.WriteString(e)
	}
	return b.String()
}

// TestTranslatedErrorBeforeFirstToken checks that a stream that fails before its first
// token gets an error status (ERR-06, LIF-08).
func TestTranslatedErrorBeforeFirstToken(t *testing.T) {
	c := sharedCase(t, "text")
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		for name, before := range map[string]string{"first": "", "after the prelude": prelude(c, upstream), "after a comment": ": hello\n\n"} {
			for _, stream := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, stream %t", name, stream), func(t *testing.T) {
					inBubble(t, func(t bubble) {
						g := newGateway(t, speaking(upstream), always)
						g.up.Answer(func(c *upstreamtest.Conn) {
							c.BeginStream()
							if before != "" {
								c.Chunk(before) // a pipe has no buffer: the error is not in the same read
							}
							c.Chunk(errorEvent(upstream, "overloaded_error", "overloaded", "too busy"))
							c.EndStream()
						})
						path, ask := simpleRequest(client, stream)
						resp, body, err := g.post(t, path, ask)
						f := readFault(t, client, body)
						status := 503
						if client == anthropicDialect {
							status = 529
						}
						if err != nil || resp.StatusCode != status || f.message != "too busy" || resp.Header.Get("Content-Type") != "application/json" {
							t.Errorf("%v %s %s", err, resp.Status, body)
						}
					})
				})
			}
		}
	})
}

// TestTranslatedErrorAfterFirstToken checks that a stream that fails after its first
// token ends with the error event of the client's dialect (ERR-07, ERR-08, ERR-09,
// RSP-03, VER-24).
func TestTranslatedErrorAfterFirstToken(t *testing.T) {
	c := sharedCase(t, "text")
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		g := newGateway(t, speaking(upstream))
		g.up.Answer(upstreamtest.Stream(beginning(c, upstream) + errorEvent(upstream, "overloaded_error", "overloaded", "too busy")))
		path, ask := simpleRequest(client, true)
		resp, body, err := g.post(t, path, ask)
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(body, "too busy") {
			t.Errorf("%v %s %s", err, resp.Status, body)
		}
		wantFailed(t, client, body)
		g.wantLine(t, `"outcome":"upstream_error"`)

		// A non-streaming client gets only the error.
		g = newGateway(t, speaking(upstream), always)
		g.up.Answer(upstreamtest.Stream(beginning(c, upstream) + errorEvent(upstream, "overloaded_error", "overloaded", "too busy")))
		path, ask = simpleRequest(client, false)
		resp, body, _ = g.post(t, path, ask)
		if f := readFault(t, client, body); resp.StatusCode < 400 || f.message != "too busy" {
			t.Errorf("%s %s", resp.Status, body)
		}
	})
}

// wantFailed checks that a stream has content and ends with an error event.
func wantFailed(t testing.TB, client protocol.Name, body string) {
	t.Helper()
	end, err := protocoltest.Check(client, []byte(body))
	if err != nil || end != protocoltest.Failed {
		t.Errorf("the stream is %s: %v\n%s", end, err, body)
	}
}

// TestTranslatedTruncation checks that a stream truncated at any position is an error:
// with a status if no token was sent, else in the stream (SSE-19, VER-27, LIF-09,
// RSP-03).
func TestTranslatedTruncation(t *testing.T) {
	c := sharedCase(t, "tools")
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		events := strings.SplitAfter(strings.TrimSuffix(c.stream(upstream), "\n\n"), "\n\n")
		for how, end := range ends {
			g := newGateway(t, speaking(upstream))
			for n := range len(events) - proofs[upstream] + 1 {
				part := strings.Join(events[:n], "")
				if n > 0 && n%2 == 1 { // truncate within an event too
					part += events[n][:len(events[n])/2]
				}
				g.up.Answer(streamEnd(part, end))
				path, ask := c.ask(client, true)
				resp, body, err := g.post(t, path, ask)
				if err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode == http.StatusOK {
					wantFailed(t, client, body)
				} else if f := readFault(t, client, body); resp.StatusCode != http.StatusBadGateway || f.code != "upstream_truncated" {
					t.Errorf("%s after %d events: %s %s", how, n, resp.Status, body)
				}
				path, ask = c.ask(client, false) // the client requests JSON, the upstream sends a stream
				resp, body, _ = g.post(t, path, ask)
				if f := readFault(t, client, body); resp.StatusCode != http.StatusBadGateway || f.code != "upstream_truncated" {
					t.Errorf("%s after %d events, collected: %s %s", how, n, resp.Status, body)
				}
			}
		}
	})
}

// TestTranslatedCutBeforeAllChoices checks that a stream in which one of two requested choices has ended, and of the
// other nothing has arrived, is an error: only the end of the stream could prove that it is complete.
func TestTranslatedCutBeforeAllChoices(t *testing.T) {
	const chatAsk, geminiAsk = `{"model":"real-chat","n":2,"stream":%t,"messages":[{"role":"user","content":"Hi"}]}`, `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}],"generationConfig":{"candidateCount":2}}`
	const geminiOne = `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"b"}]},"finishReason":"STOP","index":1}],"responseId":"r","modelVersion":"m"}` + "\n\n"
	const chatOne = textChunk + stopChunk
	for name, c := range map[string]struct {
		upstream   protocol.Name
		path, body string
		answer     string
		ok         bool
	}{
		"chat on gemini, one choice":            {geminiDialect, chatPath, fmt.Sprintf(chatAsk, true), geminiOne, false},
		"chat on gemini, both":                  {geminiDialect, chatPath, fmt.Sprintf(chatAsk, true), geminiOne + strings.Replace(geminiOne, `"index":1`, `"index":0`, 1), true},
		"chat on gemini, collected":             {geminiDialect, chatPath, fmt.Sprintf(chatAsk, false), geminiOne, false},
		"chat on gemini, the prompt is blocked": {geminiDialect, chatPath, fmt.Sprintf(chatAsk, true), `data: {"promptFeedback":{"blockReason":"SAFETY"},"responseId":"r"}` + "\n\n", true},
		"gemini, one choice":                    {geminiDialect, "/v1beta/models/m:streamGenerateContent?alt=sse", geminiAsk, geminiOne, false},
		"gemini, both":                          {geminiDialect, "/v1beta/models/m:streamGenerateContent?alt=sse", geminiAsk, geminiOne + strings.Replace(geminiOne, `"index":1`, `"index":0`, 1), true},
		"gemini, blocked":                       {geminiDialect, "/v1beta/models/m:streamGenerateContent?alt=sse", geminiAsk, `data: {"promptFeedback":{"blockReason":"SAFETY"},"responseId":"r"}` + "\n\n", true},
		"gemini on chat, one choice":            {chatDialect, "/v1beta/models/real-chat:streamGenerateContent?alt=sse", geminiAsk, chatOne, false},
		"gemini on chat, a sentinel":            {chatDialect, "/v1beta/models/real-chat:streamGenerateContent?alt=sse", geminiAsk, chatOne + sentinel, true},
	} {
		for how, end := range ends {
			t.Run(name+", "+how, func(t *testing.T) {
				g := newGateway(t, speaking(c.upstream))
				g.up.Answer(streamEnd(c.answer, end))
				resp, body, err := g.post(t, c.path, c.body)
				client := geminiDialect
				if c.path == chatPath {
					client = chatDialect
				}
				switch {
				case err != nil:
					t.Fatal(err)
				case resp.StatusCode != http.StatusOK:
					if f := readFault(t, client, body); c.ok || f.code != "upstream_truncated" {
						t.Errorf("%s: %s", resp.Status, body)
					}
				case c.ok:
					g.wantSuccess(t)
				default:
					wantFailed(t, client, body)
				}
			})
		}
	}
}

// proofs maps a dialect to the position, counted from the end, of the event that
// completes a stream of the case.
var proofs = map[protocol.Name]int{chatDialect: 3, responsesDialect: 1, anthropicDialect: 1, geminiDialect: 1}

// TestTranslatedCompleteBeforeReset checks that a connection reset after the final event
// is not an error. Gemini is excluded, because its streams are complete only at the end
// of the body (SSE-18).
func TestTranslatedCompleteBeforeReset(t *testing.T) {
	c := sharedCase(t, "text")
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		for _, how := range []string{"clean", "closed"} {
			if upstream == geminiDialect && how == "closed" {
				continue
			}
			g := newGateway(t, speaking(upstream))
			g.up.Answer(streamEnd(strings.TrimSuffix(c.stream(upstream), sentinel), ends[how]))
			path, ask := c.ask(client, true)
			_, body, err := g.post(t, path, ask)
			if err != nil {
				t.Fatal(err)
			}
			readStream(t, client, body)
			g.wantSuccess(t)
		}
	})
}

// TestTranslatedErrorPages checks that a proxy's HTML error page becomes an error in the
// client's dialect (ERR-13).
func TestTranslatedErrorPages(t *testing.T) {
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		for status, want := range map[int]int{502: 502, 504: 504, 404: 404} {
			for _, page := range []string{"<html>secret host</html>", ""} {
				g := newGateway(t, speaking(upstream))
				g.up.Answer(func(c *upstreamtest.Conn) { c.Whole(status, "text/html", page) })
				path, ask := simpleRequest(client, true)
				resp, body, _ := g.post(t, path, ask)
				if f := readFault(t, client, body); resp.StatusCode != want || strings.Contains(body, "secret") || f.message == "null" {
					t.Errorf("%d: %s %s", status, resp.Status, body)
				}
			}
		}
	})
}

// TestTranslatedRetryInfo checks that a retry delay in the error body becomes a
// Retry-After header (ERR-11).
func TestTranslatedRetryInfo(t *testing.T) {
	for _, client := range []protocol.Name{chatDialect, responsesDialect, anthropicDialect} {
		g := newGateway(t, speaking(geminiDialect))
		g.up.Answer(upstreamtest.JSON(429, `{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.6s"}]}}`))
		path, ask := simpleRequest(client, true)
		resp, body, _ := g.post(t, path, ask)
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "35" {
			t.Errorf("%s: %s %v %s", client, resp.Status, resp.Header, body)
		}
	}
}

// TestSpendLimitIsNotRetried checks that an exceeded spend limit is not retried (VER-26).
func TestSpendLimitIsNotRetried(t *testing.T) {
	limit := errorBody(anthropicDialect, "rate_limit_error", "enforced_spend_limit_reached", "no money")
	ramp := errorBody(anthropicDialect, "rate_limit_error", "ramp_limit_exceeded", "slower")
	for _, client := range textDialects {
		g := newGateway(t, speaking(anthropicDialect))
		g.up.Answer(upstreamtest.JSON(429, limit))
		path, ask := simpleRequest(client, true)
		resp, body, _ := g.post(t, path, ask)
		if resp.Header.Get("X-Should-Retry") != "false" || !strings.Contains(body, "no money") {
			t.Errorf("%s: %s %v", client, resp.Status, resp.Header)
		}
		g.up.Answer(upstreamtest.JSON(429, ramp, "Retry-After", "9"))
		resp, _, _ = g.post(t, path, ask)
		if resp.Header.Get("X-Should-Retry") != "" || resp.Header.Get("Retry-After") != "9" || resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("%s: %s %v", client, resp.Status, resp.Header)
		}
	}
}

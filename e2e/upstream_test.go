package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A step answers one request. It is given the body, which has been read already.
type step func(w http.ResponseWriter, r *http.Request, body []byte)

// received is one request as the upstream saw it.
type received struct {
	target string // path and query as they came
	header http.Header
	body   []byte
	// ended is closed when the step has returned; aborted says whether the peer
	// had gone away by then, and may be read after ended.
	ended   chan struct{}
	aborted bool
}

func (r *received) path() string {
	path, _, _ := strings.Cut(r.target, "?")
	return path
}

// upstream plays a vendor's server: it answers the n-th request with the n-th step
// of the script and remembers what it was sent.
type upstream struct {
	server *httptest.Server

	mu     sync.Mutex
	script []step
	got    []*received
	came   chan struct{} // one value for each request of the current script
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{came: make(chan struct{}, 16)}
	u.server = httptest.NewServer(u)
	t.Cleanup(func() {
		u.server.CloseClientConnections() // ends steps whose peer never went away
		u.server.Close()
	})
	return u
}

func (u *upstream) baseURL() string { return u.server.URL + "/v1" }

// play sets the script for what follows and forgets what came before.
func (u *upstream) play(script []step) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.script, u.got = script, nil
	u.came = make(chan struct{}, 16)
}

func (u *upstream) requests() []*received {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]*received(nil), u.got...)
}

// arrived tells of each request of the current script.
func (u *upstream) arrived() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.came
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the peer gave up while sending: nothing was asked
	}
	rec := &received{target: r.URL.RequestURI(), header: r.Header.Clone(), body: body, ended: make(chan struct{})}
	answer := u.next(rec)
	defer func() {
		rec.aborted = r.Context().Err() != nil
		close(rec.ended)
	}()
	answer(w, r, body)
}

// next records the request and takes the step that answers it.
func (u *upstream) next(rec *received) step {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := len(u.got)
	u.got = append(u.got, rec)
	select {
	case u.came <- struct{}{}:
	default: // a gateway that retries without end must not hang the upstream
	}
	if n >= len(u.script) {
		return whole(http.StatusInternalServerError, `{"error":{"message":"the script has no answer for this request","type":"server_error","param":null,"code":"unscripted"}}`)
	}
	return u.script[n]
}

// whole answers with a complete JSON body; extra are header names and values in turn.
func whole(status int, body string, extra ...string) step {
	return typed("application/json", status, body, extra...)
}

func typed(contentType string, status int, body string, extra ...string) step {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("X-Request-Id", "req_upstream")
		for i := 0; i+1 < len(extra); i += 2 {
			w.Header().Set(extra[i], extra[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// gzipped compresses its answer if the peer allows it, as the vendor's edge does.
func gzipped(body string) step {
	return func(w http.ResponseWriter, r *http.Request, b []byte) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			whole(http.StatusOK, body)(w, r, b)
			return
		}
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = io.WriteString(z, body)
		_ = z.Close()
		whole(http.StatusOK, packed.String(), "Content-Encoding", "gzip")(w, r, b)
	}
}

// stream sends each piece in its own write.
func stream(pieces ...string) step {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		send(w, pieces)
	}
}

// cutStream sends the pieces and then breaks the connection.
func cutStream(pieces ...string) step {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		send(w, pieces)
		panic(http.ErrAbortHandler)
	}
}

// cutWhole promises the whole body and breaks the connection half way.
func cutWhole(body string) step {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = io.WriteString(w, body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// hang sends the pieces, if any, and then waits for the peer to go away.
func hang(pieces ...string) step {
	return func(w http.ResponseWriter, r *http.Request, _ []byte) {
		if len(pieces) > 0 {
			send(w, pieces)
		}
		<-r.Context().Done()
	}
}

func send(w http.ResponseWriter, pieces []string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Request-Id", "req_upstream")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w).Flush
	for _, p := range pieces {
		_, _ = io.WriteString(w, p)
		_ = flush()
	}
}

const done = "data: [DONE]\n\n"

// event is one chat.completion.chunk whose choices are given as JSON.
func event(choices string) string {
	return `data: {"id":"chatcmpl-s","object":"chat.completion.chunk","created":1763000000,"model":"gpt-real-0001","system_fingerprint":"fp_1","choices":[` + choices + `]}` + "\n\n"
}

// text is a chunk that brings s to choice n.
func text(n int, s string) string {
	return event(fmt.Sprintf(`{"index":%d,"delta":{"content":%s},"logprobs":null,"finish_reason":null}`, n, quote(s)))
}

// role is the first chunk of choice n.
func role(n int) string {
	return event(fmt.Sprintf(`{"index":%d,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}`, n))
}

// call is a chunk with a fragment of a tool call of choice 0, given as JSON.
func call(fragment string) string {
	return event(`{"index":0,"delta":{"tool_calls":[` + fragment + `]},"logprobs":null,"finish_reason":null}`)
}

// finish is the last chunk of choice n.
func finish(n int, reason string) string {
	return event(fmt.Sprintf(`{"index":%d,"delta":{},"logprobs":null,"finish_reason":%q}`, n, reason))
}

// answer is a whole chat completion whose choices are given as JSON. Its usage has
// every detail, and its key order and spacing are not what an encoder would write.
func answer(choices string) string {
	return `{"id": "chatcmpl-w",  "object":"chat.completion","created":1763000000,"model":"gpt-real-0001","choices":[` + choices + `],` +
		`"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":0},` +
		`"completion_tokens_details":{"reasoning_tokens":3,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},` +
		`"service_tier":"default","system_fingerprint":"fp_1"}` + "\n"
}

// says is an answer of one choice with the text s.
func says(s string) string { return answer(choice(0, quote(s), "stop")) }

func choice(n int, content, reason string) string {
	return fmt.Sprintf(`{"index":%d,"message":{"role":"assistant","content":%s,"refusal":null,"annotations":[]},"logprobs":null,"finish_reason":%q}`, n, content, reason)
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// problem is an error body as OpenAI writes it; param and code are JSON.
func problem(message, kind, param, code string) string {
	return fmt.Sprintf(`{"error":{"message":%s,"type":%s,"param":%s,"code":%s}}`, quote(message), quote(kind), param, code)
}

// embed answers two vectors in the encoding that was asked for: the SDKs for Python
// and Node ask for base64 unless told otherwise.
func embed(w http.ResponseWriter, r *http.Request, body []byte) {
	var asked struct {
		Format string `json:"encoding_format"`
	}
	_ = json.Unmarshal(body, &asked) // a body that is no JSON is found by the comparison of requests
	var data []string
	for i, v := range [][]float32{{0.5, -0.25, 2}, {0, 1, -8}} {
		data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, i, vector(v, asked.Format)))
	}
	whole(http.StatusOK, `{"object":"list","data":[`+strings.Join(data, ",")+
		`],"model":"text-embedding-3-small","usage":{"prompt_tokens":9,"total_tokens":9}}`)(w, r, body)
}

func vector(v []float32, format string) string {
	if format != "base64" {
		return strings.ReplaceAll(fmt.Sprint(v), " ", ",")
	}
	var b []byte
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return quote(base64.StdEncoding.EncodeToString(b))
}

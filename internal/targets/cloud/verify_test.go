package cloud

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// oddTexts are parts of paths, queries, headers and bodies.
var oddTexts = []string{
	"anthropic.claude-sonnet-5-v1:0", "us.anthropic.claude", "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/x", "ü", "日本語", "🙂", "a b", "a+b", "a%2Fb", "%", "~", "*", "!$&'()", ";=", "@", ",", "[]", "{}", "|", "^", "`", "\\", "\"", "<>", "a:b@c", "é", "e\u0301", "null", "%00", "x=y&z", "#", "?",
}

func odd(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(4) + 1 {
		b.WriteString(oddTexts[r.IntN(len(oddTexts))])
	}
	return b.String()
}

// oddRequest returns a random request to a provider, and its body.
func oddRequest(r *rand.Rand, p *provider.Provider) (*http.Request, []byte) {
	path := "/v1/" + url.PathEscape(odd(r))
	for range r.IntN(3) {
		path += "/" + url.PathEscape(odd(r))
	}
	query := url.Values{}
	for range r.IntN(4) {
		query.Add(odd(r), odd(r))
	}
	if text := query.Encode(); text != "" {
		path += "?" + text
	}
	method, body := []string{"POST", "POST", "POST", "PUT"}[r.IntN(4)], []byte(nil)
	switch r.IntN(5) {
	case 0: // an empty body
	case 1:
		method = []string{"GET", "DELETE"}[r.IntN(2)]
	case 2:
		body = make([]byte, r.IntN(200<<10))
		for i := range body {
			body[i] = byte(r.Uint32())
		}
	default:
		body, _ = json.Marshal(map[string]any{"model": odd(r), "stream": r.IntN(2) == 0, "messages": []string{odd(r), odd(r)}})
	}
	h := http.Header{"Accept": {"text/event-stream"}, "Content-Type": {"application/json"}, "User-Agent": {"isogloss"}, "X-Idempotency-Key": {}}
	if r.IntN(2) == 0 {
		h["Idempotency-Key"] = []string{"  a   b  "}
	}
	if r.IntN(2) == 0 {
		h["X-Amzn-Bedrock-Tag"] = []string{"one", "two,three", " four"}
	}
	if r.IntN(2) == 0 {
		h["Traceparent"] = []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	}
	return &http.Request{Method: method, URL: p.URL(path), Header: h, ProtoMajor: 1, ProtoMinor: 1}, body
}

// TestSecondOpinion has the vendors' Python libraries verify 1,000 signatures of requests as
// they arrive at a server, and compare 1,000 requests for tokens with their own. `make clouds`
// runs it.
func TestSecondOpinion(t *testing.T) {
	venv := os.Getenv("ISOGLOSS_CLOUDS")
	if venv == "" {
		t.Skip("make clouds runs this test with the Python libraries")
	}
	const requests = 1000
	var cases bytes.Buffer
	out := json.NewEncoder(&cases)
	arrivedRequests(t, requests, out)
	tokenRequests(t, requests, out)

	cmd := exec.CommandContext(t.Context(), filepath.Join(venv, "bin", "python"), filepath.Join("testdata", "verify.py"))
	cmd.Stdin, cmd.Stderr = &cases, os.Stderr
	said, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("verified %d\n", 2*requests); string(said) != want {
		t.Errorf("%.5000s", said)
	}
}

// arrivedRequests signs and sends requests as the gateway does, and writes what arrived.
func arrivedRequests(t *testing.T, n int, out *json.Encoder) {
	t.Helper()
	newAmazon(t)
	var now map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		headers := [][2]string{{"host", r.Host}}
		if r.ContentLength > 0 {
			headers = append(headers, [2]string{"content-length", strconv.FormatInt(r.ContentLength, 10)})
		}
		for name, values := range r.Header {
			for _, v := range values {
				if name != "Content-Length" {
					headers = append(headers, [2]string{name, v})
				}
			}
		}
		now["method"], now["uri"], now["host"], now["headers"], now["body"] = r.Method, r.RequestURI, r.Host, headers, base64.StdEncoding.EncodeToString(body)
	}))
	defer server.Close()
	base, err := url.Parse(server.URL + "/openai/v1")
	if err != nil {
		t.Fatal(err)
	}
	p := &provider.Provider{Protocol: protocol.OpenAIChat, BaseURL: base}
	client := upstream.NewClient()
	defer client.Close()
	timeouts := provider.Timeouts{Connect: time.Minute, FirstByte: time.Minute, Idle: time.Minute, Total: time.Minute}
	r := rand.New(rand.NewPCG(1, 2)) // the same requests each time
	credentials := map[bool]*Credential{}
	for _, session := range []bool{false, true} {
		t.Setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
		if session {
			t.Setenv("AWS_SESSION_TOKEN", "IQoJb3JpZ2luX2VjE+/=Example")
		}
		credentials[session] = newCredential(&awsVendor{&provider.AWS{Region: "eu-central-1", Service: "bedrock"}}, newClient(), nil)
		if err := credentials[session].Sign(t.Context(), newSignable(t), nil); err != nil {
			t.Fatal(err)
		}
		defer credentials[session].Close()
	}
	refused := 0
	for i := 0; i < n; i++ {
		req, body := oddRequest(r, p)
		session := i%2 == 1
		now = map[string]any{"kind": "sigv4", "key": "AKIAEXAMPLE", "secret": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session": map[bool]string{true: "IQoJb3JpZ2luX2VjE+/=Example"}[session]}
		if req.Method != http.MethodGet && req.Method != http.MethodDelete {
			upstream.SetBody(req, body)
		}
		trip := client.RoundTrip(t.Context(), timeouts, 0)
		trip.Credential = credentials[session]
		err := trip.Do(req)
		trip.Close()
		if err != nil && err.Code == upstream.CodeCredential && strings.Contains(err.Cause.Error(), "the query cannot be signed") {
			refused++
			i--
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", req.URL, err)
		}
		if err := out.Encode(now); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d requests are signed; %d have a query that is refused", n, refused)
}

func newSignable(t *testing.T) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1/chat/completions", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

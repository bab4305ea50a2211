package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/isogloss-gateway/isogloss/conform"
	"github.com/isogloss-gateway/isogloss/sse"
)

// cloudConfig is a configuration of a gateway that reaches another one as a cloud.
const cloudConfig = `listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
log: { level: error }
providers:
  claude: { preset: %[2]s, base_url: "%[1]s", api_key: sk-1%[3]s }
  gemini: { preset: vertex, region: us-east5, project: p-1, base_url: "%[1]s", api_key: sk-1 }
  chat: { preset: azure, base_url: "%[1]s/openai/deployments/{model}?api-version=2024-10-21", api_key: sk-1 }
models:
  on-chat: { targets: [chat/on-chat] }
  on-anthropic: { targets: [claude/on-anthropic] }
  on-gemini: { targets: [gemini/on-gemini] }
`

// spy is a proxy that keeps the bodies of requests and responses.
type spy struct {
	*httptest.Server
	mu     sync.Mutex
	bodies [][]byte
	paths  []string
	sent   []*response
}

// response is a response that a spy has forwarded.
type response struct {
	status int
	media  string
	body   bytes.Buffer
	source io.ReadCloser
	ended  chan struct{} // closed when the whole body was forwarded, or its connection broke
}

// Read implements io.Reader for the proxy.
func (r *response) Read(p []byte) (int, error) {
	n, err := r.source.Read(p)
	r.body.Write(p[:n])
	return n, err
}

// Close implements io.Closer for the proxy, which calls it once.
func (r *response) Close() error {
	close(r.ended)
	return r.source.Close()
}

func newSpy(t *testing.T, to string) *spy {
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	s := &spy{}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		if _, rest, ok := strings.Cut(r.In.URL.Path, "/openai/deployments/"); ok { // a deployment of Azure
			_, rest, _ = strings.Cut(rest, "/")
			r.Out.URL.Path, r.Out.URL.RawPath, r.Out.URL.RawQuery = "/v1/"+rest, "", ""
		}
	}, ModifyResponse: func(resp *http.Response) error {
		kept := &response{status: resp.StatusCode, media: resp.Header.Get("Content-Type"), source: resp.Body, ended: make(chan struct{})}
		s.mu.Lock()
		s.sent = append(s.sent, kept)
		s.mu.Unlock()
		resp.Body = kept
		return nil
	}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		s.mu.Lock()
		s.bodies, s.paths = append(s.bodies, body), append(s.paths, r.URL.Path)
		s.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	return s
}

// take returns the bodies since the last call.
func (s *spy) take() (bodies [][]byte, paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bodies, paths, s.bodies, s.paths = s.bodies, s.paths, nil, nil
	return bodies, paths
}

// answers returns the responses since the last call, when they have ended.
func (s *spy) answers() []*response {
	s.mu.Lock()
	list := s.sent
	s.sent = nil
	s.mu.Unlock()
	for _, r := range list {
		<-r.ended
	}
	return list
}

// relayed returns the part of a response that every hop keeps: the body, or the events of a stream. Bedrock has no pings,
// comments and other fields of events.
func (r *response) relayed(cloud string) string {
	if cloud != "bedrock" || !strings.HasPrefix(r.media, "text/event-stream") {
		return r.body.String()
	}
	var out strings.Builder
	events := sse.NewReader(bytes.NewReader(r.body.Bytes()), sse.Options{MaxEvent: 64 << 20})
	for {
		e, err := events.Next()
		if err != nil {
			return out.String()
		}
		if e.HasData && strings.Join(strings.Fields(string(e.Data)), "") != `{"type":"ping"}` {
			out.Write(e.Data)
			out.WriteByte('\n')
		}
	}
}

// moved are the members that envelopes move, beside the tags that Bedrock does not have.
var moved = []string{"model", "stream", "anthropic_version", "anthropic_beta", "tags"}

// otherMembers returns the members of an object that envelopes do not move: names and values as they are in the text.
func otherMembers(t *testing.T, body []byte) (list []string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		if !slices.Contains(moved, fmt.Sprint(name)) {
			list = append(list, fmt.Sprint(name)+"="+string(value))
		}
	}
	return list
}

// TestEnvelopeBytes plays the corpus through two gateways: the first sends its requests in an envelope, as to a cloud, and
// the second reads them as those of a client of the cloud. Every case must pass as it does without them; of the cells with
// a translation, which the envelope is outside of, it plays every fourth. Where client and
// upstream have the same dialect, the bytes of all members but the moved ones must be the client's at every hop.
func TestEnvelopeBytes(t *testing.T) {
	cases, err := conform.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	for preset, more := range map[string]string{
		"bedrock":          `, accepted_versions: [2023-06-01, 2026-10-21]`,
		"vertex-anthropic": `, region: us-east5, project: p-1`,
		"azure-anthropic":  ``,
	} {
		t.Run(preset, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			listener, err := conform.Listen(ctx, "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			upstream := conform.NewUpstream(listener)
			defer func() { _ = upstream.Close() }()
			last := newSpy(t, upstream.URL())
			inner, stopInner, err := startGateway(ctx, fmt.Appendf(nil, selfConfig, last.URL))
			if err != nil {
				t.Fatal(err)
			}
			defer stopInner()
			middle := newSpy(t, inner)
			outer, stopOuter, err := startGateway(ctx, fmt.Appendf(nil, cloudConfig, middle.URL, preset, more))
			if err != nil {
				t.Fatal(err)
			}
			defer stopOuter()
			first := newSpy(t, outer)
			runner := &conform.Runner{Upstream: upstream, Target: conform.Target{BaseURL: first.URL, Key: "sk-conform-client-key", Paths: map[conform.Dialect]string{},
				Models: map[conform.Dialect]string{conform.Anthropic: "on-anthropic", conform.Gemini: "on-gemini", conform.Chat: "on-chat"}}}
			defer runner.Close()
			n, played, compared, answered := 0, 0, 0, 0
			for _, c := range cases {
				for _, cell := range runner.Cells(c) {
					if preset != map[conform.Dialect]string{conform.Gemini: "vertex-anthropic", conform.Chat: "azure-anthropic"}[cell.Upstream] && cell.Upstream != conform.Anthropic {
						continue // once is enough
					}
					if n++; !cell.Same() && (preset != "bedrock" || n%4 != 0) {
						continue
					}
					played++
					if result := runner.Run(ctx, c, cell); !result.Passed() {
						t.Errorf("%s %s: %s", c.Name, cell, strings.Join(result.Problems, "; "))
					}
					client, _ := first.take()
					wrapped, paths := middle.take()
					received, _ := last.take()
					got, want := first.answers(), last.answers()
					middle.answers()
					// A conversation with another vendor's seals is translated, with an envelope and without.
					if !cell.Same() || strings.Contains(c.Name, "another-vendor") || len(client) != len(wrapped) || len(client) != len(received) {
						continue
					}
					for i := range client {
						// A stream that breaks off ends with the gateway's own error.
						end := map[conform.Dialect]string{conform.Anthropic: "message_stop", conform.Gemini: "finishReason", conform.Chat: "[DONE]"}[cell.Upstream]
						broken := cell.Stream && len(want) > i && !bytes.Contains(want[i].body.Bytes(), []byte(end))
						if !broken && len(got) == len(client) && len(want) == len(client) && got[i].status == http.StatusOK && want[i].status == http.StatusOK && cell.Stream == strings.HasPrefix(want[i].media, "text/event-stream") {
							answered++
							if a, b := got[i].relayed(preset), want[i].relayed(preset); a != b {
								t.Errorf("%s %s: the client got\n%.600q\nof\n%.600q", c.Name, cell, a, b)
							}
						}
						if !json.Valid(client[i]) || preset != "azure-anthropic" && cell.Upstream == conform.Anthropic && !strings.Contains(paths[i], "/model") {
							continue
						}
						compared++
						want := otherMembers(t, client[i])
						if got := otherMembers(t, wrapped[i]); !slices.Equal(got, want) {
							t.Errorf("%s %s: in the envelope\n%s\nof the client\n%s", c.Name, cell, got, want)
						}
						if got := otherMembers(t, received[i]); !slices.Equal(got, want) {
							t.Errorf("%s %s: after the envelope\n%s\nof the client\n%s", c.Name, cell, got, want)
						}
					}
				}
			}
			t.Logf("%d cells, %d requests and %d responses compared", played, compared, answered)
			if played < 250 || compared < 100 || answered < 80 {
				t.Errorf("only %d cells, %d requests and %d responses", played, compared, answered)
			}
		})
	}
}

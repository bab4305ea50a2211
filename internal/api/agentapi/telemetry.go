package agentapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

// signals are the paths of OTLP/HTTP.
var signals = []string{"/v1/metrics", "/v1/logs", "/v1/traces"}

// Limits of the receiver. Bodies are read into memory only while a slot is held, so relaying takes at
// most slots times maxTelemetry bytes.
const (
	maxTelemetry = 4 << 20         // bytes of a body
	slots        = 8               // requests that are relayed at the same time
	readTimeout  = 5 * time.Second // for a body
	sendTimeout  = 5 * time.Second // for the collector
)

// telemetry receives OTLP and relays it to a collector or discards it. The client gets status 200 in
// both cases, also if the collector fails: agents report an error in the terminal of their user at
// every flush, and would send the data again after a status that allows it, which loads a gateway whose
// task is inference. A failing collector is the operator's concern, who finds it in the log.
type telemetry struct {
	collector string // base URL; empty: discard
	client    *http.Client
	slots     chan struct{}
	logger    *slog.Logger
	failing   atomic.Bool
}

func newTelemetry(collector string, logger *slog.Logger) *telemetry {
	t := &telemetry{collector: strings.TrimSuffix(collector, "/"), logger: logger, slots: make(chan struct{}, slots)}
	t.client = &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxConnsPerHost: slots, MaxIdleConnsPerHost: slots, IdleConnTimeout: 90 * time.Second, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return t
}

// at returns the receiver of a path.
func (t *telemetry) at(path string) func(*endpoint, *call) *llm.Error {
	url := ""
	if t.collector != "" {
		url = t.collector + path
	}
	return func(_ *endpoint, c *call) *llm.Error { return t.serve(c, url) }
}

// serve receives a request. An empty url discards it.
func (t *telemetry) serve(c *call, url string) *llm.Error {
	kind, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	empty := []byte{} // an empty message
	switch kind {
	case "application/json":
		empty = []byte("{}")
	case "application/x-protobuf":
	default:
		return &llm.Error{Kind: llm.UnsupportedMedia, Message: "telemetry is OTLP; send it as application/x-protobuf or application/json"}
	}
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(readTimeout)) // fails only in tests without a connection
	body := http.MaxBytesReader(c.w, c.r.Body, maxTelemetry)
	err := t.take(c.r.Header, body, url)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return &llm.Error{Kind: llm.TooLarge, Message: fmt.Sprintf("telemetry has more than %d MiB; send less at a time", maxTelemetry>>20)}
	case err != nil:
		return &llm.Error{Kind: llm.InvalidRequest, Code: "incomplete_body", Message: "the body did not arrive completely; send it again", Cause: err}
	}
	write(c.w, http.StatusOK, kind, empty)
	return nil
}

// take reads a body. If there is a collector and a free slot, it sends the body to the collector. It
// returns errors of the client only.
func (t *telemetry) take(h http.Header, body io.Reader, url string) error {
	if url == "" {
		_, err := io.Copy(io.Discard, body)
		return err
	}
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	default:
		t.note(errors.New("too many requests at the same time"))
		_, err := io.Copy(io.Discard, body)
		return err
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	t.note(t.send(h, text, url))
	return nil
}

// send sends a body to the collector as it is, and nothing that identifies the client.
func (t *telemetry) send(h http.Header, body []byte, url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), sendTimeout) // also if the client has gone
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for _, name := range []string{"Content-Type", "Content-Encoding"} {
		if v := h.Get(name); v != "" {
			req.Header.Set(name, v)
		}
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	if resp.StatusCode >= 300 {
		return fmt.Errorf("the collector responded with status %d", resp.StatusCode)
	}
	return nil
}

// note logs once when telemetry is lost and once when it is relayed again.
func (t *telemetry) note(err error) {
	switch {
	case err != nil && t.failing.CompareAndSwap(false, true):
		t.logger.Warn("telemetry of clients is lost", "error", err.Error())
	case err == nil && t.failing.CompareAndSwap(true, false):
		t.logger.Info("telemetry of clients is relayed again")
	}
}

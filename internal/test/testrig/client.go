package testrig

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"time"
)

// Client sends requests to a gateway or directly to an upstream. It never retries.
type Client struct {
	URL  string // without a path
	HTTP *http.Client
}

// NewClient returns a client that keeps its connections open.
func NewClient(url string) *Client {
	return &Client{URL: url, HTTP: &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1024, MaxIdleConns: 4096}}}
}

// Close closes the idle connections.
func (c *Client) Close() { c.HTTP.CloseIdleConnections() }

// Open sends a request and returns the response with an unread body. headers alternates
// names and values. A connection that the transport has opened beside another one, and that waited for its first
// request until the server closed it, is replaced.
func (c *Client) Open(ctx context.Context, d Dialect, q Query, headers ...string) (*http.Response, error) {
	if q.Prompt == "" {
		q.Prompt = "Tell me about the river."
	}
	for {
		var conn httptrace.GotConnInfo
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { conn = info }})
		req, err := http.NewRequestWithContext(traced, http.MethodPost, c.URL+d.Path(q.Model, q.Stream), strings.NewReader(d.Body(q)))
		if err != nil {
			return nil, err
		}
		req.GetBody = nil // keeps the transport from resending it on another connection
		req.Header.Set("Content-Type", JSONMedia)
		if d == Messages {
			req.Header.Set("Anthropic-Version", "2023-06-01")
		}
		for i := 0; i+1 < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := c.HTTP.Do(req)
		if spare := conn.WasIdle && !conn.Reused; !spare || !errors.Is(err, io.EOF) {
			return resp, err
		}
	}
}

// Send sends a request and reads the response to its end.
func (c *Client) Send(ctx context.Context, d Dialect, q Query, headers ...string) Response {
	resp, err := c.Open(ctx, d, q, headers...)
	if err != nil {
		return Response{Err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	return Response{Status: resp.StatusCode, Header: resp.Header, Body: body, Err: err}
}

// Sample is one Chat request of a load.
type Sample struct {
	Class      string
	Status     int // 0 without a response
	Complete   bool
	RetryAfter bool          // the response has the header
	Attempts   int           // as reported by the gateway
	First      time.Duration // until the first byte of the body
	Took       time.Duration
	Body       []byte // the beginning of an error response's body, or why there is no response
}

// Good reports whether the request got a complete response.
func (s Sample) Good() bool { return s.Status == http.StatusOK && s.Complete }

// Refused reports whether the gateway shed the request.
func (s Sample) Refused() bool {
	return s.Status == http.StatusTooManyRequests || s.Status == http.StatusServiceUnavailable
}

// Measure sends a Chat request and returns its measurements.
func (c *Client) Measure(ctx context.Context, class string, q Query, headers ...string) Sample {
	began := time.Now()
	s := Sample{Class: class}
	resp, err := c.Open(ctx, Chat, q, headers...)
	if err != nil {
		s.Took, s.Body = time.Since(began), []byte(err.Error())
		return s
	}
	defer resp.Body.Close()
	s.Status, s.RetryAfter = resp.StatusCode, resp.Header.Get("Retry-After") != ""
	attempts, _, _ := strings.Cut(resp.Header.Get("Isogloss-Attempts"), ";")
	s.Attempts, _ = strconv.Atoi(attempts) // 0 if no target was tried
	buf := make([]byte, 4<<10)
	n, err := resp.Body.Read(buf)
	s.First = time.Since(began)
	all := bytes.NewBuffer(buf[:n])
	if err == nil {
		_, err = all.ReadFrom(resp.Body)
	}
	s.Took = time.Since(began)
	if s.Status != http.StatusOK {
		s.Body = all.Bytes()[:min(all.Len(), 300)]
		return s
	}
	s.Complete = (err == nil || errors.Is(err, io.EOF)) && bytes.Contains(all.Bytes(), []byte(`"finish_reason":"stop"`))
	return s
}

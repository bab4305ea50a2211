package rig

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// Tally counts answers, and keeps the first few reasons for those that failed.
type Tally struct {
	Whole, Failed atomic.Int64

	mu      sync.Mutex
	reasons []string
}

const keptReasons = 10

// Count counts an answer by its error.
func (t *Tally) Count(err error) {
	if err == nil {
		t.Whole.Add(1)
		return
	}
	t.Failed.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.reasons) < keptReasons {
		t.reasons = append(t.reasons, err.Error())
	}
}

// Reasons are the first few.
func (t *Tally) Reasons() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.reasons...)
}

// Client is one that keeps its connection for the next request, and never asks
// twice for the same.
type Client struct {
	url  string
	http http.Client
}

// NewClient is a client with a connection of its own.
func NewClient(url string) *Client {
	return &Client{url: url, http: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}}
}

// Close lets go of the connection.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Ask wants a whole answer.
func (c *Client) Ask(ctx context.Context, model string) error {
	body, err := c.post(ctx, "/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`)
	if err != nil {
		return err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err == nil && !strings.HasSuffix(string(bytes.TrimSpace(text)), `"finish_reason":"stop"}]}`) {
		err = fmt.Errorf("an answer is not whole: %s", text)
	}
	return err
}

// Stream is how a dialect asks for a stream, and how its end looks.
type Stream struct{ path, body, end string }

// Streams are the upstream's own dialect, whose bytes pass, and one that is
// translated.
func Streams(model string) []Stream {
	messages := `{"model":"` + model + `","stream":true,"max_tokens":100,"messages":[{"role":"user","content":"hi"}]}`
	return []Stream{
		{"/v1/chat/completions", messages, "data: [DONE]"},
		{"/v1/messages", messages, `data: {"type":"message_stop"}`},
	}
}

// Follow reads a stream to its end and wants all of its events. began is called
// when it has begun.
func (c *Client) Follow(ctx context.Context, s Stream, events int, began func()) error {
	body, err := c.post(ctx, s.path, s.body)
	if err != nil {
		return err
	}
	defer body.Close()
	began()
	text, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("a stream was cut: %w", err)
	}
	if n := bytes.Count(text, []byte(word)); n != events || !bytes.HasSuffix(bytes.TrimSpace(text), []byte(s.end)) {
		return fmt.Errorf("a stream is not whole: %d of %d events, and it ends with %.300q", n, events, text[max(0, len(text)-300):])
	}
	return nil
}

func (c *Client) post(ctx context.Context, path, body string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("a request was lost: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return nil, fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	return resp.Body, nil
}

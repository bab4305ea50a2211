// Package client calls the operations of the admin API that manage keys, teams and organisations and
// show their usage.
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
)

// Bounds of what a gateway may send. They are far above the responses of 1000 keys with long lists.
const (
	maxResponse = 32 << 20 // bytes
	maxPages    = 1000
)

// Transport carries requests to an admin API. InProcess returns one without a connection. An
// http.Transport is one for the socket or the port of a running gateway.
type Transport interface {
	RoundTrip(r *http.Request) (*http.Response, error)
}

// Client calls an admin API as the operator whom its transport authenticates.
type Client struct{ transport Transport }

// New returns a client.
func New(t Transport) *Client { return &Client{t} }

// InProcess returns a transport to an API in this process.
func InProcess(api http.Handler) Transport { return inProcess{api} }

type inProcess struct{ api http.Handler }

// RoundTrip serves a request. It returns when the whole response is written.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &response{header: http.Header{}, status: http.StatusOK}
	t.api.ServeHTTP(w, r)
	return &http.Response{StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body), Request: r}, nil
}

// response is a response in memory.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) { w.status = status }

func (w *response) Write(p []byte) (int, error) { return w.body.Write(p) }

// Error is an error response of the API.
type Error struct{ *openapi.Problem }

// Error returns what is wrong, and each mistake with its place.
func (e *Error) Error() string {
	if len(e.Errors) == 0 {
		return e.Detail
	}
	texts := make([]string, len(e.Errors))
	for i, m := range e.Errors {
		texts[i] = m.Location + ": " + m.Message
	}
	return strings.Join(texts, "; ")
}

// isCode reports whether the API responded with an error of a code.
func isCode(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// do sends a request whose body is in and reads the result. A nil body is none.
func do[O any](ctx context.Context, c *Client, method, path string, query url.Values, in any) (out O, err error) {
	body := []byte{}
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return out, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+admin.Prefix+path+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.transport.RoundTrip(r)
	if err != nil {
		return out, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	if resp.StatusCode/100 != 2 {
		e := &Error{new(openapi.Problem)}
		if err := decode(resp.Body, e.Problem); err != nil {
			return out, errors.New("the admin API responded with " + http.StatusText(resp.StatusCode))
		}
		return out, e
	}
	return out, decode(resp.Body, &out)
}

// decode reads a response of at most maxResponse bytes.
func decode(body io.Reader, out any) error {
	limited := &io.LimitedReader{R: body, N: maxResponse + 1}
	err := json.UnmarshalRead(limited, out)
	if limited.N == 0 {
		return fmt.Errorf("the admin API sent a response of more than %d MiB, which is not read", maxResponse>>20)
	}
	if err != nil {
		return fmt.Errorf("the response of the admin API cannot be read: %w", err)
	}
	return nil
}

// pages reads all pages of a list. The result of next is the items of a page and the id after which the
// next one begins.
func pages[P, T any](ctx context.Context, c *Client, path string, query url.Values, next func(P) ([]T, string)) (all []T, err error) {
	query.Set("limit", "1000")
	for range maxPages {
		p, err := do[P](ctx, c, http.MethodGet, path, query, nil)
		if err != nil {
			return nil, err
		}
		list, after := next(p)
		all = append(all, list...)
		if after == "" {
			return all, nil
		}
		query.Set("after", after)
	}
	return nil, fmt.Errorf("the admin API sent a list of more than %d pages, which is not read", maxPages)
}

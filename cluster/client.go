package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/sse"
)

// clients ask the gateways and write down what they see. They never ask twice for
// the same by themselves.
type clients struct {
	http    http.Client
	history history[asked]
}

func newClients() *clients {
	return &clients{http: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true}}}
}

func (c *clients) close() { c.http.CloseIdleConnections() }

// ask sends one request to a gateway and stays to its end, or goes away after so
// many tokens as the wish says.
func (c *clients) ask(ctx context.Context, base string, w wish) (a asked) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a = asked{tag: w.Tag, node: w.node, key: w.key.ID, stream: w.stream, most: w.most, at: time.Now()}
	defer func() {
		a.took = time.Since(a.at)
		c.history.add(a)
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+w.dialect().path, strings.NewReader(w.body()))
	if err != nil {
		a.broken = err
		return a
	}
	req.GetBody = nil // or the library would ask again where a connection has broken
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+w.key.Key)
	if w.once != "" {
		req.Header.Set("Idempotency-Key", w.once)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		a.broken = err
		return a
	}
	defer resp.Body.Close()
	a.status, a.id, a.hint = resp.StatusCode, resp.Header.Get(w.dialect().id), resp.Header.Get("Retry-After")
	a.again = resp.Header.Get("Idempotent-Replayed") != ""
	body := &counted{r: resp.Body, n: &a.bytes, first: func() { a.first = time.Since(a.at) }}
	switch {
	case a.status != http.StatusOK:
		a.refusal(body)
	case w.stream:
		a.follow(body, w, cancel)
	default:
		a.wholeBody(body, w.dialect().stop)
	}
	return a
}

// counted counts bytes.
type counted struct {
	r     io.Reader
	n     *int64
	first func()
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if n > 0 && *c.n == 0 {
		c.first()
	}
	*c.n += int64(n)
	return n, err
}

// refusal reads an error.
func (a *asked) refusal(body io.Reader) {
	text, err := io.ReadAll(io.LimitReader(body, 64<<10))
	a.broken, a.body = err, clip(string(text), 400)
	var e struct {
		Error struct {
			Code string `json:"code"`
			Type string `json:"type"`
		} `json:"error"`
	}
	if json.Unmarshal(text, &e) == nil {
		if a.code = e.Error.Code; a.code == "" {
			a.code = e.Error.Type
		}
	}
}

func (a *asked) wholeBody(body io.Reader, stop string) {
	text, err := io.ReadAll(body)
	a.broken, a.tokens = err, bytes.Count(text, []byte(word))
	a.whole = err == nil && bytes.Contains(text, []byte(stop))
	if !a.whole {
		a.body = clip(string(text), 400)
	}
}

// follow reads a stream.
func (a *asked) follow(body io.Reader, w wish, cancel func()) {
	last := []byte(w.dialect().last)
	events := sse.NewReader(body, sse.Options{})
	for {
		e, err := events.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) && !a.left {
				a.broken = err
			}
			return
		}
		switch {
		case bytes.Contains(e.Data, last):
			a.whole = true
		case bytes.Contains(e.Data, []byte(`"error"`)):
			a.code, a.body = "in the stream", clip(string(e.Data), 400)
		default:
			a.tokens += bytes.Count(e.Data, []byte(word))
		}
		if w.leave > 0 && a.tokens >= w.leave && !a.whole {
			a.left = true
			cancel()
			return
		}
	}
}

// good reports whether the client has what it asked for.
func (a asked) good() bool {
	return a.status == http.StatusOK && (a.whole || a.left) && a.broken == nil && a.code == ""
}

// each runs do for every number below n, some at a time.
func each(n, abreast int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, abreast) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// offer starts requests at a steady rate until the context ends, whatever becomes of
// those before: real clients do not wait for each other. It returns when all have
// ended.
func offer(ctx context.Context, rate int, do func(i int)) (offered int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	began := time.Now()
	gap := time.Second / time.Duration(rate)
	for i := 0; ; i++ {
		early := time.Until(began.Add(time.Duration(i) * gap))
		select {
		case <-ctx.Done():
			return i
		case <-time.After(max(early, 0)):
			wg.Go(func() { do(i) })
		}
	}
}

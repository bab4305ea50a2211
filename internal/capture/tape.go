package capture

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Tape copies one exchange as it passes. An exchange of which one side is larger
// than the limit is let go: half of it would be no case.
type Tape struct {
	viewers []*viewer
	max     int
	secrets []string

	mu   sync.Mutex // two attempts may be made at once
	x    Exchange
	over bool
}

// Asked is a client's request.
type Asked struct {
	ID, Model, Route, Protocol, Path string
	Stream                           bool
	Header                           http.Header
	Body                             []byte   // not to be changed any more
	Secrets                          []string // the client's credentials
}

// Asked notes the client's request.
func (t *Tape) Asked(a Asked) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.secrets = append(t.secrets, a.Secrets...)
	t.x.ID, t.x.Time, t.x.Model, t.x.Route, t.x.Client, t.x.Path, t.x.Stream = a.ID, time.Now(), a.Model, a.Route, a.Protocol, a.Path, a.Stream
	t.x.Header, t.x.Ask = headers(a.Header), t.fits(a.Body)
}

// Sent is a request as it goes upstream.
type Sent struct {
	Target, Protocol, Model, Path string
	Header                        http.Header
	Body                          []byte // not to be changed any more
	Secret                        string // the provider's key
}

// Try notes an attempt.
func (t *Tape) Try(s Sent) *Try {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.secrets = append(t.secrets, s.Secret)
	try := &Try{Target: s.Target, Protocol: s.Protocol, Model: s.Model, Path: s.Path, Header: headers(s.Header), Body: t.fits(s.Body), tape: t}
	t.x.Tries = append(t.x.Tries, try)
	return try
}

// Answered notes an upstream's status and copies the body as it is read.
func (y *Try) Answered(resp *http.Response) {
	y.tape.mu.Lock()
	defer y.tape.mu.Unlock()
	y.Status, y.AnswerHeader = resp.StatusCode, headers(resp.Header)
	resp.Body = &copied{resp.Body, y}
}

// copied is an answer's body that is copied while it is read.
type copied struct {
	io.ReadCloser
	try *Try
}

func (c *copied) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	t := c.try.tape
	t.mu.Lock()
	defer t.mu.Unlock()
	c.try.Answer = t.more(c.try.Answer, p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		c.try.Broken = true
	}
	return n, err
}

// Write copies what the client gets. It never fails.
func (t *Tape) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.x.Seen = t.more(t.x.Seen, p)
	return len(p), nil
}

// Outcome is how an exchange has ended.
type Outcome struct {
	Taken    *Try // nil where nobody was asked
	Upstream string
	Status   int
	Header   http.Header
	Fidelity string
	Error    string
	Special  []string // settings of the provider that change what is sent
	Joined   bool
}

// End hands the tape over to those who wanted it.
func (t *Tape) End(o Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.viewers == nil {
		return // it was handed over
	}
	x := &t.x
	x.Upstream, x.Status, x.SeenHeader, x.Fidelity, x.Error, x.Special, x.Joined = o.Upstream, o.Status, headers(o.Header), o.Fidelity, o.Error, o.Special, o.Joined
	for i, y := range x.Tries {
		if y == o.Taken {
			x.Taken = i
		}
	}
	x.secrets = t.secrets
	if t.over {
		x = nil
	}
	for _, v := range t.viewers {
		v.give(x)
	}
	t.viewers = nil
}

// fits returns a body that is not too large.
func (t *Tape) fits(body []byte) []byte {
	if len(body) > t.max {
		t.drop()
	}
	if t.over {
		return nil
	}
	return body
}

// more adds to what was copied so far.
func (t *Tape) more(to, p []byte) []byte {
	if len(to)+len(p) > t.max {
		t.drop()
	}
	if t.over || t.viewers == nil {
		return nil
	}
	return append(to, p...)
}

// drop lets go of everything.
func (t *Tape) drop() {
	t.over = true
	t.x.Ask, t.x.Seen = nil, nil
	for _, y := range t.x.Tries {
		y.Body, y.Answer = nil, nil
	}
}

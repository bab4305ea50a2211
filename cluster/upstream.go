package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The tokens that an upstream tells of a prompt, whatever its length.
const promptTokens = 7

// word is one token by every way to count: four letters, one word, one event.
const word = " abc"

// upstream is a chat server that does what prompts say and writes down what it has
// done. The first part of a path is the name that it was asked by.
type upstream struct {
	addr    string
	history history[served]

	mu    sync.Mutex
	tries map[string]int

	open, peak atomic.Int64
	server     http.Server
}

func newUpstream() (*upstream, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &upstream{addr: l.Addr().String(), tries: map[string]int{}}
	u.server = http.Server{Handler: http.HandlerFunc(u.answer), ReadHeaderTimeout: time.Minute}
	go func() { _ = u.server.Serve(l) }() // close ends it
	return u, nil
}

func (u *upstream) close() { _ = u.server.Close() } // what is open is cut

// url is a base_url.
func (u *upstream) url(who string) string { return "http://" + u.addr + "/" + who + "/v1" }

func (u *upstream) try(tag string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tries[tag]++
	return u.tries[tag]
}

// call is one attempt while it is served.
type call struct {
	served
	script
	w     http.ResponseWriter
	r     *http.Request
	usage bool // it shall be told in a stream
	wants bool // a stream
}

func (u *upstream) answer(w http.ResponseWriter, r *http.Request) {
	who, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	c := &call{w: w, r: r}
	if err := c.read(); err != nil {
		http.Error(w, `{"error":{"message":"`+err.Error()+`","type":"invalid_request_error"}}`, http.StatusBadRequest)
		return
	}
	c.served = served{tag: c.Tag, who: who, try: u.try(c.Tag), at: time.Now(), bearer: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}
	if now := u.open.Add(1); now > u.peak.Load() {
		u.peak.Store(now) // a lost race is off by one at most in a peak that is read afterwards
	}
	defer func() {
		u.open.Add(-1)
		c.took = time.Since(c.at)
		u.history.add(c.served)
		if c.fault != "" && c.fault != string(errors500) && c.fault != string(errors503) {
			panic(http.ErrAbortHandler)
		}
	}()
	if !c.sleep(c.Wait) {
		return
	}
	switch {
	case c.fails(who, c.try) && !c.begun():
		c.fail()
	case c.wants:
		c.stream()
	default:
		c.plain()
	}
}

// read takes the request apart.
func (c *call) read() error {
	var body struct {
		Stream  bool `json:"stream"`
		Options struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Messages []struct{ Content string }
	}
	if err := json.NewDecoder(http.MaxBytesReader(c.w, c.r.Body, 1<<20)).Decode(&body); err != nil {
		return err
	}
	if len(body.Messages) == 0 {
		return errors.New("no messages")
	}
	_, text, ok := strings.Cut(body.Messages[len(body.Messages)-1].Content, prologue)
	if !ok {
		return errors.New("no script")
	}
	c.wants, c.usage = body.Stream, body.Options.IncludeUsage
	return json.NewDecoder(strings.NewReader(text)).Decode(&c.script) // text may follow
}

// begun reports whether the fault comes after the head.
func (c *call) begun() bool { return c.Fault == resets || c.Fault == cuts || c.Fault == hangs }

// fail is a fault before the head.
func (c *call) fail() {
	c.fault = string(c.Fault)
	switch c.Fault {
	case errors500, errors503:
		status := http.StatusInternalServerError
		if c.Fault == errors503 {
			status = http.StatusServiceUnavailable
		}
		c.w.Header().Set("Content-Type", "application/json")
		c.w.WriteHeader(status)
		fmt.Fprint(c.w, `{"error":{"message":"no luck","type":"server_error","param":null,"code":null}}`)
	case silent:
		<-c.r.Context().Done()
		c.gone = true
	default:
		c.reset()
	}
}

// reset ends the connection so that the other side gets an error and no end.
func (c *call) reset() {
	conn, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // the close that follows says RST
	}
	_ = conn.Close() // that is what is wanted
}

func (c *call) sleep(d time.Duration) bool {
	if d > 0 {
		select {
		case <-time.After(d):
		case <-c.r.Context().Done():
		}
	}
	c.gone = c.r.Context().Err() != nil
	return !c.gone
}

func (c *call) plain() {
	text := fmt.Sprintf(`{"id":"c-%s","object":"chat.completion","created":1790000000,"model":"up","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, c.Tag, strings.Repeat(word, c.Say), promptTokens, c.Say, promptTokens+c.Say)
	if !c.sleep(time.Duration(c.Say) * c.Every) {
		return
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	if c.fails(c.who, c.try) {
		c.fault = string(c.Fault)
		fmt.Fprint(c.w, text[:len(text)/2])
		_ = http.NewResponseController(c.w).Flush() // what follows ends it
		if c.Fault == hangs {
			<-c.r.Context().Done()
			c.gone = true
		}
		return
	}
	if _, err := fmt.Fprint(c.w, text); err != nil || c.r.Context().Err() != nil {
		c.gone = true
		return
	}
	c.tokens, c.whole, c.told = c.Say, true, true
}

const chunk = `data: {"id":"c-%s","object":"chat.completion.chunk","created":1790000000,"model":"up","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}` + "\n\n"

func (c *call) stream() {
	c.w.Header().Set("Content-Type", "text/event-stream")
	fails := c.fails(c.who, c.try)
	rc := http.NewResponseController(c.w)
	if fails && c.Fault == resets {
		c.fault = string(c.Fault)
		_ = rc.Flush() // the head
		c.reset()
		return
	}
	for i := range c.Say {
		if fails && i == c.After {
			c.fault = string(c.Fault)
			if c.Fault == hangs {
				<-c.r.Context().Done()
				c.gone = true
			}
			return
		}
		_, err := fmt.Fprintf(c.w, chunk, c.Tag, `{"content":"`+word+`"}`, "null")
		if err = errors.Join(err, rc.Flush()); err != nil {
			c.gone = true
			return
		}
		c.tokens++
		if !c.sleep(c.Every) {
			return
		}
	}
	if c.Hold {
		<-c.r.Context().Done()
		c.gone = true
		return
	}
	c.finish()
}

func (c *call) finish() {
	fmt.Fprintf(c.w, chunk, c.Tag, "{}", `"stop"`)
	if c.usage {
		fmt.Fprintf(c.w, `data: {"id":"c-%s","object":"chat.completion.chunk","created":1790000000,"model":"up","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`+"\n\n",
			c.Tag, promptTokens, c.Say, promptTokens+c.Say)
	}
	_, err := fmt.Fprint(c.w, "data: [DONE]\n\n")
	c.whole = err == nil && c.r.Context().Err() == nil
	c.gone, c.told = !c.whole, c.whole && c.usage
}

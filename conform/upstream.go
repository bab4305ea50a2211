package conform

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Upstream plays the vendors of all four dialects, as the case at hand says.
type Upstream struct {
	server   *http.Server
	listener net.Listener

	mu   sync.Mutex
	play func(http.ResponseWriter, *request)
	got  []*request
}

// request is one request as the upstream got it.
type request struct {
	method, path, query string
	header              http.Header
	body                []byte
	dialect             Dialect
	heard               heard
	gone                <-chan struct{} // closed when the peer has gone
}

// NewUpstream serves on the listener until Close.
func NewUpstream(l net.Listener) *Upstream {
	u := &Upstream{listener: l}
	u.server = &http.Server{Handler: u, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = u.server.Serve(l) }() // it ends with Close, which is all that it can say
	return u
}

// URL is where the upstream is, without a path.
func (u *Upstream) URL() string { return "http://" + u.listener.Addr().String() }

// Close ends the upstream and its connections.
func (u *Upstream) Close() error {
	if err := u.server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// expect sets what the next requests are answered with and forgets the last ones.
func (u *Upstream) expect(play func(http.ResponseWriter, *request)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.play, u.got = play, nil
}

func (u *Upstream) requests() []*request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]*request(nil), u.got...)
}

func (u *Upstream) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r := &request{method: req.Method, path: req.URL.Path, query: req.URL.RawQuery, header: req.Header.Clone(), body: body, dialect: spokenAt(req.URL.Path), gone: req.Context().Done()}
	if r.dialect == "" {
		http.NotFound(w, req)
		return
	}
	r.heard = voiceOf(r.dialect).readAsk(body, req.Header, req.URL.Path)
	u.mu.Lock()
	u.got = append(u.got, r)
	play := u.play
	u.mu.Unlock()
	if play == nil {
		http.Error(w, "nothing was expected", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Set-Cookie", "canary=1") // a cookie is between two parties and must go no further
	play(w, r)
}

// answer plays one round of a case.
func (c *Case) answer(rd *round, w http.ResponseWriter, r *request) {
	if exts := rd.raw[r.dialect]; exts != nil && c.Recorded() {
		c.answerRecorded(exts, w)
		return
	} else if exts != nil {
		c.answerRaw(exts, w, r)
		return
	}
	if rd.answer == nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	v := voiceOf(r.dialect)
	reply := v.canAnswer(*rd.answer)
	reply.want, reply.model = r.heard.want, r.heard.model
	switch {
	case reply.Fault != nil && reply.breaks == "":
		status, body := v.writeFault(*reply.Fault)
		if reply.Fault.Retry != "" {
			w.Header().Set("Retry-After", reply.Fault.Retry)
		}
		whole(w, status, "application/json", body)
	case reply.breaks == "error" && r.heard.stream:
		c.send(w, v.writeStreamFault(*reply.Fault, reply))
	case reply.breaks == "error":
		_, body := v.writeFault(*reply.Fault)
		whole(w, http.StatusOK, "application/json", body)
	case r.heard.stream && !c.frame.has("json-instead") || c.frame.has("sse-instead"):
		reply.want.usage = reply.want.usage || !r.heard.stream
		c.sendReply(w, v, reply)
	case reply.breaks != "":
		body := v.writeWhole(reply)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body[:len(body)/2]) // what the client does not get is the point
		panic(http.ErrAbortHandler)
	default:
		whole(w, http.StatusOK, "application/json", v.writeWhole(reply))
	}
	if c.frame.has("linger") {
		wait(r, lingerTime)
	}
}

// lingerTime is how long an upstream keeps a finished stream open, and holdTime
// how long it keeps an unfinished one.
const (
	lingerTime = 3 * time.Second
	holdTime   = 5 * time.Second
)

// wait returns when the peer has gone, or after a while, and says which it was.
func wait(r *request, most time.Duration) (gone bool) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-r.gone:
		return true
	case <-timer.C:
		return false
	}
}

// hold sends what there is and keeps the stream open until the peer leaves.
func (c *Case) hold(w http.ResponseWriter, v voice, reply Reply, r *request, h *holding) {
	if len(reply.Pieces) > 0 {
		full := v.writeStreamFault(Fault{Kind: "server", Message: "-"}, reply)
		c.send(w, full[:len(full)-1])
	}
	close(h.begun)
	if wait(r, holdTime) {
		close(h.left)
	}
}

// holding tells a client when to leave, and whether the upstream has noticed.
type holding struct{ begun, left chan struct{} }

func (c *Case) sendReply(w http.ResponseWriter, v voice, reply Reply) {
	events := v.writeStream(reply)
	if reply.breaks == "" {
		c.send(w, events)
		return
	}
	// Everything that could prove the end is left out.
	full := v.writeStreamFault(Fault{Kind: "server", Message: "-"}, reply)
	c.send(w, full[:len(full)-1])
	if reply.breaks == "reset" {
		panic(http.ErrAbortHandler)
	}
}

func (c *Case) send(w http.ResponseWriter, events []event) {
	if c.frame.has("gzip") {
		w.Header().Set("Content-Encoding", "gzip")
	}
	stream(w, c.frame.chunks(events))
}

func stream(w http.ResponseWriter, chunks [][]byte) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	flush := http.NewResponseController(w)
	for _, b := range chunks {
		if _, err := w.Write(b); err != nil {
			return
		}
		if flush.Flush() != nil {
			return
		}
	}
}

func whole(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(body) // a peer that has gone is found by what it misses
}

func (c *Case) answerRaw(exts map[string]string, w http.ResponseWriter, r *request) {
	switch {
	case exts["http"] != "":
		rawHTTP(w, exts["http"])
	case r.heard.stream && exts["bytes"] != "":
		stream(w, [][]byte{[]byte(exts["bytes"])})
	case r.heard.stream && exts["sse"] != "":
		events, rest := readEvents([]byte(exts["sse"]))
		if rest != "" {
			events = append(events, event{lastName(exts["sse"]), rest})
		}
		c.send(w, events)
	case exts["json"] != "":
		whole(w, http.StatusOK, "application/json", []byte(strings.TrimSpace(exts["json"])))
	default:
		events, _ := readEvents([]byte(exts["sse"] + "\n\n"))
		c.send(w, events)
	}
}

// lastName is the event line of the last block.
func lastName(text string) string {
	i := strings.LastIndex(text, "event: ")
	if i < 0 || i < strings.LastIndex(strings.TrimSpace(text), "\n\n") {
		return ""
	}
	name, _, _ := strings.Cut(text[i+len("event: "):], "\n")
	return name
}

// rawHTTP answers with "STATUS TYPE", header lines, a blank line and the body.
func rawHTTP(w http.ResponseWriter, text string) {
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	number, kind, _ := strings.Cut(lines[0], " ")
	for _, l := range lines[1:] {
		name, v, _ := strings.Cut(l, ":")
		w.Header().Set(name, strings.TrimSpace(v))
	}
	status, err := strconv.Atoi(number)
	if err != nil {
		status = http.StatusInternalServerError
	}
	whole(w, status, kind, []byte(strings.TrimSuffix(body, "\n")))
}

// Listen opens the upstream's address.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", address)
}

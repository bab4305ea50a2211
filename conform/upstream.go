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

// Upstream is a server that responds in all dialects, as the current case defines.
type Upstream struct {
	server   *http.Server
	listener net.Listener

	mu      sync.Mutex
	respond func(http.ResponseWriter, *upstreamRequest)
	got     []*upstreamRequest
	routes  map[string]*route // by model
}

// route is a place for the requests of one model, so that cases can run in parallel.
type route struct {
	respond func(http.ResponseWriter, *upstreamRequest)
	got     []*upstreamRequest
}

// upstreamRequest is a request that the upstream has received.
type upstreamRequest struct {
	method, path, query string
	header              http.Header
	body                []byte
	dialect             Dialect
	parsed              Received
	reply               []byte          // what was sent, if it is kept
	gone                <-chan struct{} // closed when the peer disconnects
}

// NewUpstream serves on the listener until Close.
func NewUpstream(l net.Listener) *Upstream {
	u := &Upstream{listener: l}
	u.server = &http.Server{Handler: u, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = u.server.Serve(l) }() // its only error is that of Close
	return u
}

// URL returns the base URL of the upstream.
func (u *Upstream) URL() string { return "http://" + u.listener.Addr().String() }

// Close stops the upstream and closes its connections.
func (u *Upstream) Close() error {
	if err := u.server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// expect sets the function that responds to requests and clears the list of requests.
func (u *Upstream) expect(respond func(http.ResponseWriter, *upstreamRequest)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.respond, u.got = respond, nil
}

// expectModel is expect for the requests of one model.
func (u *Upstream) expectModel(model string, respond func(http.ResponseWriter, *upstreamRequest)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.routes == nil {
		u.routes = map[string]*route{}
	}
	u.routes[model] = &route{respond: respond}
}

// requestsOf returns the requests of one model since expectModel.
func (u *Upstream) requestsOf(model string) []*upstreamRequest {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r := u.routes[model]; r != nil {
		return append([]*upstreamRequest(nil), r.got...)
	}
	return nil
}

func (u *Upstream) requests() []*upstreamRequest {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]*upstreamRequest(nil), u.got...)
}

func (u *Upstream) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r := &upstreamRequest{method: req.Method, path: req.URL.Path, query: req.URL.RawQuery, header: req.Header.Clone(), body: body, dialect: dialectAt(req.URL.Path), gone: req.Context().Done()}
	if r.dialect == "" {
		http.NotFound(w, req)
		return
	}
	r.parsed = codecOf(r.dialect).readRequest(body, req.Header, req.URL.Path)
	u.mu.Lock()
	respond := u.respond
	if to := u.routes[r.parsed.Model]; to != nil {
		to.got, respond = append(to.got, r), to.respond
	} else {
		u.got = append(u.got, r)
	}
	u.mu.Unlock()
	if respond == nil {
		http.Error(w, "nothing was expected", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Set-Cookie", "canary=1") // the gateway must not forward it
	respond(w, r)
}

// respond writes the upstream response of a round.
func (c *Case) respond(rd *round, w http.ResponseWriter, r *upstreamRequest) {
	if exts := rd.rawResponse[r.dialect]; exts != nil && c.Recorded() {
		c.respondRecorded(exts, w)
		return
	} else if exts != nil {
		c.respondRaw(exts, w, r)
		return
	}
	if rd.response == nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	v := codecOf(r.dialect)
	reply := v.fitResponse(*rd.response)
	reply.options, reply.model = r.parsed.options, r.parsed.Model
	switch {
	case reply.Err != nil && reply.breaks == "":
		status, body := v.writeError(*reply.Err)
		if reply.Err.Retry != "" {
			w.Header().Set("Retry-After", reply.Err.Retry)
		}
		whole(w, status, "application/json", body)
	case reply.breaks == "error" && r.parsed.Stream:
		c.send(w, r.dialect, v.writeStreamError(*reply.Err, reply))
	case reply.breaks == "error":
		_, body := v.writeError(*reply.Err)
		whole(w, http.StatusOK, "application/json", body)
	case r.parsed.Stream && !c.frame.has("json-instead") || c.frame.has("sse-instead"):
		reply.options.usage = reply.options.usage || !r.parsed.Stream
		c.sendReply(w, r.dialect, reply)
	case reply.breaks != "":
		body := v.writeBody(reply)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body[:len(body)/2])
		panic(http.ErrAbortHandler)
	default:
		whole(w, http.StatusOK, "application/json", v.writeBody(reply))
	}
	if c.frame.has("linger") {
		wait(r, lingerTime)
	}
}

// lingerTime is the time that the upstream keeps a complete stream open, holdTime that of an
// incomplete one.
const (
	lingerTime = 3 * time.Second
	holdTime   = 5 * time.Second
)

// wait waits until the peer disconnects or the time is over, and reports which.
func wait(r *upstreamRequest, most time.Duration) (gone bool) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-r.gone:
		return true
	case <-timer.C:
		return false
	}
}

// hold sends the pieces and keeps the stream open until the peer disconnects.
func (c *Case) hold(w http.ResponseWriter, v codec, reply Response, r *upstreamRequest, h *holding) {
	if len(reply.Pieces) > 0 {
		full := v.writeStreamError(APIError{Kind: "server", Message: "-"}, reply)
		c.send(w, r.dialect, full[:len(full)-1])
	}
	close(h.begun)
	if wait(r, holdTime) {
		close(h.left)
	}
}

// holding signals when a client may disconnect, and that the upstream has noticed.
type holding struct{ begun, left chan struct{} }

func (c *Case) sendReply(w http.ResponseWriter, d Dialect, reply Response) {
	v := codecOf(d)
	events := v.writeStream(reply)
	if reply.breaks == "" {
		c.send(w, d, events)
		return
	}
	// The last event could mark the end of the response.
	full := v.writeStreamError(APIError{Kind: "server", Message: "-"}, reply)
	c.send(w, d, full[:len(full)-1])
	if reply.breaks == "reset" {
		panic(http.ErrAbortHandler)
	}
}

func (c *Case) send(w http.ResponseWriter, d Dialect, events []event) {
	if c.frame.has("gzip") {
		w.Header().Set("Content-Encoding", "gzip")
	}
	frame := c.frame
	frame.dialect = d
	stream(w, d, frame.chunks(events))
}

func stream(w http.ResponseWriter, d Dialect, chunks [][]byte) {
	media := d.Media()
	if d != Converse {
		media += "; charset=utf-8"
	}
	w.Header().Set("Content-Type", media)
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
	_, _ = w.Write(body) // the client notices what is missing
}

func (c *Case) respondRaw(exts map[string]string, w http.ResponseWriter, r *upstreamRequest) {
	switch {
	case exts["http"] != "":
		rawHTTP(w, exts["http"])
	case r.parsed.Stream && exts["bytes"] != "":
		stream(w, r.dialect, [][]byte{[]byte(exts["bytes"])})
	case r.parsed.Stream && exts["sse"] != "":
		events, rest := readEvents([]byte(exts["sse"]))
		if rest != "" {
			events = append(events, event{lastName(exts["sse"]), rest})
		}
		c.send(w, r.dialect, events)
	case exts["json"] != "":
		whole(w, http.StatusOK, "application/json", []byte(strings.TrimSpace(exts["json"])))
	default:
		events, _ := readEvents([]byte(exts["sse"] + "\n\n"))
		c.send(w, r.dialect, events)
	}
}

// lastName returns the name of the last event.
func lastName(text string) string {
	i := strings.LastIndex(text, "event: ")
	if i < 0 || i < strings.LastIndex(strings.TrimSpace(text), "\n\n") {
		return ""
	}
	name, _, _ := strings.Cut(text[i+len("event: "):], "\n")
	return name
}

// rawHTTP writes a response from the text "STATUS TYPE", header lines, a blank line and the
// body.
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

// Listen listens on a TCP address for the upstream.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", address)
}

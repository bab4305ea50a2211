package relay

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/capture"
	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Watcher hands exchanges to an operator who looks on.
type Watcher interface {
	// Active reports whether anybody does. It is asked for each request.
	Active() bool
	// Follow returns a tape for an exchange that somebody wants to see, else nil.
	Follow(s capture.Subject) *capture.Tape
}

// Watch sets who looks on, before anything is served.
func (r *Relay) Watch(w Watcher) { r.watcher = w }

// requestNames are where a client may have named its request.
var requestNames = []string{"X-Request-Id", "X-Client-Request-Id"}

// follow begins to copy an exchange that somebody wants to see. Only those that every
// dialect has can be told as a case.
func (r *Relay) follow(x *exchange) {
	if !x.endpoint.generates {
		return
	}
	h := x.client.Header
	s := capture.Subject{Model: x.ask.model, Key: x.caller.Key}
	if s.Key == "" {
		s.Digest = fmt.Sprintf("%x", x.caller.ID)
	}
	for _, name := range requestNames {
		if v := h.Get(name); v != "" {
			s.Requests = append(s.Requests, v)
		}
	}
	if parts := strings.Split(h.Get("Traceparent"), "-"); len(parts) == 4 {
		s.Requests = append(s.Requests, parts[1])
	}
	if x.tape = r.watcher.Follow(s); x.tape == nil {
		return
	}
	x.out.lock()
	x.out.copied = x.tape
	x.out.unlock()
	x.tape.Asked(capture.Asked{ID: x.seen.ID, Model: x.ask.model, Route: x.route.Name, Protocol: string(x.endpoint.dialect), Path: x.endpoint.path,
		Stream: x.ask.stream, Header: h, Body: x.ask.body, Secrets: credentials(x.client)})
}

// credentials are all that a client may have sent to say who it is.
func credentials(req *http.Request) []string {
	h := req.Header
	_, token, _ := strings.Cut(h.Get("Authorization"), " ")
	list := []string{h.Get("X-Api-Key"), h.Get("X-Goog-Api-Key"), h.Get("Api-Key"), strings.TrimSpace(token), req.URL.Query().Get("key")}
	for _, c := range req.Cookies() {
		list = append(list, c.Value)
	}
	return list
}

// tapeTry notes what an attempt sends.
func (x *exchange) tapeTry(req *http.Request) {
	p := x.target.Provider
	x.taped = x.tape.Try(capture.Sent{Target: x.target.String(), Protocol: string(p.Protocol), Model: x.target.Model, Path: req.URL.Path,
		Header: req.Header, Body: x.body, Secret: p.Key.Reveal()})
}

// endTape hands the exchange over, with how it ended.
func (x *exchange) endTape() {
	o := capture.Outcome{Taken: x.taped, Status: x.seen.Status, Header: x.out.header(), Fidelity: x.fidelity, Joined: x.seen.Continued > 0}
	if p := x.target.Provider; p != nil {
		o.Upstream, o.Special = string(p.Protocol), x.special()
	}
	if x.seen.Err != nil {
		o.Error = string(x.seen.Err.Kind)
	}
	x.tape.End(o)
}

// special are the settings by which this request was treated otherwise than it would
// be with a configuration that says nothing.
func (x *exchange) special() []string {
	p := x.target.Provider
	var list []string
	for name, is := range map[string]bool{
		"api_version":     p.APIVersion != "" || len(p.AcceptedVersions) > 0 || p.ForwardUnknownVersion,
		"custom tools":    p.KnowsCustomTools(),
		"fidelity":        x.state.Fidelity != "" && x.state.Fidelity != llm.Default,
		"include_usage":   x.hide,
		"nvext":           p.NvExt != "" && p.NvExt != provider.NvExtRefuse,
		"quirks":          len(p.Quirks) > 0,
		"upstream_stream": p.UpstreamStream == provider.Always && !x.ask.stream,
	} {
		if is {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

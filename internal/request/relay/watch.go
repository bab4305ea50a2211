package relay

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/edge/agents"
	"github.com/isogloss-gateway/isogloss/internal/request/capture"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Watcher selects the exchanges to capture.
type Watcher interface {
	// Active reports whether any exchange may be selected. It is called for each request.
	Active() bool
	// Record returns a recorder if the exchange is selected, else nil.
	Record(s capture.Subject) *capture.Recorder
}

// Watch sets the watcher. Call it before serving.
func (r *Relay) Watch(w Watcher) { r.watcher = w }

// follow starts recording an exchange if it is selected. Only operations that every
// dialect has can become a conformance case.
func (q *request) follow(w Watcher) {
	if q.Call.Operation != codec.Generate || q.relay.dialects.ByName[q.Call.Dialect.Name] == nil {
		return
	}
	h := q.Call.Client.Header
	s := capture.Subject{Model: q.Call.Body.Model, Key: q.caller.Key, Requests: capture.RequestIDs(h)}
	if s.Key == "" {
		s.Digest = fmt.Sprintf("%x", q.caller.ID)
	}
	if q.tape = w.Record(s); q.tape == nil {
		return
	}
	q.Writer.Copy(q.tape)
	q.tape.Request(capture.Request{ID: q.Call.ID, Model: q.Call.Body.Model, Route: q.route.Name, Protocol: string(q.Call.Dialect.Name), Path: q.Call.URLPath,
		Stream: q.Call.Body.Stream, Header: h, Body: q.Call.Body.Text(), Secrets: agents.Credentials(q.Call.Client)})
}

// tapeAttempt records the upstream request of an attempt.
func (q *request) tapeAttempt(a *attempt, req *http.Request) *capture.Attempt {
	p := a.target.Provider
	return q.tape.Attempt(capture.UpstreamRequest{Target: a.target.String(), Protocol: string(p.Protocol), Model: a.target.Model, Path: req.URL.Path,
		Header: req.Header, Body: a.prepared.Request().Body, Secrets: p.Secrets()})
}

// endTape ends the recording.
func (q *request) endTape() {
	o := capture.Result{Answered: q.attempt.taped, Status: q.Result.Status, Header: q.Writer.Header(), Fidelity: q.attempt.fidelity(), Continued: q.Result.Continued > 0}
	if a := q.attempt; a.target != nil {
		o.Upstream, o.Settings = string(a.target.Provider.Protocol), q.changedSettings()
	}
	if q.Result.Err != nil {
		o.Error = string(q.Result.Err.Kind)
	}
	q.tape.End(o)
}

// changedSettings returns the settings that changed the upstream request.
func (q *request) changedSettings() []string {
	p := q.Target.Provider
	var list []string
	collected := q.attempt.prepared != nil && q.attempt.prepared.Request().Stream && !q.Call.Body.Stream
	for name, is := range map[string]bool{
		"api_version":     p.APIVersion != "" || len(p.AcceptedVersions) > 0 || p.ForwardUnknownVersion,
		"custom tools":    p.KnowsCustomTools(),
		"fidelity":        q.state.Fidelity != "" && q.state.Fidelity != llm.Default,
		"include_usage":   q.attempt.prepared != nil && q.attempt.prepared.Request().AddedUsage,
		"quirks":          len(p.Quirks) > 0,
		"upstream_stream": p.UpstreamStream == provider.Always && !q.Call.Body.Stream,
		"budget":          p.UpstreamStream != provider.Always && collected,
	} {
		if is {
			list = append(list, name)
		}
	}
	if p.Extensions != "" && p.Extensions != provider.RefuseExtensions {
		for _, ext := range q.Call.Dialect.Extensions {
			list = append(list, ext.Member)
		}
	}
	slices.Sort(list)
	return list
}

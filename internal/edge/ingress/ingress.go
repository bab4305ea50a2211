// Package ingress finds the dialect and the route of a client's request.
package ingress

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Endpoint is the route of a request and the dialect that it belongs to.
type Endpoint struct {
	Dialect *codec.Dialect
	codec.Location
}

// Table finds dialects by name and routes by path. It does not change.
type Table struct {
	list   []*codec.Dialect // the first is that of clients which give no sign of theirs
	ByName map[protocol.Name]*codec.Dialect
	byPath map[string]Endpoint // routes with a fixed path
	lists  []Endpoint          // of models

	sealMarks [][]byte // of all dialects
}

// NewTable returns a table of dialects. The first one is that of clients which give no
// sign of theirs.
func NewTable(list []*codec.Dialect) *Table {
	d := &Table{list: list, ByName: map[protocol.Name]*codec.Dialect{}, byPath: map[string]Endpoint{}}
	for _, dialect := range list {
		d.ByName[dialect.Name] = dialect
		for _, mark := range dialect.SealMarks {
			d.sealMarks = append(d.sealMarks, []byte(mark))
		}
		for i := range dialect.Routes {
			r := &dialect.Routes[i]
			e := Endpoint{dialect, codec.Location{Route: r, URLPath: r.Path}}
			switch {
			case r.Operation == codec.ListModels:
				d.lists = append(d.lists, e)
			case r.Path != "":
				d.byPath[r.Path] = e
			}
		}
	}
	return d
}

// Locate finds the endpoint of a request. The error is for a path that belongs to a dialect
// but has no endpoint.
func (d *Table) Locate(req *http.Request) (Endpoint, bool, *llm.Error) {
	if e, ok := d.byPath[req.URL.Path]; ok {
		if v := e.Dialect.Versions; v != nil && v.Header != "" {
			e.Version = req.Header.Get(v.Header)
		}
		return e, true, nil
	}
	for _, dialect := range d.list {
		if dialect.Locate == nil {
			continue
		}
		if at, found, err := dialect.Locate(req); found {
			return Endpoint{dialect, at}, true, err
		}
	}
	return Endpoint{}, false, nil
}

// Claimed returns the dialect of a request to a path that several dialects share.
func (d *Table) Claimed(req *http.Request) *codec.Dialect {
	for _, dialect := range d.list {
		if dialect.Claims != nil && dialect.Claims(req) {
			return dialect
		}
	}
	return d.list[0]
}

// Generate returns the endpoint at which a dialect's requests for a response from a model
// arrive.
func (d *Table) Generate(name protocol.Name, model string) (Endpoint, bool) {
	dialect := d.ByName[name]
	if dialect == nil {
		return Endpoint{}, false
	}
	i := slices.IndexFunc(dialect.Routes, func(r codec.Route) bool { return r.Operation == codec.Generate })
	e := Endpoint{dialect, codec.Location{Route: &dialect.Routes[i], URLPath: dialect.Routes[i].Path}}
	if dialect.UpstreamPath != nil {
		e.Model = model
		e.URLPath, _ = dialect.UpstreamPath(e.Location, protocol.Target{Model: model}, false) // empty for a model without a path
	}
	return e, true
}

// Setups returns how SDKs are pointed at the gateway.
func (d *Table) Setups() (list []codec.Setup) {
	for _, dialect := range d.list {
		if dialect.Setup.SDK != "" {
			list = append(list, dialect.Setup)
		}
	}
	return list
}

// Names lists the names of all dialects for a message.
func (d *Table) Names() string {
	names := make([]string, len(d.list))
	for i, dialect := range d.list {
		names[i] = string(dialect.Name)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// RequestIDHeader returns the header in which clients of a dialect look for the request id.
func RequestIDHeader(d *codec.Dialect) string { return cmp.Or(d.Headers.RequestID, "X-Request-Id") }

// HasSeals reports whether a body holds sealed reasoning, in the members of any dialect:
// clients carry the seals of one dialect inside another. A quote inside a JSON string is
// escaped, so that text cannot look like a member.
func (d *Table) HasSeals(body []byte) bool {
	return slices.ContainsFunc(d.sealMarks, func(mark []byte) bool { return bytes.Contains(body, mark) })
}

// ModelList finds the list of models that a path names, or the model below it. The id is
// empty for the list itself; it may hold slashes. Where dialects share a kind of path the
// client's own dialect writes the list.
func (d *Table) ModelList(path string, client *codec.Dialect) (list *codec.ModelList, id string, ok bool) {
	for _, e := range d.lists {
		rest, found := strings.CutPrefix(path, e.Path)
		below := strings.HasPrefix(rest, "/") && len(rest) > 1 && e.Models.One != nil
		if !found || rest != "" && !below || e.Own && e.Dialect != client {
			continue
		}
		list = e.Models
		if i := slices.IndexFunc(d.lists, func(own Endpoint) bool { return own.Dialect == client }); i >= 0 && list.One != nil {
			list = d.lists[i].Models
		}
		return list, strings.TrimPrefix(rest, "/"), true
	}
	return nil, "", false
}

// Probe reports whether a path is a probe, under one of the names that supervisors use,
// and whether it is one of liveness or of readiness.
func Probe(path string) (live, ok bool) {
	switch path {
	case "/live", "/healthz", "/health/liveliness":
		return true, true
	case "/health", "/ready", "/readyz", "/health/readiness":
		return false, true
	}
	return false, false
}

// ServeProbe serves a probe.
func ServeProbe(w http.ResponseWriter, live, draining bool) {
	status, text := http.StatusOK, `{"status":"ready"}`
	switch {
	case live:
		text = `{"status":"live"}`
	case draining:
		status, text = http.StatusServiceUnavailable, `{"status":"draining"}`
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // the client may have disconnected
}

package llm

import "strings"

// Verdict is what became of a field on its way to another protocol.
type Verdict string

// The verdicts. Exact and renamed lose nothing and are not listed in a report.
const (
	Exact        Verdict = "exact"
	Renamed      Verdict = "renamed"
	Approximated Verdict = "approximated"
	Dropped      Verdict = "dropped"
	Rejected     Verdict = "refused"
)

// Mode says what is done about a loss.
type Mode string

// The modes.
const (
	Strict  Mode = "strict"  // any loss refuses the request
	Default Mode = "default" // what changes the meaning refuses it, the rest is reported
	Loose   Mode = "loose"   // what can be left out is left out and reported
)

// Loss is one thing that did not arrive as it was sent.
type Loss struct {
	Path    string  `json:"path"` // in the neutral model, such as sampling.temperature
	Verdict Verdict `json:"verdict"`
	Code    string  `json:"code"` // stable, such as temperature.clamped
	Note    string  `json:"note"` // for people
}

// Report gathers losses while a value is written in another protocol. The zero
// value is ready for use and has the default mode.
type Report struct {
	Mode   Mode
	Losses []Loss
}

// Approximate notes that a value arrived as something near it.
func (r *Report) Approximate(path, code, note string) {
	r.Losses = append(r.Losses, Loss{path, Approximated, code, note})
}

// Drop notes that a value did not arrive.
func (r *Report) Drop(path, code, note string) {
	r.Losses = append(r.Losses, Loss{path, Dropped, code, note})
}

// Refuse notes that a request cannot be sent because of a value. In loose mode the
// value is left out instead.
func (r *Report) Refuse(path, code, note string) {
	if r.Mode == Loose {
		r.Drop(path, code, note)
		return
	}
	r.Losses = append(r.Losses, Loss{path, Rejected, code, note})
}

// Err is the refusal that the losses amount to in the report's mode, or nil.
func (r *Report) Err() *Error {
	for _, l := range r.Losses {
		if l.Verdict == Rejected || r.Mode == Strict {
			return &Error{Kind: InvalidRequest, Code: "unsupported_parameter", Param: strings.TrimPrefix(l.Path, "/"),
				Message: l.Path + ": " + l.Note + " (" + l.Code + ")"}
		}
	}
	return nil
}

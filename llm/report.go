package llm

import "strings"

// Verdict is the result of translating one field to another protocol.
type Verdict string

// The verdicts. A report lists only those that lose something: approximated, dropped
// and refused.
const (
	Exact        Verdict = "exact"
	Renamed      Verdict = "renamed"
	Approximated Verdict = "approximated"
	Dropped      Verdict = "dropped"
	Rejected     Verdict = "refused"
)

// Mode decides whether a request with losses is sent or rejected.
type Mode string

// The modes.
const (
	Strict  Mode = "strict"  // any loss rejects the request
	Default Mode = "default" // a loss that changes the meaning rejects the request
	Loose   Mode = "loose"   // no loss rejects the request
)

// Loss describes one field that a translation approximated, dropped or refused.
type Loss struct {
	Path    string  `json:"path"` // of the field in the neutral model, such as sampling.temperature, or in the request
	Verdict Verdict `json:"verdict"`
	Code    string  `json:"code"` // stable, such as temperature.clamped
	Note    string  `json:"note"` // explains the loss to a person
}

// Report collects the losses of an encoding. The zero value is ready for use in
// default mode.
type Report struct {
	Mode   Mode
	Losses []Loss

	// Own are the paths of values that the client did not send. The report leaves out that
	// they were approximated or dropped.
	Own []string
}

// isOwn reports whether the client did not send the value at a path.
func (r *Report) isOwn(path string) bool {
	for _, own := range r.Own {
		if rest, ok := strings.CutPrefix(path, own); ok && (rest == "" || rest[0] == '.') {
			return true
		}
	}
	return false
}

// Approximate records that a value was encoded as a similar one.
func (r *Report) Approximate(path, code, note string) {
	r.add(Loss{path, Approximated, code, note})
}

// Drop records that a value was left out.
func (r *Report) Drop(path, code, note string) {
	r.add(Loss{path, Dropped, code, note})
}

func (r *Report) add(l Loss) {
	if len(r.Own) == 0 || !r.isOwn(l.Path) {
		r.Losses = append(r.Losses, l)
	}
}

// Refuse records that a value rejects the request. In loose mode it records that the
// value was left out.
func (r *Report) Refuse(path, code, note string) {
	if r.Mode == Loose {
		r.Drop(path, code, note)
		return
	}
	r.Losses = append(r.Losses, Loss{path, Rejected, code, note})
}

// Err returns the error for the first loss that rejects the request in the report's
// mode, or nil.
func (r *Report) Err() *Error {
	for _, l := range r.Losses {
		if l.Verdict == Rejected || r.Mode == Strict {
			return &Error{Kind: InvalidRequest, Code: "unsupported_parameter", Param: strings.TrimPrefix(l.Path, "/"),
				Message: l.Path + ": " + l.Note + " (" + l.Code + ")"}
		}
	}
	return nil
}

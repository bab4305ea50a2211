package codec

import "github.com/isogloss-gateway/isogloss/llm"

// Stops is a protocol's table of stop reasons. A reason is read as the kind of its first row, and a kind is written as
// the reason of its first row.
type Stops []Stop

// Stop is a stop reason of a protocol and a neutral kind.
type Stop struct {
	Reason string
	Kind   llm.StopKind
}

// Kind returns the kind of a reason.
func (t Stops) Kind(reason string) (llm.StopKind, bool) {
	for _, row := range t {
		if row.Reason == reason {
			return row.Kind, true
		}
	}
	return llm.Other, false
}

// Reason returns the reason of a kind.
func (t Stops) Reason(kind llm.StopKind) (string, bool) {
	for _, row := range t {
		if row.Kind == kind {
			return row.Reason, true
		}
	}
	return "", false
}

// IsLossy reports whether a kind is read back as another one.
func (t Stops) IsLossy(kind llm.StopKind) bool {
	reason, ok := t.Reason(kind)
	back, _ := t.Kind(reason)
	return !ok || back != kind
}

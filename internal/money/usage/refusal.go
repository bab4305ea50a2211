package usage

import "time"

// Reason is why the gateway refused a request.
type Reason string

// The reasons.
const (
	RefusedLimit    Reason = "limit"    // requests or tokens per minute, or concurrent requests
	RefusedBudget   Reason = "budget"   // a budget, or a model without a price for a key with a budget
	RefusedAccess   Reason = "access"   // the key may not use the model or the endpoint, or the model does not exist
	RefusedKey      Reason = "key"      // a wrong secret, or an expired, revoked or blocked key
	RefusedOverload Reason = "overload" // the gateway or the target has no room
	RefusedFidelity Reason = "fidelity" // a field cannot be translated, and strict fidelity forbids to drop it
	RefusedTarget   Reason = "target"   // no target can serve the request
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{RefusedLimit, RefusedBudget, RefusedAccess, RefusedKey, RefusedOverload, RefusedFidelity, RefusedTarget}
}

// Told is the error that a client received.
type Told struct {
	Reason  Reason // empty: the gateway did not refuse the request
	Code    string // of the error; empty: it has none
	Message string // empty: the text of an upstream, which may quote the prompt
	Remedy  string // what would have let a refused request pass; empty: not known
}

// MaxTold is the maximum length of a text of Told in bytes.
const MaxTold = 600

// BoundTold returns an error with printable texts of limited length.
func BoundTold(t Told) Told {
	return Told{Reason: Reason(bound(string(t.Reason), MaxTold)), Code: bound(t.Code, MaxTold), Message: bound(t.Message, MaxTold), Remedy: bound(t.Remedy, MaxTold)}
}

// RefusalCount is how many requests of a key a process has refused for a reason in a minute. It is a total:
// a later count of the same place is higher, and adding one twice changes nothing.
type RefusalCount struct {
	Log            string // of the process
	Node           string
	Org, Team, Key string // empty: the process had no room for the key
	Reason         Reason
	Minute         time.Time
	Count          int64
}

// Refusals is a batch of counts and of rows that show some of the refused requests.
type Refusals struct {
	Counts []RefusalCount
	Rows   []Row
}

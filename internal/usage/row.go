package usage

import (
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Money is an amount in billionths of a dollar. Sums are exact. An unknown amount is a nil *Money,
// never zero.
type Money int64

// Dollar is one dollar.
const Dollar Money = 1e9

// Row is a request in the ledger, with its attempts.
type Row struct {
	ID       string // request id, as returned to the client; unique in the ledger
	Node     string // the gateway that served it
	Key      string // id of the client's key; empty for keys of the configuration file
	Team     string
	Org      string
	Began    time.Time
	Took     time.Duration
	Endpoint string // from the gateway's list, such as chat_completions
	Dialect  string // the client's protocol
	Model    string // name of the route
	Target   string // provider/model that responded; empty if none did
	Stream   bool
	Status   int
	Outcome  Outcome
	Usage    llm.Usage // what the client is charged for, in disjoint classes
	// Estimated says that the provider did not report the usage, so that the gateway estimated it.
	Estimated bool
	Cost      *Money // nil: unknown
	Attempts  []Attempt
	Labels
}

// Outcome is how a request ended.
type Outcome string

// The outcomes.
const (
	Answered Outcome = "answered" // completely
	Left     Outcome = "left"     // the client disconnected
	Failed   Outcome = "failed"   // with an error, before or during the response
	Refused  Outcome = "refused"  // by the gateway; no upstream was called
	Lost     Outcome = "lost"     // the gateway died; the row comes from the spool
	Cached   Outcome = "cached"   // from the gateway's cache; it costs nothing
)

// Attempt is one upstream call for a request.
type Attempt struct {
	Target string
	Began  time.Time
	Took   time.Duration
	Status int    // of the upstream response; 0: none
	Fault  string // empty: it succeeded
	Usage  llm.Usage
	Cost   *Money // cost for the operator; nil: unknown
	// Charged says that its usage is charged to the client. Hedges that lost and attempts that
	// failed before the first byte are the operator's expense.
	Charged bool
}

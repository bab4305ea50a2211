package usage

import (
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Money is an amount in billionths of a dollar. It is a whole number, so that sums
// are exact; an amount of which nothing is known is a nil *Money and never zero.
type Money int64

// Dollar is one dollar.
const Dollar Money = 1e9

// Row is one request in the ledger. There is one for each, whatever became of it,
// with its attempts.
type Row struct {
	ID       string // of the request, as the client was told; unique in the ledger
	Node     string // the gateway that served it
	Key      string // id of the client's key; empty for keys of the configuration file
	Team     string
	Org      string
	Began    time.Time
	Took     time.Duration
	Endpoint string // from the gateway's own list, such as chat_completions
	Dialect  string // the client's protocol
	Model    string // the route's name, as the operator wrote it
	Target   string // provider/model that answered; empty where none did
	Stream   bool
	Status   int
	Outcome  Outcome
	Usage    llm.Usage // what the client is charged for, in classes that do not overlap
	// Estimated says that the provider did not tell the usage, because the answer
	// broke off: it was counted here.
	Estimated bool
	Cost      *Money // nil where no price is known
	Attempts  []Attempt
}

// Outcome is how a request ended.
type Outcome string

// The outcomes.
const (
	Answered Outcome = "answered" // to its end
	Left     Outcome = "left"     // the client went away
	Failed   Outcome = "failed"   // with an error, before or in mid-answer
	Refused  Outcome = "refused"  // by the gateway itself; nobody was asked
	Lost     Outcome = "lost"     // the gateway died; the row was made from the spool
	Cached   Outcome = "cached"   // from the gateway's own cache; it costs nothing
)

// Attempt is one upstream that was asked for a request.
type Attempt struct {
	Target string
	Began  time.Time
	Took   time.Duration
	Status int    // as the upstream answered; 0 where it did not
	Fault  string // empty where it answered well
	Usage  llm.Usage
	Cost   *Money // what the operator pays for it; nil where it is not known
	// Charged says that its usage is part of the row's. A hedge that lost and an
	// attempt that failed before it said anything are the operator's expense.
	Charged bool
}

package usage

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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
	// Fidelity is the first word of the Isogloss-Fidelity header, such as exact or dropped.
	Fidelity   string
	Losses     []Loss
	MoreLosses int // those beyond the bounds of Losses
	// Told is the error that the client received; zero: none.
	Told Told

	// Queue, FirstByte and FirstToken are times after Began: the first attempt was sent, the headers
	// of the response arrived, its first content was sent. 0: it did not happen.
	Queue      time.Duration
	FirstByte  time.Duration
	FirstToken time.Duration

	Attempts []Attempt
	Client
	Labels
}

// Client is what the gateway knows of the client beyond its key.
type Client struct {
	Person string // name of the person whose account the key is; empty: it is none
	Agent  string // User-Agent, as BoundAgent returns it
	Trace  string // id of the trace; empty: there is none
}

// MaxAgent is the maximum length of Client.Agent in bytes.
const MaxAgent = 128

// BoundAgent returns a User-Agent without control characters, shortened.
func BoundAgent(agent string) string { return bound(agent, MaxAgent) }

// bound returns the printable characters of the first n bytes of a text.
func bound(text string, n int) string {
	if len(text) > n {
		text = text[:n]
	}
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) || c == utf8.RuneError {
			return -1
		}
		return c
	}, text)
}

// Loss is a field of a request or response that was not translated exactly.
type Loss struct{ Code, Path string }

// Bounds of the losses of a row.
const (
	MaxLosses   = 16
	maxLossText = 64  // bytes of a code
	maxLossPath = 128 // bytes of a path
)

// SetLosses sets the losses, within the bounds.
func (r *Row) SetLosses(losses []llm.Loss) {
	n := min(len(losses), MaxLosses)
	r.Losses, r.MoreLosses = nil, len(losses)-n
	for _, l := range losses[:n] {
		r.Losses = append(r.Losses, Loss{Code: cut(l.Code, maxLossText), Path: cut(l.Path, maxLossPath)})
	}
}

// cut shortens a text to at most n bytes, in whole characters.
func cut(text string, n int) string {
	if len(text) > n {
		text = strings.ToValidUTF8(text[:n], "")
	}
	return text
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
	Queued   Outcome = "queued"   // the vendor goes on in the background; charged as reserved
)

// Attempt is one upstream call for a request.
type Attempt struct {
	Target string
	Began  time.Time
	Took   time.Duration
	Status int    // of the upstream response; 0: none
	Fault  string // code of the error, as plain.Word returns it; empty: it succeeded
	Usage  llm.Usage
	Cost   *Money // cost for the operator; nil: unknown
	// Charged says that its usage is charged to the client. Hedges that lost and attempts that
	// failed before the first byte are the operator's expense.
	Charged bool
	Times
	Rates Rates // of which Cost is the product with Usage; zero: unknown or free
}

// Times are times of an attempt after it began. Its end is Attempt.Took. 0: it did not happen.
type Times struct {
	Connect    time.Duration // a new connection was open; 0: another one was used again
	FirstByte  time.Duration // the headers of the response arrived
	FirstToken time.Duration // the first content of a stream was sent to the client
}

package access

import (
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Delegate authenticates the requests that an operator runs as a key without its secret. What holds for
// the key holds for them: its state, networks, scopes and limits. It does not read credentials.
type Delegate struct {
	entry *entry
	begin func(request, model string) *llm.Error
}

// NewDelegate returns the delegate of a key. It calls begin for every request that the key's state and
// networks allow.
func NewDelegate(key Record, begin func(request, model string) *llm.Error) *Delegate {
	return &Delegate{newEntry(key), begin}
}

// Check returns the key as the caller. The address of the request is the operator's.
func (d *Delegate) Check(r *http.Request) (Caller, *llm.Error) {
	switch {
	case d.entry.record.Role != "":
		return Caller{}, errOperatorKey()
	case !d.entry.record.Removed.IsZero():
		return Caller{}, errPersonRemoved()
	}
	c := d.entry.caller
	c.begin = d.begin
	return c, d.entry.check(r, time.Now())
}

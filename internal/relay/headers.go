package relay

import (
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/exchange"
)

// SetHeaders sets the response headers of both lanes: the target, the attempts, the
// fidelity, and the upstream headers that clients may see.
func (q *request) SetHeaders(h http.Header) {
	if q.Record.Target != "" {
		h["Isogloss-Target"] = []string{exchange.HeaderText(q.Record.Target)}
		h["Isogloss-Attempts"] = []string{q.attempts()}
		h["Isogloss-Fidelity"] = []string{q.attempt.fidelity()}
	}
	if set := q.Call.Dialect.Headers.SetRateLimits; set != nil && q.Call.Limited && q.state.Books.Quotas != nil {
		now := time.Now()
		set(h, q.state.Books.Limits(q.caller.Org, q.caller.Accounts, now, q.Record.Err), now)
	}
	_, header := q.attempt.response()
	if header == nil {
		return
	}
	q.Call.CopyHeaders(h, q.Target, header)
	if id := q.Record.UpstreamID; id != "" && !exchange.HasPrivate(q.Target.Provider, id) {
		h["Isogloss-Upstream-Request-Id"] = []string{id}
	}
}

package relay

import (
	"net/http"

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
	_, header := q.attempt.response()
	if header == nil {
		return
	}
	p := q.Target.Provider
	for n, v := range header {
		if q.Call.PassesHeader(q.Target, n) && !exchange.HasCredential(p, v...) {
			h[n] = v
		}
	}
	if id := q.Record.UpstreamID; id != "" && !exchange.HasCredential(p, id) {
		h["Isogloss-Upstream-Request-Id"] = []string{id}
	}
}

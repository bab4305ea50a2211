package relay

import (
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

// fail tells the client in its own dialect what went wrong: with a status where
// the answer has not begun, else with the event that ends a stream. A client that
// has gone away is told nothing, and where a body has no place for an error the
// connection is broken off.
func (r *Relay) fail(x *exchange, err *llm.Error) {
	x.seen.Err = err
	x.stop(err) // the upstream is not read any further
	x.charge()
	x.out.lock()
	defer x.out.unlock()
	if err.Kind == llm.Cancelled {
		return
	}
	if x.out.committed {
		if x.ask == nil || !x.ask.stream {
			x.cut = true
			return
		}
		if x.out.write(x.streamFailure(err), time.Now()) == nil {
			_ = x.out.flush()
		}
		return
	}
	x.out.hurry()
	h := x.out.header()
	x.answerHeaders(h)
	setRetryAfter(h, err)
	h["Content-Type"] = []string{"application/json"}
	x.seen.Status = x.dialect.ErrorStatus(err)
	x.out.commit(x.seen.Status)
	_ = x.out.write(x.dialect.EncodeError(err), time.Now())
}

// streamFailure is the event that ends a stream. In some dialects it must fit what
// came before, which only the tap has seen.
func (x *exchange) streamFailure(err *llm.Error) []byte {
	if t, ok := x.tap.(interface{ EncodeStreamError(*llm.Error) []byte }); ok {
		return t.EncodeStreamError(err)
	}
	return x.dialect.EncodeStreamError(err)
}

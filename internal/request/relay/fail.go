package relay

import (
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/llm"
)

// sendError sends an error in the client's dialect: with a status if the response has
// not started, else as the event that ends a stream. A client that has disconnected gets
// nothing. If the body has no place for an error, the connection is closed.
func (q *request) sendError(err *llm.Error) {
	q.Result.Err = err
	q.attempt.cancel(err)
	q.Charge()
	started := q.Writer.StopKeepAlive()
	switch {
	case err.Kind == llm.Cancelled:
		q.cut = !started // without it, net/http sends an empty 200 to a client that still reads
	case started && q.Call.Streams():
		if q.Writer.Write(q.streamError(err), time.Now()) == nil {
			_ = q.Writer.Flush() // fails only if the client has disconnected
		}
	case started:
		q.cut = true
	default:
		q.sendErrorBody(err)
	}
}

func (q *request) streamError(err *llm.Error) []byte {
	if q.attempt.prepared == nil {
		return q.Call.Dialect.Codec.EncodeStreamError(err)
	}
	return q.attempt.prepared.EncodeStreamError(err)
}

func (q *request) sendErrorBody(err *llm.Error) {
	codec := q.Call.Dialect.Codec
	q.Writer.DiscardBody()
	q.Result.Status = codec.ErrorStatus(err)
	q.Writer.Start(q.Result.Status, func(h http.Header) {
		q.SetHeaders(h)
		exchange.SetRetry(h, err)
		h["Content-Type"] = []string{"application/json"}
	})
	_ = q.Writer.Write(codec.EncodeError(err), time.Now()) // fails only if the client has disconnected
}

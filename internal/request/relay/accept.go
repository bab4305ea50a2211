package relay

import (
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/codec/conversation"
	"github.com/isogloss-gateway/isogloss/internal/edge/ingress"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/llm"
)

// accept reads the request's body and indexes it.
func (q *request) accept() *llm.Error {
	if q.Call.Client.Method != http.MethodPost {
		q.Writer.SetHeader("Allow", "POST")
		err := ingress.WrongMethod(q.Call.Client, "POST")
		if err.Status == http.StatusUpgradeRequired {
			q.Writer.SetHeader("Upgrade", q.Call.Client.Proto)
		}
		return err
	}
	if err := ingress.CheckMedia(q.Call.Client.Header, q.Call.Envelope != nil); err != nil {
		return err
	}
	body, err := q.readBody()
	if err != nil {
		return err
	}
	q.Result.BytesIn = int64(len(body))
	return q.Call.ReadBody(body)
}

func (q *request) readBody() ([]byte, *llm.Error) {
	limit := q.state.Limits.Body
	size := q.Call.Client.ContentLength
	if size > limit {
		q.Writer.CloseUnread(q.Call.Client)
		return nil, exchange.TooLarge(limit)
	}
	body, more := []byte(nil), exchange.FirstPart(size)
	reader := q.Writer.LimitBody(q.Call.Client.Body, limit)
	for {
		if len(body) == cap(body) {
			if err := q.takeMemory(more); err != nil {
				return nil, err
			}
			body = append(make([]byte, 0, cap(body)+more), body...) // slices.Grow would touch all of it
			more = exchange.NextPart(cap(body), size)
		}
		n, err := reader.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err != nil {
			return body, q.Call.BodyError(err, limit)
		}
	}
}

// takeMemory takes memory for a part of the body and its copy. Small parts are not counted.
func (q *request) takeMemory(size int) *llm.Error {
	if size < 32<<10 {
		return nil
	}
	release, err := q.relay.fleet.TakeMemory(q.ctx, 2*int64(size))
	if err == nil {
		q.memory = append(q.memory, release)
	}
	return err
}

// freeMemory releases the memory of the body.
func (q *request) freeMemory() {
	for _, release := range q.memory {
		release()
	}
	q.memory = nil
}

// expand replaces references to stored responses by their contents, before the
// request is planned. Afterwards the request equals one that repeats the conversation, so
// prompt caches, reservations and upstreams see the same bytes. Unknown references stay,
// because they may be the vendor's own.
func (q *request) expand() *llm.Error {
	stored := q.Call.Dialect.Stored
	expanded, err := q.relay.responses.Expand(stored, conversation.Caller{ID: q.caller.ID, Tenant: q.caller.Tenant}, q.Call.Body.Text(), q.state.Limits.Body)
	if expanded == nil || err != nil {
		return err
	}
	body, err := exchange.ReadBody(q.Call.Dialect, q.Call.Location, expanded.Body)
	if err != nil {
		return err
	}
	q.Call.Stored, q.Call.PreviousID = stored.Input(q.Call.Body.Member), expanded.PreviousID
	q.Call.Body = body
	return nil
}

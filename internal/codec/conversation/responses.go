package conversation

import (
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Bounds of the stored responses. The operator sets the bytes of all together.
const (
	responsesTTL        = time.Hour
	responsesMaxEntries = 256 << 10 // requests, responses and items
	responsesMaxValue   = 8 << 20
)

// Responses store requests and responses for clients that refer to them by id.
//
// A request is stored under the gateway's id for it, a response under the id that the client
// received, and each item of the response under its own id. A request is stored with its
// reference to the earlier response instead of the earlier turns. A conversation of n turns
// takes n entries and not n²/2.
type Responses struct {
	store   keeper
	bounded *store // nil: others bound the values
}

// NewResponses returns an empty store that stores nothing until SetMaxBytes is called.
func NewResponses() *Responses {
	s := newStore(bounds{ttl: responsesTTL, maxEntries: responsesMaxEntries, maxValue: responsesMaxValue})
	return &Responses{s, s}
}

// NewResponsesIn returns responses that are stored in values, which belong to one caller.
func NewResponsesIn(values Values) *Responses { return &Responses{store: &outside{values: values}} }

// SetMaxBytes sets the maximum size of all stored responses. 0 removes them and disables
// the store.
func (r *Responses) SetMaxBytes(n int64) { r.bounded.setMaxBytes(n) }

// Expand replaces the references of a request by the caller's stored items. It returns
// nil if the request refers to nothing that is stored. maxBytes bounds the size of what
// replaces the references.
func (r *Responses) Expand(d *codec.StoredResponses, caller Caller, body []byte, maxBytes int64) (*codec.Expanded, *llm.Error) {
	if d == nil || r.store.isEmpty() || !d.MayRefer(body) {
		return nil, nil
	}
	return d.Expand(body, callerResponses{r.store, caller}, maxBytes)
}

// ResponseRecorder stores the response to one request. A nil recorder stores nothing.
type ResponseRecorder struct {
	dialect   *codec.StoredResponses
	responses callerResponses
	requestID string
}

// Record stores a request's input and returns the recorder of its response. It returns
// nil if the input is too large to be stored.
func (r *Responses) Record(d *codec.StoredResponses, caller Caller, requestID string, input []byte) *ResponseRecorder {
	responses := callerResponses{r.store, caller}
	if !r.store.put(caller.Tenant, responses.key(requestKind, requestID), input) {
		return nil
	}
	return &ResponseRecorder{d, responses, requestID}
}

// Response stores a response as the client receives it. A failed response is not
// stored. Some upstreams give several responses the same id. Such an id becomes unknown,
// so that no client continues the wrong conversation.
func (rec *ResponseRecorder) Response(body []byte) {
	if rec == nil {
		return
	}
	resp, ok := rec.dialect.Parse(body)
	if !ok {
		return
	}
	s, stored := rec.responses, storedResponse{Request: rec.requestID}
	for _, item := range resp.Items {
		if !s.store.putOnce(s.caller.Tenant, s.key(itemKind, item.ID), item.Text) {
			return
		}
		stored.Items = append(stored.Items, item.ID)
	}
	if value, err := json.Marshal(stored); err == nil {
		s.store.putOnce(s.caller.Tenant, s.key(responseKind, resp.ID), value)
	}
}

// StreamEnd stores the response that a stream encoder has written.
func (rec *ResponseRecorder) StreamEnd(e protocol.StreamEncoder) {
	if rec != nil {
		rec.Response(rec.dialect.FinalResponse(e))
	}
}

// storedResponse is the stored form of a response. Its items are entries of their own,
// because a client may refer to each.
type storedResponse struct {
	Request string   `json:"request"`
	Items   []string `json:"items"`
}

// The kinds of entries. An id of one kind finds no entry of another.
const (
	requestKind  = "request"
	responseKind = "response"
	itemKind     = "item"
)

// callerResponses are the stored responses of one caller.
type callerResponses struct {
	store  keeper
	caller Caller
}

func (c callerResponses) key(kind, id string) key { return newKey(c.caller.ID, kind, id) }

// Item returns the stored item with an id.
func (c callerResponses) Item(id string) ([]byte, bool) { return c.store.get(c.key(itemKind, id)) }

// Response returns the input and the items of the stored response with an id.
func (c callerResponses) Response(id string) (input []byte, items [][]byte, ok bool) {
	value, ok := c.store.get(c.key(responseKind, id))
	var stored storedResponse
	if !ok || json.Unmarshal(value, &stored) != nil {
		return nil, nil, false
	}
	if input, ok = c.store.get(c.key(requestKind, stored.Request)); !ok {
		return nil, nil, false
	}
	for _, id := range stored.Items {
		item, ok := c.Item(id)
		if !ok {
			return nil, nil, false
		}
		items = append(items, item)
	}
	return input, items, true
}

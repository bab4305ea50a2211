package codec

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// StoredResponses describes a dialect in which a request may refer to earlier
// responses by id in place of repeating them.
type StoredResponses struct {
	// MayRefer reports whether a request may hold a reference. It is fast, and may
	// report true for a request that has none.
	MayRefer func(body []byte) bool

	// Expand replaces the references of a request that the store knows. It returns nil if
	// there are none. maxBytes bounds the size of what replaces them.
	Expand func(body []byte, store ResponseStore, maxBytes int64) (*Expanded, *llm.Error)

	// CheckExpanded rejects a request that still refers to something that only the
	// vendor has.
	CheckExpanded func(*llm.Request) *llm.Error

	// Input returns the part of a request that is stored with its response. member
	// returns the text of one of the request's members, or nil.
	Input func(member func(name string) []byte) []byte

	// Parse reads the ids and items of a response. It reports false for a response
	// that failed.
	Parse func(response []byte) (StoredResponse, bool)

	// FinalResponse returns the response that a stream encoder of the dialect has
	// written in its last event.
	FinalResponse func(protocol.StreamEncoder) []byte
}

// ResponseStore finds the earlier responses of one client.
type ResponseStore interface {
	// Response returns the items of a response, and the input of its request.
	Response(id string) (input []byte, items [][]byte, ok bool)

	// Item returns one item of an earlier response.
	Item(id string) ([]byte, bool)
}

// Expanded is a request whose references were replaced.
type Expanded struct {
	Body       []byte
	PreviousID string // the response that the request continues, if this reference was replaced
}

// StoredResponse is a response to which later requests may refer.
type StoredResponse struct {
	ID    string
	Items []StoredItem
}

// StoredItem is one item of a response.
type StoredItem struct {
	ID   string
	Text []byte
}

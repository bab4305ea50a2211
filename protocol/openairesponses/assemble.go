package openairesponses

import (
	"bytes"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// assembler keeps the response that the last event of a stream has.
type assembler struct{ response []byte }

func newAssembler() codec.Assembler { return &assembler{} }

// lastEvents are the types of events with a response that is not an error.
var lastEvents = [][]byte{[]byte(`"response.completed"`), []byte(`"response.incomplete"`)}

// Event reads an event.
func (a *assembler) Event(data []byte) {
	for _, last := range lastEvents {
		if !bytes.Contains(data, last) {
			continue
		}
		var event wire.Object
		if event.UnmarshalJSON(data) != nil {
			return
		}
		t, _ := event.Get("type")
		if raw, ok := event.Get("response"); ok && bytes.Equal(t, last) && raw.Kind() == '{' {
			a.response = bytes.Clone(raw)
		}
	}
}

// Complete returns the upstream's own response.
func (a *assembler) Complete(body []byte) []byte {
	if a.response != nil {
		return a.response
	}
	return body
}

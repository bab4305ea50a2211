package converse

import (
	"bytes"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// assembler keeps the members of the metadata event that are members of the response, such as
// metrics.
type assembler struct{ response codec.LateMembers }

func newAssembler() codec.Assembler { return &assembler{} }

// Event reads an event.
func (a *assembler) Event(data []byte) {
	var event, metadata wire.Object
	if !bytes.Contains(data, []byte(`"metadata"`)) || event.UnmarshalJSON(data) != nil {
		return
	}
	if raw, _ := event.Get("metadata"); raw.Kind() != '{' || metadata.UnmarshalJSON(raw) != nil {
		return
	}
	for _, m := range metadata {
		if m.Name != "p" { // padding
			a.response.Keep(m.Name, m.Value)
		}
	}
}

// Complete sets the members.
func (a *assembler) Complete(body []byte) []byte { return a.response.Complete(body) }

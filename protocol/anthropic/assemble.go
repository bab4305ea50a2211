package anthropic

import (
	"bytes"
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// assembler keeps the members of message_delta that are members of the response, such as
// context_management.
type assembler struct{ response codec.LateMembers }

func newAssembler() codec.Assembler { return &assembler{} }

// Event reads an event.
func (a *assembler) Event(data []byte) {
	var event wire.Object
	if !bytes.Contains(data, []byte(`"message_delta"`)) || event.UnmarshalJSON(data) != nil {
		return
	}
	if t, _ := event.Get("type"); string(t) != `"message_delta"` {
		return
	}
	for _, m := range event {
		if !slices.Contains([]string{"type", "delta", "usage"}, m.Name) {
			a.response.Keep(m.Name, m.Value)
		}
	}
}

// Complete sets the members.
func (a *assembler) Complete(body []byte) []byte { return a.response.Complete(body) }

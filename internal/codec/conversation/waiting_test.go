package conversation

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/growth"
	"github.com/isogloss-gateway/isogloss/llm"
)

// TestWaitingRecorder records 1 MiB of each kind of event of which a response may have many. Reasoning that is larger
// than the bound is not stored.
func TestWaitingRecorder(t *testing.T) {
	piece := strings.Repeat("x", growth.PieceSize)
	for name, event := range map[string]func(i int) llm.Event{
		"reasoning": func(int) llm.Event { return llm.Delta{Text: piece} },
		"parts":     func(i int) llm.Event { return llm.Delta{Text: piece, Part: i} },
		"seals":     func(int) llm.Event { return llm.SealDelta{Seal: llm.Seal{Origin: "anthropic", Data: piece}} },
		"arguments": func(int) llm.Event { return llm.Delta{Index: 1, Text: piece} },
		"thoughts":  func(i int) llm.Event { return llm.BlockStart{Index: i + 2, Block: &llm.Thought{}} },
		"thoughts that end": func(i int) llm.Event {
			if i%2 == 0 {
				return llm.BlockStart{Index: 2, Block: &llm.Thought{}}
			}
			return llm.BlockEnd{Index: 2}
		},
	} {
		t.Run(name, func(t *testing.T) {
			growth.Linear(t, func(n int) {
				s := NewSeals()
				r := s.NewRecorder(Caller{ID: "a"}, false)
				r.Event(llm.BlockStart{Block: &llm.Thought{}})
				r.Event(llm.BlockStart{Index: 1, Block: &llm.ToolCall{CallID: "1", Name: "f"}})
				for i := range n {
					r.Event(event(i))
				}
				if held := len(r.open) + len(r.found.Thoughts); held > sealsMaxValue/blockSize+2 {
					t.Fatalf("%d blocks are held", held)
				}
				r.Event(llm.SealDelta{Seal: llm.Seal{Origin: "anthropic", Data: "s"}})
				r.Event(llm.BlockEnd{})
				r.Event(llm.BlockEnd{Index: 1})
				r.Save(func() Digest { return Digest{} })
				if !s.store.isEmpty() && r.size > sealsMaxValue {
					t.Fatalf("%d bytes are stored", r.size)
				}
			})
		})
	}
}

package pair

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/growth"
	"github.com/isogloss-gateway/isogloss/llm"
)

// TestWaitingOutline gives an outline 1 MiB of each event of which a response may have many.
func TestWaitingOutline(t *testing.T) {
	piece := strings.Repeat("x", growth.PieceSize)
	for name, event := range map[string]func(i int) llm.Event{
		"text":      func(int) llm.Event { return llm.Delta{Text: piece} },
		"blocks":    func(i int) llm.Event { return llm.BlockStart{Index: i + 2, Block: &llm.Text{}} },
		"texts":     func(i int) llm.Event { return llm.Delta{Index: i % 2, Text: piece} },
		"citations": func(int) llm.Event { return llm.Cite{Citation: llm.Citation{URL: piece}} },
		"choices":   func(i int) llm.Event { return llm.ChoiceEnd{Choice: i} },
		"members": func(int) llm.Event {
			return llm.Members{Choice: llm.Whole, Index: llm.Whole, Append: true, Ext: llm.Ext{Protocol: "x", Members: []llm.Member{{Name: "y", Value: `["z"]`}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			growth.Linear(t, func(n int) {
				o := NewOutline("anthropic", false)
				o.Add(llm.Start{})
				o.Add(llm.BlockStart{Block: &llm.Text{}})
				o.Add(llm.BlockStart{Index: 1, Block: &llm.Text{}})
				for i := range n {
					o.Add(event(i))
				}
			})
		})
	}
}

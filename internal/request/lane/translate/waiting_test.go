package translate

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/growth"
	"github.com/isogloss-gateway/isogloss/llm"
)

// TestWaitingParts has another target repeat 1 MiB of text, in small pieces, before it continues it.
func TestWaitingParts(t *testing.T) {
	piece := strings.Repeat("x", growth.PieceSize)
	growth.Linear(t, func(n int) {
		s := &resumable{limit: 2 << 20}
		s.follow(llm.BlockStart{Block: &llm.Text{}})
		for range n {
			s.follow(llm.Delta{Text: piece})
		}
		if !s.ready() {
			t.Fatal("the response cannot be continued")
		}
		s.startPart()
		s.joinAll([]llm.Event{llm.Start{}, llm.BlockStart{Block: &llm.Text{}}})
		for range n {
			if events := s.joinAll([]llm.Event{llm.Delta{Text: piece}}); len(events) > 0 {
				t.Fatal("the repetition was sent")
			}
		}
		if events := s.joinAll([]llm.Event{llm.Delta{Text: "y"}}); len(events) != 1 || events[0] != (llm.Delta{Text: "y"}) {
			t.Fatal(events)
		}
	})
}

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
				o := newOutline("anthropic", false)
				o.add(llm.Start{})
				o.add(llm.BlockStart{Block: &llm.Text{}})
				o.add(llm.BlockStart{Index: 1, Block: &llm.Text{}})
				for i := range n {
					o.add(event(i))
				}
			})
		})
	}
}

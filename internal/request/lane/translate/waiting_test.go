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

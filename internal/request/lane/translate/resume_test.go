package translate

import (
	"reflect"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestCommonPrefix(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"ab", "", 0}, {"ab", "ab", 2}, {"abc", "ab", 2}, {"ab", "abc", 2}, {"abc", "axc", 1}, {"x", "y", 0}} {
		if got := commonPrefix([]byte(c.a), []byte(c.b)); got != c.want {
			t.Errorf("%q and %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestBlocksAfterAContinuedText checks that the blocks of a part that follow the continued text have other
// indexes, with all of their events, and that the reasoning before the text is left out.
func TestBlocksAfterAContinuedText(t *testing.T) {
	s := &resumable{limit: 100}
	for _, e := range []llm.Event{llm.BlockStart{Index: 0, Block: &llm.Text{}}, llm.Delta{Index: 0, Text: "half"}} {
		s.follow(e)
	}
	s.startPart()
	seal := llm.Seal{Form: llm.Signature, Data: "S"}
	call := &llm.ToolCall{CallID: "1", Name: "f"}
	got := s.joinAll([]llm.Event{
		llm.Start{},
		llm.BlockStart{Index: 0, Block: &llm.Thought{}}, llm.Delta{Index: 0, Text: "hm"}, llm.SealDelta{Index: 0, Seal: seal}, llm.BlockEnd{Index: 0},
		llm.BlockStart{Index: 1, Block: &llm.Text{}}, llm.Delta{Index: 1, Text: " and the other half"}, llm.BlockEnd{Index: 1},
		llm.BlockStart{Index: 2, Block: call}, llm.Delta{Index: 2, Text: "{}"}, llm.SealDelta{Index: 2, Seal: seal}, llm.BlockEnd{Index: 2},
	})
	want := []llm.Event{
		llm.Delta{Index: 0, Text: " and the other half"}, llm.BlockEnd{Index: 0},
		llm.BlockStart{Index: 1, Block: call}, llm.Delta{Index: 1, Text: "{}"}, llm.SealDelta{Index: 1, Seal: seal}, llm.BlockEnd{Index: 1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

package blockcodec

import (
	"fmt"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

// plainWriter writes events as words.
type plainWriter struct{}

func (plainWriter) Start(to []byte, _ llm.Start) []byte { return append(to, "start"...) }
func (plainWriter) Finish(to []byte) []byte             { return append(to, " finish"...) }

func (plainWriter) Write(to []byte, b *OutBlock, e llm.Event) []byte {
	switch e := e.(type) {
	case llm.Delta:
		part, text := b.Piece(e)
		return fmt.Appendf(to, " %d:%q", part, text)
	case llm.BlockEnd:
		return fmt.Appendf(to, " end %d", e.Index)
	}
	return to
}

// TestStreamOrder checks that blocks are written one after the other, that what has waited is let go, that other choices
// and events after the end of a block are ignored, and that blocks that the source did not end are ended.
func TestStreamOrder(t *testing.T) {
	var s Stream
	var out []byte
	for _, e := range []llm.Event{
		llm.BlockStart{Index: 0, Block: &llm.Text{}},
		llm.BlockStart{Index: 1, Block: &llm.Thought{}},
		llm.BlockStart{Choice: 1, Index: 0, Block: &llm.Text{}},
		llm.Delta{Index: 1, Text: "later"},
		llm.Delta{Index: 1, Part: 2, Text: "part"},
		llm.Delta{Choice: 1, Text: "other choice"},
		llm.Delta{Index: 7, Text: "no block"},
		llm.Delta{Index: 0, Text: "a"},
		llm.BlockEnd{Index: 1},
		llm.Delta{Index: 1, Text: "after its end"},
		llm.BlockEnd{Index: 0},
		llm.BlockStart{Index: 2, Block: &llm.ToolCall{}},
		llm.Delta{Index: 2, Text: `{"x":`},
		llm.End{},
	} {
		out = s.Encode(plainWriter{}, e, out)
	}
	const want = `start 0:"a" end 0 1:"later" 1:"\n\n\n\npart" end 1 2:"{\"x\":" end 2 finish`
	if string(out) != want {
		t.Errorf("%s\nwant %s", out, want)
	}
	for i, b := range s.blocks {
		if b != nil {
			t.Errorf("block %d is still held", i)
		}
	}
	if !s.Over {
		t.Error("it is not over")
	}
}

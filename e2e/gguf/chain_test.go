package gguf

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// Whether an engine loads the file and says the answer is shown in e2e/engines.
func TestChainIsAFile(t *testing.T) {
	b, err := Chain([]string{"Hello", " there", "."})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(b, []byte("GGUF\x03\x00\x00\x00")) {
		t.Errorf("begins with %q, and an engine looks for GGUF and version 3", b[:8])
	}
	if tensors := binary.LittleEndian.Uint64(b[8:]); tensors != 12 {
		t.Errorf("says that it has %d tensors, and 12 were added", tensors)
	}
	if len(b)%align != 0 {
		t.Errorf("is %d bytes long, and the last tensor is not filled up to %d", len(b), align)
	}
}

func TestChainRefusesWhatItCannotSay(t *testing.T) {
	for _, pieces := range [][]string{nil, {"a", "b", "a"}, {"<s>"}} {
		if _, err := Chain(pieces); err == nil {
			t.Errorf("Chain(%q) made a model that cannot say it", strings.Join(pieces, "|"))
		}
	}
}

package conversation

import (
	"crypto/sha256"
	"hash"
	"strconv"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Digest identifies a conversation up to some turn.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a conversation. System text is left out, because
// clients put dates there.
func DigestOf(turns []llm.Turn) Digest {
	d := newDigester()
	for i := range turns {
		d.add(turns[i])
	}
	return d.sum()
}

// digester computes the digests of a conversation turn by turn.
type digester struct {
	hash    hash.Hash
	scratch []byte
}

func newDigester() *digester { return &digester{hash: sha256.New()} }

func (d *digester) sum() (digest Digest) {
	d.hash.Sum(digest[:0])
	return digest
}

func (d *digester) add(turn llm.Turn) {
	if turn.Role == llm.System || turn.Role == llm.Developer {
		return
	}
	d.write("turn", string(turn.Role))
	d.addBlocks(turn.Blocks)
}

func (d *digester) addBlocks(blocks []llm.Block) {
	for _, b := range blocks {
		switch b := b.(type) {
		case *llm.Text:
			d.write("text", b.Text)
		case *llm.Media:
			d.write("media", b.Data, b.URL, b.FileID)
		case *llm.ToolCall:
			d.write("call", b.CallID, b.Name, b.Args)
		case *llm.ToolResult:
			d.write("result", b.CallID)
			d.addBlocks(b.Blocks)
		}
	}
}

// write hashes each part with its length, so that two ways to split the same text
// give different digests.
func (d *digester) write(parts ...string) {
	for _, p := range parts {
		d.scratch = append(strconv.AppendInt(d.scratch[:0], int64(len(p)), 10), ':')
		d.scratch = append(d.scratch, p...)
		_, _ = d.hash.Write(d.scratch) // a hash never fails
	}
}

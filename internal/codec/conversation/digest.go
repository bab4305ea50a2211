package conversation

import (
	"crypto/sha256"
	"hash"
	"strconv"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Digest identifies a conversation up to some turn. System text has a digest of its own, because
// clients put dates there.
type Digest struct{ turns, system [sha256.Size]byte }

// DigestOf returns the digest of a conversation.
func DigestOf(turns []llm.Turn) Digest {
	d := newDigester()
	for i := range turns {
		d.add(turns[i])
	}
	return d.sum()
}

// digester computes the digests of a conversation turn by turn.
type digester struct {
	turns, system hash.Hash
	scratch       []byte
}

func newDigester() *digester { return &digester{turns: sha256.New(), system: sha256.New()} }

func (d *digester) sum() (digest Digest) {
	d.turns.Sum(digest.turns[:0])
	d.system.Sum(digest.system[:0])
	return digest
}

func (d *digester) add(turn llm.Turn) {
	to := d.turns
	if turn.Role == llm.System || turn.Role == llm.Developer {
		to = d.system
	}
	d.write(to, "turn", string(turn.Role))
	d.addBlocks(to, turn.Blocks)
}

func (d *digester) addBlocks(to hash.Hash, blocks []llm.Block) {
	for _, b := range blocks {
		switch b := b.(type) {
		case *llm.Text:
			d.write(to, "text", b.Text)
		case *llm.Media:
			d.write(to, "media", b.Data, b.URL, b.FileID)
		case *llm.ToolCall:
			d.write(to, "call", b.CallID, b.Name, b.Args)
		case *llm.ToolResult:
			d.write(to, "result", b.CallID)
			d.addBlocks(to, b.Blocks)
		}
	}
}

// write hashes each part with its length, so that two ways to split the same text
// give different digests.
func (d *digester) write(to hash.Hash, parts ...string) {
	for _, p := range parts {
		d.scratch = append(strconv.AppendInt(d.scratch[:0], int64(len(p)), 10), ':')
		d.scratch = append(d.scratch, p...)
		_, _ = to.Write(d.scratch) // a hash never fails
	}
}

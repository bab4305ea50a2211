package converse

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// documentWords is a text beside a document, which the API rejects without one.
const documentWords = "(See the document.)"

// conversation encodes the messages.
func (e *requestEncoder) conversation() {
	e.Messages(blockcodec.IDs{Prefix: "tooluse_", Longest: maxID, Allowed: idByte})
	var messages wire.List[Message]
	for i := range e.Drafts {
		d := &e.Drafts[i]
		blocks := e.besideDocuments(e.Blocks(d))
		if auto := e.Req.Cache.Auto; auto != nil && i == len(e.Drafts)-1 && unionName(blocks[len(blocks)-1]) != "cachePoint" {
			blocks = append(blocks, e.cachePoint("cache.auto", auto))
		}
		m := Message{Role: wire.Some(d.Role), Content: wire.Some(wire.ListOf(blocks...)), Extra: kept.Extra(d.Ext)}
		messages.Append(&m)
	}
	e.out.Messages = wire.Some(messages)
}

// besideDocuments adds a text to the blocks of a message with a document and without text.
func (e *requestEncoder) besideDocuments(blocks []wire.Raw) []wire.Raw {
	has := func(name string) bool {
		return slices.ContainsFunc(blocks, func(raw wire.Raw) bool { return unionName(raw) == name })
	}
	if !e.Home && has("document") && !has("text") {
		e.Report.Approximate("turns", "document.text_added", "a message with a document needs a text; a short one was added")
		blocks = append(blocks, textBlock(documentWords))
	}
	return blocks
}

// system encodes the system prompt: the leading turns and the instructions that replace
// missing settings. It runs last, when all instructions are known.
func (e *requestEncoder) system() {
	var blocks []wire.Raw
	for i := range blockcodec.Leading(e.Req.Turns) {
		blocks = append(blocks, e.Turn(i)...)
	}
	for _, note := range e.Notes {
		blocks = append(blocks, textBlock(note))
	}
	if len(blocks) > 0 {
		e.out.System = wire.Some(wire.ListOf(blocks...))
	}
}

package anthropic

import (
	"bytes"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// vendorState describes what Anthropic keeps: messages of threads, messages to compare
// caches with, containers and files.
func vendorState() *codec.VendorState {
	return &codec.VendorState{
		References: func(body *wire.Index) []codec.Reference {
			return codec.FindReferences(body, []string{"container", "container.id", "thread.previous_message_id", "diagnostics.previous_message_id",
				"messages[].content[].file_id", "messages[].content[].source.file_id", "messages[].content[].content[].source.file_id"}, `file_id"`)
		},
		Keeps: func(body *wire.Index) bool {
			return body.Raw("thread") != nil || body.Raw("diagnostics") != nil || body.Raw("container") != nil || bytes.Contains(body.Raw("tools"), []byte("code_execution"))
		},
		Unknown: func(r codec.Reference) *llm.Error {
			switch r.Param {
			case "thread.previous_message_id":
				return codec.NotFound(llm.NotFound, "thread_not_found", r, "Thread of the message ID not found.")
			case "container", "container.id":
				return codec.NotFound(llm.InvalidRequest, "", r, "Container ID not found.")
			case "diagnostics.previous_message_id":
				return codec.NotFound(llm.InvalidRequest, "", r, "Message ID not found.")
			}
			return codec.NotFound(llm.NotFound, "", r, "File not found: ID")
		},
	}
}

package openairesponses

import (
	"bytes"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// vendorState describes what OpenAI keeps: responses with their items unless store is
// false, conversations, files, vector stores and containers. Stored prompts are not among
// it: they are the operator's, for all clients.
func vendorState() *codec.VendorState {
	return &codec.VendorState{
		References: references,
		Keeps:      func(body *wire.Index) bool { return body.Raw("store").Kind() != 'f' },
		Unknown:    unknownID,
	}
}

func references(body *wire.Index) []codec.Reference {
	list := codec.FindReferences(body, []string{"previous_response_id", "conversation", "conversation.id", "prompt_cache_options.comparison_response_id",
		"tools[].vector_store_ids", "tools[].container", "tools[].container.file_ids", "input[].content[].file_id", "input[].output[].file_id"},
		`file_id"`, `file_ids"`, `vector_store_ids"`, `container"`)
	return append(list, itemReferences(body)...)
}

// itemReferences returns the ids of the items that the vendor has to look up: references, and
// items without their content.
func itemReferences(body *wire.Index) (list []codec.Reference) {
	s := body.Scan("input")
	if text := s.Rest(); !mayRefer(text) && !bytes.Contains(text, []byte(`"reasoning"`)) && !bytes.Contains(text, []byte(`"image_generation_call"`)) &&
		!bytes.Contains(text, []byte(`\u00`)) {
		return nil
	}
	for range s.Items() {
		var typ, id wire.Raw
		whole := false // it has a role, or its content
		for name := range s.Members() {
			switch string(wire.Name(name)) {
			case "type":
				typ = s.Value()
			case "id":
				id = s.Value()
			case "role":
				whole = whole || typ == nil
			case "encrypted_content", "result":
				whole = whole || s.Kind() == '"'
			}
		}
		if id.Kind() != '"' || whole || len(typ) > 0 && !isLookedUp(typ) {
			continue
		}
		list = append(list, codec.Reference{ID: wire.Unquote(id), Param: "input"})
	}
	return list
}

func isLookedUp(typ wire.Raw) bool {
	switch wire.Unquote(typ) {
	case "item_reference", "reasoning", "image_generation_call":
		return true
	}
	return false
}

// unknownID returns OpenAI's error for an id that does not exist.
func unknownID(r codec.Reference) *llm.Error {
	switch r.Param {
	case "previous_response_id":
		return codec.NotFound(llm.InvalidRequest, "previous_response_not_found", r, "Previous response with id 'ID' not found.")
	case "conversation", "conversation.id":
		return codec.NotFound(llm.NotFound, "", r, "Conversation with id 'ID' not found.")
	case "input":
		return codec.NotFound(llm.NotFound, "", r, "Item with id 'ID' not found.")
	}
	return codec.NotFound(llm.NotFound, "", r, "No object with id 'ID' found.")
}

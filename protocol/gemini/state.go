package gemini

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// vendorState describes what Google keeps: cached contents, files, stores of them, and
// responses to be continued.
func vendorState() *codec.VendorState {
	return &codec.VendorState{References: references, Unknown: func(r codec.Reference) *llm.Error {
		if strings.HasSuffix(r.Param, continuation) {
			return codec.NotFound(llm.InvalidRequest, "", r, "The continuation token is invalid.")
		}
		return codec.NotFound(llm.Permission, "", r, "You do not have permission to access ID or it may not exist.")
	}}
}

const continuation = "continuationToken"

func references(body *wire.Index) []codec.Reference {
	list := codec.FindReferences(body, []string{"cachedContent", continuation, "generateContentRequest." + continuation, "generateContentRequest.cachedContent", "tools[].fileSearch.fileSearchStoreNames",
		"contents[].parts[].fileData.fileUri", "contents[].parts[].functionResponse.parts[].fileData.fileUri",
		"generateContentRequest.contents[].parts[].fileData.fileUri"}, "ile")
	for i := range list {
		if !strings.HasSuffix(list[i].Param, continuation) {
			list[i].ID = resource(list[i].ID)
		}
	}
	// A URI may also be a public address or one of a bucket.
	return slices.DeleteFunc(list, func(r codec.Reference) bool { return r.ID == "" })
}

// resource returns the name of a resource in a name or a URI, or "" if the URI is not one
// of Google's API.
func resource(name string) string {
	if strings.Contains(name, "://") && !strings.Contains(strings.ToLower(name), "googleapis.com") {
		return ""
	}
	name, _, _ = strings.Cut(name, "?")
	name, _, _ = strings.Cut(name, "#")
	for _, kind := range []string{"cachedContents/", "files/", "fileSearchStores/"} {
		if i := strings.LastIndex(name, kind); i >= 0 {
			return name[i:]
		}
	}
	return name
}

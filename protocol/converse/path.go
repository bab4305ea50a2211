package converse

import (
	"net/url"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
)

// The last segments of the paths.
const (
	converse       = "converse"
	converseStream = "converse-stream"
)

// maxModel is the maximum length of a model's id.
const maxModel = 2048

// path returns the path of a model. An id that the vendor cannot have is an error: its text
// would lead to another path.
func path(model string, stream bool) (string, *llm.Error) {
	if !validModel(model) {
		return "", &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_model", Param: "model",
			Message: "the target's model is not an id of Bedrock; write a model id, the id of an inference profile, or an ARN"}
	}
	verb := converse
	if stream {
		verb = converseStream
	}
	return "/model/" + escape(model) + "/" + verb, nil
}

// validModel reports whether an id is made of the characters of model ids, profile ids and
// ARNs, and is not a relative segment.
func validModel(id string) bool {
	if id == "" || len(id) > maxModel || strings.Trim(id, ".") == "" {
		return false
	}
	for segment := range strings.SplitSeq(id, "/") {
		if strings.Trim(segment, ".") == "" {
			return false
		}
	}
	for i := range len(id) {
		if c := id[i]; !llm.WordByte(c) && c != '.' && c != ':' && c != '/' {
			return false
		}
	}
	return true
}

// escape writes an id as one segment, as the vendor's SDKs do.
func escape(id string) string { return strings.ReplaceAll(url.PathEscape(id), ":", "%3A") }

// parsePath reads the model and whether a stream is wanted from an escaped path.
func parsePath(escaped string) (model string, stream, ok bool) {
	rest, ok := strings.CutPrefix(escaped, "/model/")
	if !ok {
		return "", false, false
	}
	segment, verb, ok := strings.Cut(rest, "/")
	if !ok || verb != converse && verb != converseStream {
		return "", false, false
	}
	model, err := url.PathUnescape(segment)
	return model, verb == converseStream, err == nil
}

package ingress

import (
	"mime"
	"net/http"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
)

// CheckMedia rejects a request whose content type is not JSON. This also protects against
// web pages: a browser sends a cross-origin request without preflight only with one of
// three other content types, or without any; in these cases it does not send Authorization.
// boto3 sends bodies of InvokeModel without a content type, so that a request in the form of a
// cloud (wrapped) may have none.
func CheckMedia(h http.Header, wrapped bool) *llm.Error {
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return &llm.Error{Kind: llm.UnsupportedMedia, Code: "request_body_encoding_unsupported", Message: "compressed request bodies are not read; send the body without Content-Encoding"}
	}
	media := h.Get("Content-Type")
	if media == "application/json" || wrapped && media == "" && h.Get("Authorization") != "" {
		return nil
	}
	if m, _, err := mime.ParseMediaType(media); err == nil && m == "application/json" {
		return nil
	}
	return &llm.Error{Kind: llm.UnsupportedMedia, Message: "the body must be JSON; send 'Content-Type: application/json'"}
}

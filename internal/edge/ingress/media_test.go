package ingress

import (
	"net/http"
	"testing"
)

// TestCompressedBody checks the code by which Anthropic's SDKs know that a body may not be compressed.
func TestCompressedBody(t *testing.T) {
	for encoding, code := range map[string]string{"gzip": "request_body_encoding_unsupported", "zstd": "request_body_encoding_unsupported", "identity": ""} {
		err := CheckMedia(http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {encoding}}, false)
		if err == nil && code != "" || err != nil && err.Code != code {
			t.Errorf("%s: %v", encoding, err)
		}
	}
}

// TestCheckMedia accepts JSON, and a body without a content type only in the form of a cloud and
// with Authorization, which no web page sends without asking first.
func TestCheckMedia(t *testing.T) {
	for _, c := range []struct {
		header http.Header
		ok     bool
	}{
		{http.Header{"Content-Type": {"application/json"}}, true},
		{http.Header{"Content-Type": {"application/json; charset=utf-8"}}, true},
		{http.Header{"Authorization": {"Bearer k"}}, true},
		{http.Header{}, false},
		{http.Header{"X-Api-Key": {"k"}}, false},
		{http.Header{"Content-Type": {"text/plain"}, "Authorization": {"Bearer k"}}, false},
		{http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, false},
	} {
		if err := CheckMedia(c.header, true); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.header, err)
		}
		if err := CheckMedia(c.header, false); (err == nil) != (c.ok && c.header.Get("Content-Type") != "") {
			t.Errorf("%v at other paths: %v", c.header, err)
		}
	}
}

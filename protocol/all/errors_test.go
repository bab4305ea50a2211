package all_test

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// TestDecodeErrorOfIncompleteBody checks that every codec reads an error body that ends
// too early, wherever it ends.
func TestDecodeErrorOfIncompleteBody(t *testing.T) {
	for _, body := range []string{
		`"the model is \"away\""`,
		`{"type":"error","error":{"message":"too long","type":"invalid_request_error","code":"c","param":"p"},"request_id":"r"}`,
		`[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]`,
		`{"detail":[{"msg":"field required","loc":["body","x"]}]}`,
	} {
		for _, d := range all.Dialects() {
			for n := range len(body) + 1 {
				if e := d.Codec.DecodeError(400, nil, []byte(body[:n])); e == nil || e.Message == "" {
					t.Errorf("%s %s: got %+v, want an error with a message", d.Name, body[:n], e)
				}
			}
		}
	}
}

package gemini

import (
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

func TestParsePath(t *testing.T) {
	for in, want := range map[string]Address{
		"/v1beta/models/gemini-x:generateContent":                                               {"v1beta", "gemini-x", Generate},
		"/v1/models/vendor/m:generateContent":                                                   {"v1", "vendor/m", Generate}, // VER-16
		"/v1/models/vendor%2Fm:streamGenerateContent":                                           {"v1", "vendor/m", StreamGenerate},
		"/v1/models/m:x:generateContent":                                                        {"v1", "m:x", Generate},
		"/v1/models/m%3Ax:generateContent":                                                      {"v1", "m:x", Generate},
		"/v1/models/m%3AcountTokens":                                                            {"v1", "m", CountTokens},
		"/v1alpha/models/models/m:embedContent":                                                 {"v1alpha", "m", Embed},
		"/v1beta/models/models%2Fm:batchEmbedContents":                                          {"v1beta", "m", BatchEmbed},
		"/v1beta/tunedModels/t:generateContent":                                                 {"v1beta", "tunedModels/t", Generate},
		"/v1/v1beta/models/m:generateContent":                                                   {"v1beta", "m", Generate}, // VER-20
		"/v1beta1/projects/p/locations/l/publishers/google/models/gemini-x:generateContent":     {"v1beta1", "gemini-x", Generate},
		"/v1beta1/projects/p/locations/l/publishers/anthropic/models/claude:predictLongRunning": {"v1beta1", "claude", PredictLongRunning},
	} {
		if a, found, err := ParsePath(http.MethodPost, in); a != want || !found || err != nil {
			t.Errorf("%s: %+v %v %v", in, a, found, err)
		}
	}
	for _, in := range []string{"/v1/models/m", "/v2/models/m:generateContent", "/v1/chat/completions", "/", "", "/v1/files/a:generateContent"} {
		if a, found, err := ParsePath(http.MethodPost, in); found || err != nil {
			t.Errorf("%s: %+v %v", in, a, err)
		}
	}
	if _, found, _ := ParsePath(http.MethodGet, "/v1/models/vendor%2Fm:free"); found { // VER-17
		t.Error("a model's name was taken for a call")
	}
	for _, in := range []string{"/v1/models/m:frobnicate", "/v1/models/:generateContent", "/v1/models/m%zz:generateContent", "/v1/models/m:"} { // VER-18
		_, found, err := ParsePath(http.MethodPost, in)
		if !found || err == nil || !strings.Contains(string(Codec{}.EncodeError(err)), `"code":404,`) {
			t.Errorf("%s: %v %v", in, found, err)
		}
	}
}

func TestPathOfRequest(t *testing.T) {
	body := []byte(`{"model":"other","contents":[]}`)
	for path, stream := range map[string]bool{"/v1/models/m:generateContent": false, "/v1/models/m:streamGenerateContent": true} {
		req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: body, Path: path})
		if err != nil || req.Model != "m" || req.Stream != stream {
			t.Errorf("%s: %+v %v", path, req, err)
		}
	}
	if _, err := (Codec{}).DecodeRequest(protocol.Incoming{Body: body, Path: "/v1/models/m:what"}); err == nil || err.Kind != llm.NotFound {
		t.Errorf("%v", err)
	}
	if req, _ := (Codec{}).DecodeRequest(protocol.Incoming{Body: body}); req.Model != "other" {
		t.Errorf("%+v", req)
	}
}

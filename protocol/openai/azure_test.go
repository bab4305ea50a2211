package openai

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec"
)

// TestLocateAzure finds the routes of clients that are configured for Azure. The deployment is
// the model.
func TestLocateAzure(t *testing.T) {
	locate := LocateAzure([]codec.Route{{Path: "/v1/chat/completions", Operation: codec.Generate}, {Path: "/v1/models", Operation: codec.ListModels}})
	for _, c := range []struct{ path, body, want string }{
		{"/openai/deployments/gpt-x/chat/completions?api-version=1", `{"messages":[]}`, `{"messages":[],"model":"gpt-x"}`},
		{"/openai/deployments/a%2Fb/chat/completions", `{"model":"other"}`, `{"model":"a/b"}`},
		{"/openai/deployments/gpt-x/chat/completions", `{ "model" : "gpt-x" }`, `{ "model" : "gpt-x" }`},
		{"/openai/chat/completions", `{"model":"m"}`, `{"model":"m"}`},
	} {
		at, found, err := locate(httptest.NewRequest(http.MethodPost, c.path, nil))
		if !found || err != nil || at.URLPath != "/v1/chat/completions" {
			t.Errorf("%s: %+v %v %v", c.path, at, found, err)
			continue
		}
		if body, _, err := at.Envelope.Open(at, []byte(c.body)); err != nil || string(body) != c.want {
			t.Errorf("%s: %s %v, want %s", c.path, body, err, c.want)
		}
	}
	for _, path := range []string{"/openai/deployments//chat/completions", "/openai/deployments/m", "/openai/deployments/m/models", "/openai/models", "/v1/chat/completions", "/openai/v1/chat/completions"} {
		if _, found, _ := locate(httptest.NewRequest(http.MethodPost, path, nil)); found {
			t.Errorf("%s is found", path)
		}
	}
}

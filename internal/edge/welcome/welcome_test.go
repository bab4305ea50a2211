package welcome

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec"
)

func serve(p Page, accept string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, "http://gateway.example/", nil)
	req.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	p.Serve(w, req)
	return w
}

// TestPage checks the base path in addresses, that models are escaped and their number is
// bounded, and that the page is small.
func TestPage(t *testing.T) {
	setups := []codec.Setup{{SDK: "X", Variable: "X_BASE_URL", Path: "/v1"}}
	p := Page{BasePath: "/llm", Setups: setups, Models: []codec.Model{{ID: "a<b>\"'"}}}
	html := serve(p, "text/html").Body.String()
	if !strings.Contains(html, "export X_BASE_URL=http://gateway.example/llm/v1 ") || strings.Contains(html, "a<b>") || !strings.Contains(html, "a&lt;b&gt;") || len(html) > 4<<10 {
		t.Error(html)
	}
	if strings.Contains(html, usagePath) {
		t.Error("without a store there is no page My usage")
	}
	p.Usage = true
	if html := serve(p, "text/html").Body.String(); !strings.Contains(html, `href="/llm/my-usage"`) || len(html) > 4<<10 {
		t.Error(html)
	}
	for range maxShown + 7 {
		p.Models = append(p.Models, codec.Model{ID: "m"})
	}
	if html := serve(p, "text/html").Body.String(); strings.Count(html, "<li>") != maxShown || !strings.Contains(html, "and 8 more") {
		t.Error(strings.Count(html, "<li>"))
	}
	w := serve(Page{NeedsKey: true, Setups: setups}, "*/*")
	want := `{"name":"Isogloss","needs_key":true,"models":[],"sdks":[{"name":"X","variable":"X_BASE_URL","base_url":"http://gateway.example/v1"}],"models_url":"http://gateway.example/v1/models"}`
	if got := strings.TrimSpace(w.Body.String()); got != want || w.Header().Get("Vary") != "Accept" {
		t.Errorf("%s, want %s", got, want)
	}
	if html := serve(Page{NeedsKey: true, Setups: setups}, "text/html").Body.String(); !strings.Contains(html, "needs a key") {
		t.Error(html)
	}
}

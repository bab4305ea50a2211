// Package welcome serves the first page of the client port: what the gateway is, which
// models it has, and how to use it from an SDK.
package welcome

import (
	_ "embed" // the page
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/edge/webpage"
)

// Page is what the page shows.
type Page struct {
	BasePath string // of the client port
	NeedsKey bool   // the models are not shown, because the request had no key
	Models   []codec.Model
	Setups   []codec.Setup
	Usage    bool // there is the page My usage
}

// usagePath is the page My usage.
const usagePath = "/my-usage"

//go:embed page.html
var source string

// policy allows the page's own style and nothing else.
var policy = webpage.Policy(source, "'none'")

// maxShown is the largest number of models on the page.
const maxShown = 500

// Serve writes the page as HTML for browsers and as JSON for other clients.
func (p Page) Serve(w http.ResponseWriter, req *http.Request) {
	base := origin(req) + p.BasePath
	sdks := make([]sdk, len(p.Setups))
	for i, s := range p.Setups {
		sdks[i] = sdk{s.SDK, s.Variable, base + s.Path}
	}
	names := make([]string, min(len(p.Models), maxShown))
	for i := range names {
		names[i] = p.Models[i].ID
	}
	h := w.Header()
	h.Set("Vary", "Accept")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	var body []byte
	if strings.Contains(req.Header.Get("Accept"), "text/html") {
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		body = []byte(strings.NewReplacer("<!-- SDKs -->", sdkLines(sdks), "<!-- models -->", p.modelList(names, base), "<!-- usage -->", p.usageLink()).Replace(source))
	} else {
		h.Set("Content-Type", "application/json")
		body, _ = json.Marshal(struct { // strings only
			Name     string   `json:"name"`
			NeedsKey bool     `json:"needs_key"`
			Models   []string `json:"models"`
			SDKs     []sdk    `json:"sdks"`
			List     string   `json:"models_url"`
		}{"Isogloss", p.NeedsKey, names, sdks, base + "/v1/models"})
		body = append(body, '\n')
	}
	_, _ = w.Write(body) // a client that disconnected needs nothing
}

// The page is not a template: templates keep the linker from removing unused methods,
// which costs 15 MB. Values are between tags only, and each is escaped.

func sdkLines(sdks []sdk) string {
	var b strings.Builder
	for _, s := range sdks {
		b.WriteString(html.EscapeString(fmt.Sprintf("export %s=%s   # %s\n", s.Variable, s.BaseURL, s.Name)))
	}
	return b.String()
}

// usageLink returns the link to the page My usage, if there is one.
func (p Page) usageLink() string {
	if !p.Usage {
		return ""
	}
	return `<h2>Usage</h2>
<p><a href="` + html.EscapeString(p.BasePath+usagePath) + `">My usage</a>: what you have used, your limits and budgets, and requests that were refused.</p>`
}

// modelList returns the part of the page about models.
func (p Page) modelList(names []string, base string) string {
	switch {
	case p.NeedsKey:
		return "<p>This gateway needs a key. List the models that yours may use:</p>\n<pre>" + html.EscapeString("curl "+base+`/v1/models -H "Authorization: Bearer $KEY"`) + "</pre>"
	case len(names) == 0:
		return "<p>No model can be used at present. <code>isogloss models</code> and <code>isogloss check</code> show the configuration.</p>"
	}
	var b strings.Builder
	b.WriteString("<ul>")
	for _, name := range names {
		b.WriteString("\n<li><code>" + html.EscapeString(name) + "</code>")
	}
	b.WriteString("\n</ul>")
	if more := len(p.Models) - len(names); more > 0 {
		fmt.Fprintf(&b, "\n<p>and %d more: <code>GET %s/v1/models</code></p>", more, html.EscapeString(base))
	}
	return b.String()
}

// sdk is how an SDK is pointed at the gateway.
type sdk struct {
	Name     string `json:"name"`
	Variable string `json:"variable"`
	BaseURL  string `json:"base_url"`
}

// origin returns the scheme and host by which the client reached the gateway.
func origin(req *http.Request) string {
	scheme := "http"
	if req.TLS != nil || req.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	return scheme + "://" + req.Host
}

package ingress

import (
	"net/url"

	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// CORS is the set of web pages that may call the gateway from a browser.
type CORS struct {
	// Origins, each as scheme and host, or `*` for every origin.
	Origins []string `key:"origins" example:"[\"https://app.example.com\"]"`
}

// Check checks that the origins are origins.
func (c *CORS) Check(at *settings.At) {
	for _, o := range c.Origins {
		u, err := url.Parse(o)
		if o != "*" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Scheme+"://"+u.Host != o) {
			at.Wrong("origins", "has %q, which is no origin; write one such as \"https://app.example.com\", without a path", o)
		}
	}
}

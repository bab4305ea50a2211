// Package webpage has what the gateway's own HTML pages share.
package webpage

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// Policy returns the content security policy of a page: its own style, forms to the given sources, and
// nothing else.
func Policy(source, forms string) string {
	_, rest, _ := strings.Cut(source, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action " + forms + "; frame-ancestors 'none'"
}

package codec

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
)

// base64Fixes converts the URL alphabet and removes line breaks.
var base64Fixes = strings.NewReplacer("-", "+", "_", "/", " ", "", "\t", "", "\r", "", "\n", "", "%3D", "", "%3d", "")

// StandardBase64 returns base64 in the standard alphabet, with padding and without line
// breaks (JSN-19).
func StandardBase64(s string) string {
	if len(s)%4 == 0 && !strings.ContainsAny(s, "-_ \t\r\n%") {
		return s
	}
	s = strings.TrimRight(base64Fixes.Replace(s), "=")
	return s + strings.Repeat("=", (4-len(s)%4)%4)
}

// DetectMIME returns the media type of base64 data by its first bytes.
func DetectMIME(data string) string {
	const head = 512 / 3 * 4 // base64 of as many bytes as http.DetectContentType reads
	begin, _ := base64.StdEncoding.DecodeString(data[:min(len(data), head)&^3])
	mime, _, _ := strings.Cut(http.DetectContentType(begin), ";")
	return mime
}

// WithMIME returns media with its media type. If data has no type, WithMIME detects the
// type and reports that.
func WithMIME(m *llm.Media, path string, report *llm.Report) *llm.Media {
	if m.MIME != "" || m.Data == "" {
		return m
	}
	typed := *m
	typed.MIME = DetectMIME(m.Data)
	report.Approximate(path, "media.type_guessed", "nothing says what it is; sent as "+typed.MIME)
	return &typed
}

package record

import (
	"encoding/base64"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/isogloss-gateway/isogloss/conform"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// maskRaw masks the text between the quotes of a JSON string and keeps its escapes.
func maskRaw(raw string) string {
	var b strings.Builder
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			r, n := utf8.DecodeRuneInString(raw[i:])
			if r == utf8.RuneError && n <= 1 {
				b.WriteByte(raw[i])
				i++
				continue
			}
			b.WriteRune(conform.MaskRune(r))
			i += n
			continue
		}
		n := escape(&b, raw[i:])
		i += n
	}
	return b.String()
}

// escape writes the mask of an escape sequence and returns the length of the sequence.
func escape(b *strings.Builder, raw string) int {
	r, ok := hex4(raw)
	if !ok {
		b.WriteString(raw[:2]) // \n, \" and the like
		return 2
	}
	if utf16.IsSurrogate(r) {
		low, ok := hex4(raw[6:])
		if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
			high, low := utf16.EncodeRune(conform.MaskRune(pair))
			fmt.Fprintf(b, `\u%04x\u%04x`, high, low)
			return 12
		}
		b.WriteString(raw[:6]) // an unpaired surrogate
		return 6
	}
	fmt.Fprintf(b, `\u%04x`, conform.MaskRune(r))
	return 6
}

// hex4 reads an escape of the form \uXXXX.
func hex4(raw string) (rune, bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(raw[2:6], 16, 16)
	return rune(n), err == nil
}

// phrases matches the words by which a gateway recognises the kind of an error.
var phrases = regexp.MustCompile(`(?i)maximum context length|context[ _]length|context window|exceeds the context window|exceed_context|prompt is too long|exceeds the maximum number of tokens|api key not valid|insufficient_quota|rate_limit|overloaded|unavailable|invalid_api_key|authentication|invalid_request|timeout`)

// maskError masks an error message except its phrases.
func maskError(s string) string {
	out, at := "", 0
	for _, m := range phrases.FindAllStringIndex(s, -1) {
		out += conform.Mask(s[at:m[0]]) + s[m[0]:m[1]]
		at = m[1]
	}
	return out + conform.Mask(s[at:])
}

var extensions = map[string]bool{".png": true, ".jpg": true, ".jpeg": true, ".gif": true, ".webp": true, ".pdf": true, ".mp3": true, ".wav": true, ".mp4": true, ".txt": true, ".csv": true}

// url returns a replacement for a URL with the same scheme and extension. Equal URLs have
// equal replacements, different URLs different ones.
func (r *redactor) url(s string) string {
	if r.urls[s] == "" {
		scheme, rest, _ := strings.Cut(s, "://")
		rest, _, _ = strings.Cut(rest, "#")
		rest, _, _ = strings.Cut(rest, "?")
		ext := path.Ext(rest)
		if !extensions[ext] {
			ext = ""
		}
		r.urls[s] = scheme + "://host.invalid/u" + strconv.Itoa(len(r.urls)+1) + ext
	}
	return r.urls[s]
}

var address = regexp.MustCompile(`^(https?|gs|s3)://\S+$`)

// dataURL matches the beginning of a data URL and its media type.
var dataURL = regexp.MustCompile(`^data:([a-z0-9.+/-]*)[^,]*,`)

// sample returns a small file of a media type, in base64.
func sample(media string) string {
	for begin, data := range samples {
		if strings.HasSuffix(media, begin) {
			return data
		}
	}
	return base64.StdEncoding.EncodeToString([]byte("x"))
}

const jpeg = "/9j/4AAQSkZJRgABAQEASABIAAD/2wBDAP//////////////////////////////////////////////////////////////////////////////////////wgALCAABAAEBAREA/8QAFBABAAAAAAAAAAAAAAAAAAAAAP/aAAgBAQABPxA="

// samples has the smallest file of each format.
var samples = map[string]string{
	"png":  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
	"gif":  "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7",
	"webp": "UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA",
	"jpg":  jpeg,
	"jpeg": jpeg,
	"wav":  "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=",
	"pdf":  "JVBERi0xLjEKMSAwIG9iajw8L1BhZ2VzIDIgMCBSPj5lbmRvYmoKMiAwIG9iajw8L0tpZHNbXS9Db3VudCAwPj5lbmRvYmoKdHJhaWxlcjw8L1Jvb3QgMSAwIFI+Pgo=",
}

// wrapped is the prefix of a seal that contains the seals of other vendors.
const wrapped = "aXNvZ2xvc3M6"

// seal masks a signature. If it contains others, seal masks those and their ids.
func (r *redactor) seal(s string) string {
	rest, ok := strings.CutPrefix(s, wrapped)
	if !ok {
		return conform.Mask(s)
	}
	inside, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		return conform.Mask(s)
	}
	n, err := parse(string(inside))
	if err != nil {
		return conform.Mask(s)
	}
	var edits []edit
	for _, vendor := range n.members {
		for _, m := range vendor.value.members {
			if m.value.kind != '"' {
				continue
			}
			masked := conform.Mask(m.value.text)
			if ids[m.name] {
				masked = r.id(m.value.text)
			}
			edits = append(edits, edit{m.value.start, m.value.end, wire.Quote(masked)})
		}
	}
	out, _ := apply(string(inside), edits)
	return wrapped + base64.StdEncoding.EncodeToString([]byte(out))
}

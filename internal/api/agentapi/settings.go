package agentapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

// maxSettings limits the size of a settings file.
const maxSettings = 256 << 10

// ReadSettings reads a file with a JSON object. Gateways with the same file give it the same id and
// checksum.
func ReadSettings(path string) (*access.Settings, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("settings: %w; write a JSON file with an object", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("settings: %w", err)
	case len(text) > maxSettings:
		return nil, fmt.Errorf("settings: %s has more than %d KiB; write a shorter file", path, maxSettings>>10)
	}
	if text, err = canonical(text); err != nil {
		return nil, fmt.Errorf("settings: %s: %w; write a JSON object", path, err)
	}
	sum := sha256.Sum256(text)
	return &access.Settings{ID: uuid.NewHash(sha256.New(), uuid.Nil, text, 8).String(), Checksum: "sha256:" + hex.EncodeToString(sum[:]), JSON: text}, nil
}

// canonical returns an object as JSON.stringify writes it after its names were sorted at every level:
// without white space, and with names that are array indices first.
func canonical(text jsontext.Value) ([]byte, error) {
	if !text.IsValid() { // also refuses names that occur twice
		return nil, errors.New("it is not valid JSON")
	}
	if text.Kind() != '{' {
		return nil, errors.New("it is not an object")
	}
	if err := text.Canonicalize(); err != nil {
		return nil, err
	}
	return appendSorted(nil, text)
}

// appendSorted appends a value in canonical form, with the names of its objects in JavaScript's order.
func appendSorted(b []byte, v jsontext.Value) ([]byte, error) {
	switch v.Kind() {
	case '{':
		var object map[string]jsontext.Value
		if err := json.Unmarshal(v, &object); err != nil {
			return nil, err
		}
		for i, name := range slices.SortedFunc(maps.Keys(object), compareNames) {
			b = append(b, "{,"[min(i, 1)])
			quoted, err := jsontext.AppendQuote(b, name)
			if err != nil {
				return nil, err
			}
			if b, err = appendSorted(append(quoted, ':'), object[name]); err != nil {
				return nil, err
			}
		}
		if len(object) == 0 {
			b = append(b, '{')
		}
		return append(b, '}'), nil
	case '[':
		var list []jsontext.Value
		if err := json.Unmarshal(v, &list); err != nil {
			return nil, err
		}
		b = append(b, '[')
		for i, e := range list {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendSorted(b, e); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	}
	return append(b, v...), nil
}

// compareNames orders names like JavaScript's objects whose names were sorted: array indices by their
// value, then the others by their UTF-16 code units.
func compareNames(a, b string) int {
	i, aIsIndex := index(a)
	j, bIsIndex := index(b)
	switch {
	case aIsIndex && bIsIndex:
		return int(i - j)
	case aIsIndex:
		return -1
	case bIsIndex:
		return 1
	}
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

// index returns the array index that a name stands for.
func index(name string) (int64, bool) {
	n, err := strconv.ParseInt(name, 10, 64)
	return n, err == nil && n >= 0 && n < 1<<32-1 && strconv.FormatInt(n, 10) == name
}

// serveSettings sends the settings of the rule that admits a person. If-None-Match: * only asks
// whether there are settings, and is answered as if it were not there.
func serveSettings(e *endpoint, c *call) *llm.Error {
	if c.person == nil || c.person.Settings == nil {
		return &llm.Error{Kind: llm.NotFound, Code: "no_settings", Message: "the gateway has no settings for you; its operator can set some"}
	}
	s := c.person.Settings
	tag := `"` + s.Checksum + `"`
	c.w.Header().Set("ETag", tag)
	for known := range strings.SplitSeq(c.r.Header.Get("If-None-Match"), ",") {
		if strings.TrimPrefix(strings.TrimSpace(known), "W/") == tag {
			c.w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	write(c.w, http.StatusOK, "application/json", e.dialect.Agent.EncodeSettings(s.ID, s.Checksum, s.JSON))
	return nil
}

package gemini

import (
	"bytes"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// The quoted names of members, in both spellings.
var (
	sealMarks   = []string{`"thoughtSignature"`, `"thought_signature"`}
	callMarks   = []string{`"functionCall"`, `"function_call"`}
	resultMarks = []string{`"functionResponse"`, `"function_response"`}
)

// unsigned reports whether the current turn has a call without a signature, which models of the third
// generation reject. The current turn begins after the last message of the user that is no result.
// GEM-08
func unsigned(body *wire.Index, model string) bool {
	contents := body.Raw("contents")
	if generation(model) < 3 || contents.Kind() != '[' || !hasAny(contents, callMarks) {
		return false
	}
	missing := false
	s := wire.NewScanner(contents)
	for range s.Items() {
		content := s.Value()
		switch {
		case hasAny(content, callMarks):
			missing = missing || !hasAny(content, sealMarks)
		case !hasAny(content, resultMarks) && !bytes.Contains(content, []byte(`"`+roleModel+`"`)):
			missing = false // the user speaks
		}
	}
	return missing
}

// hasAny reports whether a text has one of the names. A name inside a string has escaped quotes.
func hasAny(text wire.Raw, names []string) bool {
	for _, name := range names {
		if bytes.Contains([]byte(text), []byte(name)) {
			return true
		}
	}
	return false
}

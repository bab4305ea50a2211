package codec

import (
	"encoding/base64"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
)

// UniqueIDs holds the ids of a conversation, so that every call gets a unique id.
type UniqueIDs map[string]int

// Add returns the first of name(1), name(2) and so on that is not in use, and adds it.
func (u UniqueIDs) Add(name func(n int) string) string {
	first := name(1)
	free := first
	for n := max(u[first], 1) + 1; u[free] > 0; n++ { // u[first] is the last number that was tried
		free, u[first] = name(n), n
	}
	u[free] = max(u[free], 1)
	return free
}

// wrappedID is the prefix of the ids that WrapID encodes. maxWrapped is the maximum length of an id that it encodes.
const (
	wrappedID  = "iso_"
	maxWrapped = 256
)

// WrapID returns a call's id with only letters, digits, '_' and '-', for clients whose protocol
// allows no other characters. UnwrapID restores the id when the client sends it back, because some
// upstreams read the name of the function from their ids. It cannot restore an empty id, an id that
// is longer than maxWrapped, or an id of allowed characters that is longer than limit.
func WrapID(id string, limit int) string {
	safe := llm.SafeName(id, limit, llm.WordByte)
	if safe == id || id == "" || len(id) > maxWrapped || isWord(id) {
		return safe
	}
	return wrappedID + base64.RawURLEncoding.EncodeToString([]byte(id))
}

// UnwrapID returns the id that WrapID has encoded, and any other id unchanged.
func UnwrapID(id string) string {
	text, ok := strings.CutPrefix(id, wrappedID)
	if !ok || base64.RawURLEncoding.DecodedLen(len(text)) > maxWrapped {
		return id
	}
	original, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || isWord(string(original)) {
		return id
	}
	return string(original)
}

func isWord(id string) bool {
	for i := range len(id) {
		if !llm.WordByte(id[i]) {
			return false
		}
	}
	return true
}

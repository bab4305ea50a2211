package protocol

import (
	"iter"
	"strings"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Labels says where requests have what their clients say about them for the bill. An empty
// name: nowhere.
type Labels struct {
	// Users are the members with the id of the end user, the first of which that is set
	// counts. A name may have a dot: metadata.user_id.
	Users []string

	// Tags is the member with tags for the bill, and Metadata that with data for any other
	// purpose. Both are objects of texts.
	Tags, Metadata string
}

// maxLabel is the length of the JSON text up to which a label is read.
const maxLabel = 1024

// User returns the id of the end user, or "".
func (l *Labels) User(body *wire.Index) string {
	for _, path := range l.Users {
		outer, inner, nested := strings.Cut(path, ".")
		if !nested {
			if user := label(body.Raw(outer)); user != "" {
				return user
			}
			continue
		}
		for name, user := range TextsOf(body, outer) {
			if name == inner && user != "" {
				return user
			}
		}
	}
	return ""
}

// TextsOf iterates over the names and texts of an object in the body. A value that is long or no text
// is "". Without the object there is nothing.
func TextsOf(body *wire.Index, member string) iter.Seq2[string, string] {
	return func(yield func(name, text string) bool) {
		if body.Raw(member).Kind() != '{' {
			return
		}
		s := body.Scan(member)
		for name := range s.Members() {
			name = name[:min(len(name), maxLabel)]
			if !yield(string(wire.Name(name)), label(s.Value())) {
				return
			}
		}
	}
}

func label(v wire.Raw) string {
	if len(v) > maxLabel {
		return ""
	}
	return wire.Unquote(v)
}

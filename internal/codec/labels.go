package codec

import (
	"iter"
	"strings"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Labels names the members with which clients label a request for the bill. Empty: there is
// no such member.
type Labels struct {
	// Users are the members that may have the id of the end user. The first that is set
	// counts. A name may have a dot: metadata.user_id.
	Users []string

	// Tags is the member with tags for the bill. Metadata is the member with data for any
	// other purpose. The values of both are objects of strings.
	Tags, Metadata string
}

// maxLabel is the maximum length of a label's JSON text. A longer label is ignored.
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

// TextsOf iterates over the names and strings of an object in the body. For a value that is too long or
// not a string, it yields "". If the member is not an object, it yields nothing.
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

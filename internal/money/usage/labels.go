package usage

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// Labels are what a client says about a request for the ledger.
type Labels struct {
	User string // the end user on whose behalf the client sent it; empty: none
	Tags []Tag  // each key once
}

// Tag is a key and a value.
type Tag struct{ Key, Value string }

// Bounds of labels. What exceeds them is not recorded.
const (
	MaxTags     = 8   // of a request
	MaxTagKey   = 32  // bytes
	MaxTagValue = 64  // bytes
	MaxUser     = 128 // bytes
)

// Add adds a tag, with its key in lower case. A key that is there already keeps its value. Add reports
// false if the tag is malformed or too much.
func (l *Labels) Add(key, value string) bool {
	key = strings.ToLower(key)
	if !ValidTagKey(key) || !printable(value, MaxTagValue) {
		return false
	}
	if slices.ContainsFunc(l.Tags, func(t Tag) bool { return t.Key == key }) {
		return true
	}
	if len(l.Tags) == MaxTags {
		return false
	}
	l.Tags = append(l.Tags, Tag{strings.Clone(key), strings.Clone(value)}) // the request's head is freed
	return true
}

// SetUser sets the end user. It reports false if the text is malformed.
func (l *Labels) SetUser(user string) bool {
	if !printable(user, MaxUser) {
		return false
	}
	l.User = strings.Clone(user)
	return true
}

// BoundLabels returns labels without those that Add and SetUser reject.
func BoundLabels(l Labels) (out Labels) {
	if l.User != "" {
		out.SetUser(l.User)
	}
	for _, t := range l.Tags {
		out.Add(t.Key, t.Value)
	}
	return out
}

// ValidTagKey reports whether a text can be the key of a tag.
func ValidTagKey(key string) bool {
	return key != "" && len(key) <= MaxTagKey && strings.IndexFunc(key, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '.' && c != '-'
	}) < 0
}

// printable reports whether a text has between one and most bytes and no control characters.
func printable(text string, most int) bool {
	return text != "" && len(text) <= most && utf8.ValidString(text) && strings.IndexFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) < 0
}

// LabelRules is which labels of clients the ledger records.
type LabelRules struct {
	// Keys of the tags that are recorded, from every source: the header Isogloss-Tags,
	// tags, labels and metadata of the request. By default all keys are recorded except
	// those of metadata, which may be private.
	Keys []string `key:"keys" maxItems:"32" pattern:"^[a-z0-9_.-]{1,32}$" form:"a key of up to 32 lower-case letters, digits, \".\", \"-\" and \"_\"" example:"[team, feature]"`
	// How end users are recorded: user, safety_identifier and metadata.user_id of
	// requests. With none, the default, they are not. With hashed, the ledger has a keyed hash, which
	// is the same for all requests of a user. With plain, it has what the client sent.
	Users UserRule `key:"users" enum:"none,hashed,plain" example:"hashed"`

	Secret []byte // key of hashed end users, the same on all nodes
}

// Settle replaces none by its constant.
func (r *LabelRules) Settle(*settings.At) {
	if r.Users == "none" {
		r.Users = NoUsers
	}
}

// UserRule says how end users are recorded.
type UserRule string

// The rules.
const (
	NoUsers     UserRule = "" // not at all
	HashedUsers UserRule = "hashed"
	PlainUsers  UserRule = "plain"
)

// Records reports whether a tag with the key is recorded. Metadata is what clients send for other
// purposes too, so only listed keys of it are.
func (r *LabelRules) Records(key string, metadata bool) bool {
	if len(r.Keys) == 0 {
		return !metadata
	}
	return slices.ContainsFunc(r.Keys, func(k string) bool { return strings.EqualFold(k, key) })
}

// Name returns an end user as the ledger has it: the name, or 128 bits of its HMAC.
func (r *LabelRules) Name(user string) string {
	if r.Users != HashedUsers {
		return user
	}
	m := hmac.New(sha256.New, r.Secret)
	_, _ = m.Write([]byte(user)) // a hash never fails
	return hex.EncodeToString(m.Sum(nil)[:16])
}

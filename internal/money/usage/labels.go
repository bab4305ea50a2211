package usage

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
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

// LabelRules says which labels are recorded.
type LabelRules struct {
	// Keys are the keys of recorded tags, from every source. Empty: all keys of tags, and none of other
	// metadata.
	Keys  []string
	Users UserRule
	// Secret is the key of hashed end users, the same on all nodes.
	Secret []byte
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

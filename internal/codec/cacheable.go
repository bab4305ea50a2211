package codec

import (
	"iter"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// CacheRule says which requests of a route a cache may answer with an earlier response:
// those that ask for the single most likely response and have no other effect. It reads
// the top-level members of the body and not the messages.
//
// Generated text is cacheable where the temperature is 0, one choice is requested, no
// tool runs at the vendor and nothing is stored there. A seed is not enough: no vendor
// guarantees the same response for it. Embeddings, rerankings and token counts are
// always cacheable.
type CacheRule struct {
	// Members are the members that a request may have. A request with any other member
	// is not cacheable, because a new member may have any effect. Nil allows all.
	Members map[string]MemberRule

	// Required are members that must be present, because their default is not cacheable.
	Required []string
}

// MemberRule reports whether a request with a member of this value is cacheable.
type MemberRule func(value jsontext.Value) bool

// Allows reports whether a request with the given members is cacheable. A nil rule allows
// none.
func (r *CacheRule) Allows(members iter.Seq2[string, []byte]) bool {
	switch {
	case r == nil:
		return false
	case r.Members == nil:
		return true
	}
	required := 0
	for name, raw := range members {
		value := jsontext.Value(raw)
		if value.Kind() == 'n' {
			continue // null means that the member is absent
		}
		allows, known := r.Members[name]
		if !known || !allows(value) {
			return false
		}
		for _, m := range r.Required {
			if m == name {
				required++
			}
		}
	}
	return required == len(r.Required)
}

// AnyValue allows every value.
func AnyValue(jsontext.Value) bool { return true }

// OnlyFalse allows false.
func OnlyFalse(v jsontext.Value) bool { return v.Kind() == 'f' }

// OnlyZero allows the number 0.
func OnlyZero(v jsontext.Value) bool { return isNumber(v, 0) }

// OnlyOne allows the number 1.
func OnlyOne(v jsontext.Value) bool { return isNumber(v, 1) }

func isNumber(v jsontext.Value, want float64) bool {
	n, err := strconv.ParseFloat(string(v), 64)
	return v.Kind() == '0' && err == nil && n == want
}

// OnlyClientTools allows a list of tools that the client runs itself: tools of type
// "function" or "custom", or without a type.
func OnlyClientTools(v jsontext.Value) bool {
	var tools []struct {
		Type *string `json:"type"`
	}
	if json.Unmarshal(v, &tools) != nil {
		return false
	}
	for _, t := range tools {
		if t.Type != nil && *t.Type != "function" && *t.Type != "custom" {
			return false
		}
	}
	return true
}

// AllowMembers adds members to a table. They may have any value.
func AllowMembers(table map[string]MemberRule, names ...string) map[string]MemberRule {
	for _, name := range names {
		table[name] = AnyValue
	}
	return table
}

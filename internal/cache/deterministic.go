package cache

import (
	"iter"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Deterministic reports whether a request asks for the one most likely answer, so
// that an earlier answer is what its client wants, and whether it does nothing else
// than answer. It looks at the top-level members of the body; the messages are not
// read.
//
// Text is cached where the temperature is said to be 0, one answer is asked for, no
// tool runs at the provider and nothing is kept there. A seed alone is not enough: no
// vendor promises the same answer for it. Embeddings, rerankings and token counts are
// always the same.
//
// Every member has to be known here. A member that is new may do anything, and not
// caching it is the mistake that harms nobody.
func Deterministic(endpoint string, members iter.Seq2[string, []byte]) bool {
	f, known := forms[endpoint]
	if !known {
		return false
	}
	if f == nil {
		return true
	}
	return f.allows(members)
}

// form says what the members of a request may be.
type form struct {
	members map[string]rule
	must    []string // members that have to be there, because their default is not harmless
}

type rule func(value jsontext.Value) bool

func (f *form) allows(members iter.Seq2[string, []byte]) bool {
	seen := 0
	for name, raw := range members {
		value := jsontext.Value(raw)
		if value.Kind() == 'n' {
			continue // null is the same as nothing
		}
		r, known := f.members[name]
		if !known || !r(value) {
			return false
		}
		for _, m := range f.must {
			if m == name {
				seen++
			}
		}
	}
	return seen == len(f.must)
}

func anything(jsontext.Value) bool { return true }
func off(v jsontext.Value) bool    { return v.Kind() == 'f' }
func zero(v jsontext.Value) bool   { return number(v, 0) }
func one(v jsontext.Value) bool    { return number(v, 1) }

func number(v jsontext.Value, want float64) bool {
	n, err := strconv.ParseFloat(string(v), 64)
	return v.Kind() == '0' && err == nil && n == want
}

// typedTools allows tools that the client runs itself.
func typedTools(v jsontext.Value) bool {
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

// geminiTools allows declarations of functions; every other kind of tool runs at the
// provider.
func geminiTools(v jsontext.Value) bool {
	var tools []map[string]jsontext.Value
	if json.Unmarshal(v, &tools) != nil {
		return false
	}
	for _, t := range tools {
		for kind := range t {
			if kind != "functionDeclarations" && kind != "function_declarations" {
				return false
			}
		}
	}
	return true
}

// generationConfig is where Gemini has what others have at the top.
func generationConfig(v jsontext.Value) bool {
	var members map[string]jsontext.Value // duplicate names are an error
	if json.Unmarshal(v, &members) != nil {
		return false
	}
	return geminiConfig.allows(func(yield func(string, []byte) bool) {
		for name, value := range members {
			if !yield(name, value) {
				return
			}
		}
	})
}

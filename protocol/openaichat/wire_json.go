package openaichat

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// rawOf returns a wire value as JSON without white space.
func rawOf(v any) llm.Raw {
	b, err := wire.Marshal(v)
	if err == nil {
		b, err = json.Marshal(jsontext.Value(b), jsontext.AllowInvalidUTF8(true))
	}
	if err != nil {
		return "null" // a value that was decoded from JSON can be encoded
	}
	return llm.Raw(b)
}

// extraRaw returns an unknown member, or "" if there is none.
func extraRaw(e wire.Extra, name string) llm.Raw {
	v, _ := e.Get(name)
	return llm.Raw(v)
}

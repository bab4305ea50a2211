package anthropic

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// lenient is how answers and other people's texts are read: what is not needed may
// be as odd as it likes.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// objectArgs makes the object of a call's arguments that the protocol wants, and
// says whether it had to wrap them. A good object stays as it is, to the byte.
func objectArgs(args string) (wire.Raw, bool) {
	raw := wire.Raw(bytes.TrimSpace([]byte(args)))
	if len(raw) == 0 || string(raw) == "null" {
		return wire.Raw("{}"), false
	}
	if !raw.IsValid(lenient) {
		return member("_raw", quoted(args)), true
	}
	switch raw = wholeText(raw); raw.Kind() {
	case '{':
		return raw, false
	case '"':
		var inner string
		if json.Unmarshal(raw, &inner, lenient) == nil {
			if v := wire.Raw(inner); v.IsValid(lenient) && v.Kind() == '{' {
				return wholeText(v), true
			}
		}
	default:
	}
	return member("value", raw), true
}

// wholeText replaces halves of surrogate pairs, which the vendor refuses. JSN-06
func wholeText(raw wire.Raw) wire.Raw {
	if raw.IsValid(jsontext.AllowDuplicateNames(true)) {
		return raw
	}
	out, err := jsontext.AppendFormat(nil, raw, lenient)
	if err != nil {
		return raw
	}
	return out
}

// member is an object with one member.
func member(name string, value wire.Raw) wire.Raw {
	b := append(appendString([]byte{'{'}, name), ':')
	return append(append(b, value...), '}')
}

// array is a JSON array of values.
func array(values []wire.Raw) wire.Raw {
	return append(append([]byte{'['}, bytes.Join(rawBytes(values), []byte{','})...), ']')
}

func rawBytes(values []wire.Raw) [][]byte {
	out := make([][]byte, len(values))
	for i, v := range values {
		out[i] = v
	}
	return out
}

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	// The error is about invalid UTF-8, which is replaced; the text is complete.
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

package pair

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/sse"
)

// Last returns the last event of the stream if it lacks its blank line, or a JSON object
// that was not framed as an event. It reports false if the data is incomplete.
func Last(r *sse.Reader) (sse.Event, bool) {
	last, ok := r.Last()
	if !ok {
		last.Raw = bytes.TrimSpace(r.Rest())
	}
	if complete(last) {
		return last, true
	}
	return sse.Event{}, false
}

var jsonOptions = jsontext.AllowInvalidUTF8(true)

// complete reports whether the data of an event is a complete JSON value or the end
// marker of a stream.
func complete(e sse.Event) bool {
	data := bytes.TrimSpace(e.Data)
	if !e.HasData {
		return jsontext.Value(e.Raw).Kind() == '{' && jsontext.Value(e.Raw).IsValid(jsonOptions)
	}
	return string(data) == "[DONE]" || jsontext.Value(data).IsValid(jsonOptions)
}

// EventData returns the data of an event. A block without a data field that looks like
// JSON is an error that was not framed as an event (SSE-27).
func EventData(e sse.Event) []byte {
	if !e.HasData && len(e.Raw) > 0 && e.Raw[0] == '{' {
		return ValidUTF8(e.Raw)
	}
	return ValidUTF8(e.Data)
}

// ValidUTF8 replaces invalid UTF-8: some engines split characters between events
// (SSE-28).
func ValidUTF8(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	return bytes.ToValidUTF8(data, []byte("\uFFFD"))
}

package codec

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// ModelList writes lists of models.
type ModelList struct {
	List func([]Model) []byte
	One  func(Model) []byte // nil: single models have no path below the list
}

// ModelSource reads the list of models of an upstream.
type ModelSource struct {
	Path string // of the list, with the query for a long page

	// Read reads a list. It skips entries that are not models.
	Read func(body []byte) ([]Model, error)
}

// Model is a model as a list shows it. A field that is zero is not known.
type Model struct {
	ID           string
	Name         string // for people
	OwnedBy      string
	Created      time.Time
	Context      int64        // window in tokens
	MaxOutput    int64        // tokens
	Capabilities []Capability // in the order of Capabilities
	Price        Price
	Shutdown     time.Time // the day on which the vendor shuts it down
}

// Capability is what a model can do.
type Capability string

// The capabilities.
const (
	ImageInput        Capability = "image_input"
	PDFInput          Capability = "pdf_input"
	AudioInput        Capability = "audio_input"
	Tools             Capability = "tools"
	StructuredOutputs Capability = "structured_outputs"
	Thinking          Capability = "thinking"
)

// Capabilities lists the capabilities.
func Capabilities() []Capability {
	return []Capability{ImageInput, PDFInput, AudioInput, Tools, StructuredOutputs, Thinking}
}

// Price is what a model costs, in dollars per token as decimal text.
type Price struct{ Input, CacheRead, CacheWrite, Output string }

// ModelEntry is an entry of an upstream's list of models.
type ModelEntry map[string]jsontext.Value

// ReadModelList reads the entries of the list that a member of the body holds. The list
// may also be the whole body.
func ReadModelList(body []byte, member string) ([]ModelEntry, error) {
	list := jsontext.Value(body)
	if list.Kind() == '{' {
		var top ModelEntry
		if err := json.Unmarshal(body, &top, wire.Lenient); err != nil {
			return nil, err
		}
		list = top[member]
	}
	if list.Kind() == 'n' {
		return nil, nil
	}
	if list.Kind() != '[' {
		return nil, errors.New("protocol: the response is no list of models")
	}
	var entries []jsontext.Value
	if err := json.Unmarshal(list, &entries, wire.Lenient); err != nil {
		return nil, err
	}
	out := make([]ModelEntry, 0, len(entries))
	for _, raw := range entries {
		var e ModelEntry
		if raw.Kind() == '{' && json.Unmarshal(raw, &e, wire.Lenient) == nil {
			out = append(out, e)
		}
	}
	return out, nil
}

// Text returns a member that is a string, or "".
func (e ModelEntry) Text(name string) (s string) {
	if e[name].Kind() == '"' {
		_ = json.Unmarshal(e[name], &s, wire.Lenient) // the empty string otherwise
	}
	return s
}

// Int returns the first of the members that is a positive integer, or 0.
func (e ModelEntry) Int(names ...string) int64 {
	for _, name := range names {
		var n int64
		if e[name].Kind() == '0' && json.Unmarshal(e[name], &n) == nil && n > 0 {
			return n
		}
	}
	return 0
}

// True reports whether a member is true.
func (e ModelEntry) True(name string) bool { return e[name].Kind() == 't' }

// Object returns a member that is an object, or nil.
func (e ModelEntry) Object(name string) (o ModelEntry) {
	if e[name].Kind() == '{' {
		_ = json.Unmarshal(e[name], &o, wire.Lenient) // nil otherwise
	}
	return o
}

// Strings returns a member that is a list of strings, or nil.
func (e ModelEntry) Strings(name string) (list []string) {
	if e[name].Kind() == '[' && json.Unmarshal(e[name], &list, wire.Lenient) != nil {
		return nil
	}
	return list
}

// Time returns a member that is a day or an RFC 3339 time, or the zero time.
func (e ModelEntry) Time(name string) time.Time {
	text := e.Text(name)
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t
		}
	}
	return time.Time{}
}

package protocoltest

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// Ending is the way in which a stream ends for the client.
type Ending string

// The endings.
const (
	Open      Ending = "open"      // without any sign
	Completed Ending = "completed" // with the protocol's success terminal
	Failed    Ending = "failed"    // with the protocol's error form
)

// Check reads a stream like a client of the protocol and checks the invariants of the
// protocol.
func Check(name protocol.Name, stream []byte) (Ending, error) {
	switch name {
	case protocol.OpenAIChat:
		return CheckChat(stream)
	case protocol.OpenAIResponses:
		return CheckResponses(stream)
	case protocol.Anthropic:
		return CheckAnthropic(stream)
	case protocol.Gemini:
		return CheckGemini(stream)
	case protocol.Converse:
		return CheckConverse(stream)
	}
	return Open, fmt.Errorf("no invariants for the protocol %q", name)
}

// faults collects the invariants that a stream violates.
type faults struct {
	at   int // the event
	list []error
}

func (f *faults) add(invariant, format string, args ...any) {
	f.list = append(f.list, fmt.Errorf("event %d: %s: %s", f.at, invariant, fmt.Sprintf(format, args...)))
}

func (f *faults) err() error { return errors.Join(f.list...) }

// event is one decoded event of a client's stream.
type event struct {
	name string
	data jsontext.Value
}

// eventsOf splits a stream into events. It reports id lines and blank lines after
// comments, because some SDKs fail on a keep-alive with them (SSE-10).
func eventsOf(stream []byte, f *faults) []event {
	for line := range bytes.Lines(stream) {
		if bytes.HasPrefix(line, []byte("id:")) {
			f.add("SSE-10", "id line")
		}
	}
	if bytes.HasPrefix(stream, []byte("\n")) || bytes.Contains(stream, []byte("\n\n\n")) {
		f.add("SSE-10", "a blank line that does not end an event")
	}
	if len(stream) > 0 && !bytes.HasSuffix(stream, []byte("\n")) {
		f.add("SSE-17", "the last line has no line end")
	}
	r := sse.NewReader(bytes.NewReader(stream), sse.Options{})
	var events []event
	for {
		e, err := r.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				f.add("SSE", "%v", err)
			}
			if _, rest := r.Last(); rest {
				f.add("SSE-17", "the last event has no blank line")
			}
			return events
		}
		if !e.HasData {
			f.add("SSE-09", "an event without data")
			continue
		}
		events = append(events, event{string(e.Name), bytes.Clone(e.Data)})
	}
}

// into decodes an event's data strictly, as a client does.
func into(f *faults, data jsontext.Value, v any) bool {
	if err := json.Unmarshal(data, v); err != nil {
		f.add("JSON", "%v in %s", err, data)
		return false
	}
	return true
}

// isSet reports whether a member exists and is not null.
func isSet(v jsontext.Value) bool { return len(v) > 0 && v.Kind() != 'n' }

func isObject(s string) bool {
	v := jsontext.Value(s)
	return v.Kind() == '{' && v.IsValid()
}

package conform

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/sse"
)

// The readers and writers of this package serve tests of other packages, too: one reader
// judges all requests and responses of a dialect.

// Event is one event of a stream: a server-sent event, or a frame of Converse.
type Event struct{ Name, Data string }

// All returns everything that is wrong with a response.
func (r Reading) All() []string { return slices.Concat(r.Problems, r.Values) }

// ReadStream reads a stream as a client of the dialect.
func (d Dialect) ReadStream(stream []byte) Reading {
	events, rest := d.readEvents(stream)
	r := codecOf(d).readStream(events)
	r.Problems.addIf(rest != "", "the stream ends inside an event: %.80q", rest)
	return r
}

// ReadText is ReadStream for a stream in server-sent events. Those of Converse have the name
// of the event as their only member, as in tests of codecs.
func (d Dialect) ReadText(stream []byte) Reading {
	if d != Converse {
		return d.ReadStream(stream)
	}
	texts, rest := readEvents(stream)
	var events []event
	var bad problemList
	for _, e := range texts {
		o, err := parse([]byte(e.data))
		if names := o.names(); err != nil || e.name != "" || len(names) != 1 {
			bad.add("not an event of one member: %q %.80q", e.name, e.data)
		} else {
			events = append(events, event{names[0], o.at(names[0]).String()})
		}
	}
	r := codecOf(d).readStream(events)
	bad.addIf(rest != "", "the stream ends inside an event: %.80q", rest)
	r.Problems = append(bad, r.Problems...)
	return r
}

// CheckFraming returns what clients may stumble over in a text of server-sent events.
func CheckFraming(stream []byte) []string {
	var bad problemList
	for line := range bytes.Lines(stream) {
		bad.addIf(bytes.HasPrefix(line, []byte("id:")), "an id line (SSE-10)")
	}
	bad.addIf(bytes.HasPrefix(stream, []byte("\n")) || bytes.Contains(stream, []byte("\n\n\n")), "a blank line that does not end an event (SSE-10)")
	bad.addIf(len(stream) > 0 && !bytes.HasSuffix(stream, []byte("\n")), "the last line has no line end (SSE-17)")
	r := sse.NewReader(bytes.NewReader(stream), sse.Options{})
	for {
		e, err := r.Next()
		if err != nil {
			_, rest := r.Last()
			bad.addIf(rest, "the last event has no blank line (SSE-17)")
			return bad
		}
		bad.addIf(!e.HasData, "an event without data (SSE-09)")
	}
}

// ReadBody reads a response in one body.
func (d Dialect) ReadBody(body []byte) Reading { return codecOf(d).readBody(body) }

// ReadError reads an error response, or returns an error if it does not have the form of the
// dialect.
func (d Dialect) ReadError(status int, body []byte) (APIError, error) {
	return codecOf(d).readError(status, body)
}

// ReadRequest reads a request as the vendor. The path may have a query.
func (d Dialect) ReadRequest(path string, h http.Header, body []byte) Received {
	path, query, _ := strings.Cut(path, "?")
	r := codecOf(d).readRequest(body, h, path)
	r.Problems.addIf(d == Gemini && r.Stream && !strings.Contains(query, "alt=sse"), "a stream that is not requested as server-sent events")
	return r
}

package codec

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Envelope is the form in which a cloud offers a dialect: the dialect's bodies at other
// paths, with some values in other places. Requests are wrapped after they are encoded for
// the dialect, and responses are unwrapped before they are read. Requests of the cloud's own
// clients are opened before they are read, and responses to them are sealed after they are
// encoded.
type Envelope struct {
	Name string // in presets

	// Wrap changes a request of the dialect into one of the cloud. It reports what the
	// cloud does not accept.
	Wrap func(out *protocol.Outgoing, place Place, report *llm.Report) *llm.Error

	// Unwrap converts an error response or a token count to the dialect's form. It returns
	// the status and the body. Nil: these responses already have the dialect's form.
	Unwrap func(status int, header http.Header, body []byte) (int, []byte)

	// Frames converts the frames of binary streams. Nil: streams are server-sent events.
	Frames *Frames

	// Open returns the body of a client's request in the dialect's form. It also returns the
	// headers for values that the dialect has in headers. Nil: Dialect.Read reads the cloud's
	// form.
	Open func(at Location, body []byte) ([]byte, http.Header, *llm.Error)

	// Other describes requests of another dialect that the cloud accepts at the paths for
	// this dialect's token counts. They are not opened. Nil: there are none.
	Other *OtherBody

	// Seal returns the body of an error response or a token count in the cloud's form. Nil:
	// these responses have the dialect's form.
	Seal func(status int, body []byte) []byte

	// Header returns further headers of a response to a client. Nil: there are none.
	Header func(status int, stream bool) http.Header
}

// Place is where a cloud serves a model.
type Place struct {
	Model    string
	Stream   bool // a stream is requested
	Project  string
	Location string // or region
}

// Envelope returns the envelope with a name, or nil.
func (d *Dialect) Envelope(name string) *Envelope {
	for _, e := range d.Envelopes {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// maxModelID is the maximum length of a model's id in a path.
const maxModelID = 2048

// ModelSegment returns a model's id as one segment of a path. It refuses an id that is not
// made of letters, digits and the characters in more: a client may have chosen it, and it must
// not lead to another path.
func ModelSegment(model, more string) (string, *llm.Error) {
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(more, r)
	}
	if model == "" || len(model) > maxModelID || strings.Trim(model, ".") == "" || strings.ContainsFunc(model, bad) {
		return "", &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_model", Param: "model",
			Message: "the target's model is not an id of the cloud; write letters, digits and the characters " + more}
	}
	return url.PathEscape(model), nil
}

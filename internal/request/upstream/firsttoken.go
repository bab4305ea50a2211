package upstream

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/sse"
)

// maxHeld limits how many bytes of a stream are held back before its first token.
const maxHeld = 64 << 10

// FirstToken detects the first content of a stream.
type FirstToken interface {
	// Event reports whether an event has content. It returns an error that the upstream
	// sent.
	Event(e sse.Event) (content bool, err *llm.Error)
	// End returns the error of a stream that ended without content.
	End() *llm.Error
}

// AwaitFirstToken reads a stream up to its first content, an error in it, or maxHeld
// bytes. Headers, a role and a ping are not content. Afterwards the response can still be
// read from its beginning.
func (t *RoundTrip) AwaitFirstToken(find FirstToken, maxEvent int64) *llm.Error {
	if limit := t.timeouts.FirstToken; limit > 0 {
		timer := time.AfterFunc(limit-time.Since(t.SentAt), func() { t.cancel(errNoFirstToken) })
		defer timer.Stop()
	}
	var held bytes.Buffer
	body := t.Response.Body
	err := t.findFirstToken(io.TeeReader(body, &held), find, maxEvent)
	t.Response.Body = readCloser{io.MultiReader(&held, body), body}
	return err
}

func (t *RoundTrip) findFirstToken(stream io.Reader, find FirstToken, maxEvent int64) *llm.Error {
	events := NewEvents(stream, maxEvent)
	defer events.Close()
	for read := 0; read < maxHeld; {
		batch, err := events.Batch()
		read += len(batch.Raw)
		for e := range batch.Events() {
			if content, fault := find.Event(e); content || fault != nil {
				return fault
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if last, ok := events.Last(); ok {
				if content, fault := find.Event(last); content || fault != nil {
					return fault
				}
			}
			return find.End()
		case err != nil:
			return t.StreamError(err, maxEvent)
		}
	}
	return nil
}

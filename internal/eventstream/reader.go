// Package eventstream carries server-sent events in the binary event streams of Amazon's
// services, in both directions. protocol.Frames says what a frame holds.
package eventstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// MediaType is the content type of a binary event stream.
const MediaType = "application/vnd.amazon.eventstream"

// The headers of a frame.
const (
	typeHeader      = ":message-type"
	eventHeader     = ":event-type"
	exceptionHeader = ":exception-type"
	codeHeader      = ":error-code"
	messageHeader   = ":error-message"
	mediaHeader     = ":content-type"
)

// bufferSize is the size of a reader's buffer, held while its stream is open.
const bufferSize = 2 << 10

// Reader reads the frames of a stream as server-sent events. The decoder limits a frame to
// 16 MiB.
type Reader struct {
	source  io.ReadCloser
	buffer  *bufio.Reader // of source
	decode  func(f protocol.Frame, to []byte) []byte
	decoder *eventstream.Decoder
	payload []byte // its memory is used for the next frame
	events  []byte
	unread  []byte // the rest of events
	err     error
}

// NewReader returns a reader of the frames of source.
func NewReader(source io.ReadCloser, frames *protocol.Frames) *Reader {
	return &Reader{source: source, buffer: bufio.NewReaderSize(source, bufferSize), decode: frames.Decode, decoder: eventstream.NewDecoder()}
}

// Read reads the next bytes of the events. It reads one frame at a time, so that an event
// does not wait for the next one.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.unread) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.next()
	}
	n := copy(p, r.unread)
	r.unread = r.unread[n:]
	return n, nil
}

// next reads one frame.
func (r *Reader) next() {
	if _, r.err = r.buffer.Peek(1); r.err != nil {
		return // the end of the stream, between two frames
	}
	message, err := r.decoder.Decode(r.buffer, r.payload[:0])
	switch {
	case errors.Is(err, io.EOF):
		r.err = io.ErrUnexpectedEOF
		return
	case err != nil:
		r.err = fmt.Errorf("eventstream: %w", err)
		return
	}
	r.payload = message.Payload
	r.events = r.decode(frameOf(message), r.events[:0])
	r.unread = r.events
}

// Close closes the source.
func (r *Reader) Close() error { return r.source.Close() }

func frameOf(m eventstream.Message) protocol.Frame {
	header := func(name string) string {
		if v := m.Headers.Get(name); v != nil {
			return v.String()
		}
		return ""
	}
	f := protocol.Frame{Type: header(typeHeader), Payload: m.Payload}
	switch f.Type {
	case protocol.ExceptionFrame:
		f.Name = header(exceptionHeader)
	case protocol.ErrorFrame:
		f.Name, f.Payload = header(codeHeader), []byte(header(messageHeader))
	default:
		f.Name = header(eventHeader)
	}
	return f
}

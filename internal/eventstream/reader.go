// Package eventstream carries server-sent events in the binary event streams of Amazon's
// services, in both directions. protocol.Frames says what a frame holds.
package eventstream

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
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

// The limits of a frame, which are the vendor's, and the sizes of its parts.
const (
	maxFrame    = 16 << 20
	maxHeaders  = 128 << 10
	frameSize   = 16 // without headers and payload
	preludeSize = 8  // the lengths of the frame and of its headers
)

// keepBuffer is the size up to which a buffer is used again.
const keepBuffer = 64 << 10

// bufferSize is the size of a reader's buffer, held while its stream is open.
const bufferSize = 2 << 10

// Reader reads the frames of a stream as server-sent events.
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

// next reads one frame. The SDK does not limit its length.
func (r *Reader) next() {
	head, err := r.buffer.Peek(preludeSize)
	if err != nil {
		if r.err = err; errors.Is(err, io.EOF) && len(head) > 0 {
			r.err = io.ErrUnexpectedEOF
		}
		return
	}
	length, headers := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
	switch {
	case length > maxFrame:
		r.err = &sse.TooLongError{Limit: maxFrame}
		return
	case length < frameSize, headers > maxHeaders, headers > length-frameSize:
		r.err = fmt.Errorf("eventstream: a frame of %d bytes with headers of %d", length, headers)
		return
	}
	message, err := r.decoder.Decode(io.LimitReader(r.buffer, int64(length)), r.payload[:0])
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		r.err = io.ErrUnexpectedEOF
		return
	case err != nil:
		r.err = fmt.Errorf("eventstream: %w", err)
		return
	}
	r.events = r.decode(frameOf(message), r.events[:0])
	r.unread, r.payload = r.events, message.Payload
	if cap(r.events) > keepBuffer { // a stream waits most of its life
		r.events, r.payload = nil, nil
	}
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

// Package eventstream carries server-sent events in the binary event streams of Amazon's
// services, in both directions. codec.Frames says what a frame holds.
package eventstream

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/isogloss-gateway/isogloss/internal/codec"
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
	preludeSize = 12 // the lengths of the frame and of its headers, and their checksum
	sumSize     = 4
)

// keepBuffer is the size up to which a buffer is used again.
const keepBuffer = 64 << 10

// bufferSize is the size of a reader's buffer, held while its stream is open.
const bufferSize = 2 << 10

// Reader reads the frames of a stream as server-sent events. It does not use the SDK's decoder, which compares each header
// of a frame with all before it: a frame with 128 KiB of headers would take seconds.
type Reader struct {
	source io.ReadCloser
	buffer *bufio.Reader // of source
	decode func(f codec.Frame, to []byte) []byte
	frame  bytes.Buffer // its memory is used for the next frame
	name   string       // of the last frame
	events []byte
	unread []byte // the rest of events
	err    error
}

// NewReader returns a reader of the frames of source.
func NewReader(source io.ReadCloser, frames *codec.Frames) *Reader {
	return &Reader{source: source, buffer: bufio.NewReaderSize(source, bufferSize), decode: frames.Decode}
}

// Read reads the next bytes of the events. It reads one frame at a time, so that an event
// does not wait for the next one.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.unread) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.err = r.next()
	}
	n := copy(p, r.unread)
	r.unread = r.unread[n:]
	return n, nil
}

var (
	errSum     = errors.New("eventstream: a frame has a wrong checksum")
	errHeaders = errors.New("eventstream: a frame has headers that cannot be read")
)

// next reads one frame.
func (r *Reader) next() error {
	head, err := r.buffer.Peek(preludeSize)
	if err != nil {
		return inside(err, len(head) > 0)
	}
	length, headers := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
	switch {
	case length > maxFrame:
		return &sse.TooLongError{Limit: maxFrame}
	case length < frameSize, headers > maxHeaders, headers > length-frameSize:
		return fmt.Errorf("eventstream: a frame of %d bytes with headers of %d", length, headers)
	case !summed(head):
		return errSum
	}
	frame, err := r.readFrame(int(length))
	if err != nil {
		return inside(err, true)
	}
	if !summed(frame) {
		return errSum
	}
	f, ok := frameOf(frame[preludeSize:][:headers], r.name)
	if !ok {
		return errHeaders
	}
	if f.Type != codec.ErrorFrame {
		f.Payload = frame[preludeSize+headers : length-sumSize]
	}
	r.name = f.Name
	r.events = r.decode(f, r.events[:0])
	r.unread = r.events
	if max(cap(r.events), r.frame.Cap()) > keepBuffer { // a stream waits most of its life
		r.events, r.frame = nil, bytes.Buffer{}
	}
	return nil
}

// readFrame reads a frame. The memory for a large one grows with the bytes that arrive.
func (r *Reader) readFrame(length int) ([]byte, error) {
	r.frame.Reset()
	if length <= keepBuffer {
		r.frame.Grow(length)
		frame := r.frame.AvailableBuffer()[:length]
		_, err := io.ReadFull(r.buffer, frame)
		return frame, err
	}
	_, err := io.CopyN(&r.frame, r.buffer, int64(length))
	return r.frame.Bytes(), err
}

// inside returns the error of a stream that may end between two frames only.
func inside(err error, frame bool) error {
	if errors.Is(err, io.EOF) && frame {
		return io.ErrUnexpectedEOF
	}
	return err
}

// summed reports whether bytes end with their checksum.
func summed(b []byte) bool {
	end := len(b) - sumSize
	return crc32.ChecksumIEEE(b[:end]) == binary.BigEndian.Uint32(b[end:])
}

// Close closes the source.
func (r *Reader) Close() error { return r.source.Close() }

// The types of header values that begin with their length. textValue is the only type that is read.
const (
	bytesValue = 6
	textValue  = 7
)

// valueSizes are the sizes of the values of the other types.
var valueSizes = map[byte]int{0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}

// frameOf returns the frame that headers describe. Of frames other than errors it has no payload. frameOf reports whether the
// headers can be read. Most frames have the name of the last one, whose string is used again.
func frameOf(headers []byte, last string) (f codec.Frame, ok bool) {
	var event, exception, code, message string
	text := func(value []byte) string {
		switch string(value) {
		case last:
			return last
		case codec.EventFrame:
			return codec.EventFrame
		}
		return string(value)
	}
	for len(headers) > 0 {
		name, rest, ok := cut(headers[1:], int(headers[0]))
		if !ok || len(rest) == 0 {
			return f, false
		}
		typ := rest[0]
		rest = rest[1:]
		size, known := valueSizes[typ]
		switch {
		case (typ == bytesValue || typ == textValue) && len(rest) >= 2:
			size, rest = int(binary.BigEndian.Uint16(rest)), rest[2:]
		case !known:
			return f, false
		}
		var value []byte
		if value, headers, ok = cut(rest, size); !ok {
			return f, false
		}
		if typ != textValue {
			continue
		}
		switch string(name) {
		case typeHeader:
			f.Type = text(value)
		case eventHeader:
			event = text(value)
		case exceptionHeader:
			exception = string(value)
		case codeHeader:
			code = string(value)
		case messageHeader:
			message = string(value)
		}
	}
	switch f.Type {
	case codec.ExceptionFrame:
		f.Name = exception
	case codec.ErrorFrame:
		f.Name, f.Payload = code, []byte(message)
	default:
		f.Name = event
	}
	return f, true
}

// cut divides bytes after the first n. It reports whether there are so many.
func cut(b []byte, n int) (first, rest []byte, ok bool) {
	if n > len(b) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

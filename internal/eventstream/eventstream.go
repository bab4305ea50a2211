// Package eventstream converts between streams of the media type
// application/vnd.amazon.eventstream, which consist of binary frames, and server-sent events.
//
// A frame has headers and a payload. The data of its event is an object whose only member has
// the name of the frame's type and the payload as its value:
//
//	event: contentBlockStop      data: {"contentBlockStop":{"contentBlockIndex":0}}
//	exception: throttlingException  data: {"throttlingException":{"message":"…"}}
//	error: InternalError         data: {"error":{"code":"InternalError","message":"…"}}
//
// So the rest of the gateway, which reads server-sent events, needs no second way to read a
// stream. The frames are read and written by the vendor's SDK. This package only checks their
// lengths first, which the SDK does not.
package eventstream

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream/eventstreamapi"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
	"github.com/isogloss-gateway/isogloss/sse"
)

// MediaType is the media type of a stream of frames.
const MediaType = "application/vnd.amazon.eventstream"

// The limits of a frame, which are the vendor's.
const (
	MaxFrame   = 16 << 20
	maxHeaders = 128 << 10
)

// overhead is the size of a frame without headers and payload, and prelude the part of it that
// has the lengths.
const (
	overhead = 16
	prelude  = 8
)

// buffered is the size of the buffer of a stream, which waits most of its life.
const buffered = 1 << 10

// errFrame is the error of bytes that are not a frame.
var errFrame = errors.New("eventstream: not a frame")

// Reader reads frames as server-sent events.
type Reader struct {
	src     *bufio.Reader
	decoder *eventstream.Decoder
	payload []byte
	event   []byte // the event that is being read
	rest    []byte // the part of event that was not read yet
	err     error
}

// NewReader returns a Reader of the frames of r.
func NewReader(r io.Reader) *Reader {
	return &Reader{src: bufio.NewReaderSize(r, buffered), decoder: eventstream.NewDecoder()}
}

// Read reads whole events, as far as they fit. It reads at most one frame. The error is io.EOF
// only if the stream ends with a complete frame.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if r.err = r.next(); r.err != nil {
			return 0, r.err
		}
	}
	n := copy(p, r.rest)
	if r.rest = r.rest[n:]; len(r.rest) == 0 && cap(r.event) > keep {
		r.event, r.payload = nil, nil
	}
	return n, nil
}

// keep is the size up to which a buffer is used again.
const keep = 64 << 10

// next reads the next frame.
func (r *Reader) next() error {
	head, err := r.src.Peek(prelude)
	if err != nil {
		if errors.Is(err, io.EOF) && len(head) > 0 {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	length, headers := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
	switch {
	case length > MaxFrame:
		return &sse.TooLongError{Limit: MaxFrame}
	case length < overhead, headers > maxHeaders, headers > length-overhead:
		return fmt.Errorf("%w: a length of %d with headers of %d", errFrame, length, headers)
	}
	m, err := r.decoder.Decode(io.LimitReader(r.src, int64(length)), r.payload)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	}
	r.payload = m.Payload[:0]
	r.event = appendMessage(r.event[:0], &m)
	r.rest = r.event
	return nil
}

// header returns the text of a frame's header.
func header(m *eventstream.Message, name string) string {
	if v := m.Headers.Get(name); v != nil {
		return v.String()
	}
	return ""
}

// appendMessage appends the event of a frame.
func appendMessage(dst []byte, m *eventstream.Message) []byte {
	name, value := header(m, eventstreamapi.EventTypeHeader), jsontext.Value(m.Payload)
	switch header(m, eventstreamapi.MessageTypeHeader) {
	case eventstreamapi.ExceptionMessageType:
		name = header(m, eventstreamapi.ExceptionTypeHeader)
	case eventstreamapi.ErrorMessageType:
		name = "error"
		value = wire.AppendQuote([]byte(`{"code":`), header(m, eventstreamapi.ErrorCodeHeader))
		value = append(wire.AppendQuote(append(value, `,"message":`...), header(m, eventstreamapi.ErrorMessageHeader)), '}')
	}
	switch {
	case len(value) == 0:
		value = jsontext.Value("{}")
	case !value.IsValid(wire.Lenient):
		value = wire.AppendQuote(nil, string(value))
	}
	data := append(wire.AppendQuote([]byte{'{'}, strings.ToValidUTF8(name, "\uFFFD")), ':')
	return sse.AppendEvent(dst, "", append(append(data, value...), '}'))
}

// Writer writes server-sent events as frames.
type Writer struct {
	encoder *eventstream.Encoder
	frames  bytes.Buffer
}

// NewWriter returns a Writer.
func NewWriter() *Writer { return &Writer{encoder: eventstream.NewEncoder()} }

// Frames returns the frames of whole events. They are valid until the next call. It leaves out
// comments, which frames have no counterpart of.
func (w *Writer) Frames(events []byte) ([]byte, error) {
	w.frames.Reset()
	r := sse.NewReader(bytes.NewReader(events), sse.Options{MaxEvent: len(events) + 1})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return w.frames.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
		if err := w.frame(e.Data); err != nil {
			return nil, err
		}
	}
}

// exception ends the names of events that are exceptions.
const exception = "Exception"

// frame appends the frame of an event.
func (w *Writer) frame(data []byte) error {
	s := wire.NewScanner(data)
	if s.Kind() != '{' {
		return errFrame
	}
	var m eventstream.Message
	for quoted := range s.Members() {
		name, kind, header := string(quoted), eventstreamapi.EventMessageType, eventstreamapi.EventTypeHeader
		if strings.HasSuffix(name, exception) {
			kind, header = eventstreamapi.ExceptionMessageType, eventstreamapi.ExceptionTypeHeader
		}
		m.Headers.Set(header, eventstream.StringValue(name))
		m.Headers.Set(eventstreamapi.ContentTypeHeader, eventstream.StringValue("application/json"))
		m.Headers.Set(eventstreamapi.MessageTypeHeader, eventstream.StringValue(kind))
		m.Payload = s.Value()
		break
	}
	return w.encoder.Encode(&w.frames, m)
}

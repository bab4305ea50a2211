package eventstream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/sse"
)

// Writer writes server-sent events as frames. Comments have no frames.
type Writer struct {
	frames  *codec.Frames
	source  bytes.Reader
	input   []byte // the memory of the reader of events
	list    []codec.Frame
	headers []byte // of a frame
	output  bytes.Buffer
}

// NewWriter returns a writer for one stream.
func NewWriter(frames *codec.Frames) *Writer {
	return &Writer{frames: frames, input: make([]byte, 0, bufferSize)}
}

// Frames returns the frames of whole events. The last event may lack its blank line. The
// result is valid until the next call.
func (w *Writer) Frames(events []byte) ([]byte, error) {
	w.source.Reset(events)
	w.output.Reset()
	reader := sse.NewReader(&w.source, sse.Options{MaxEvent: len(events) + 1, Buffer: w.input})
	for {
		e, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			if last, ok := reader.Last(); ok {
				err = w.write(last)
			} else {
				err = nil
			}
			return w.output.Bytes(), err
		case err != nil:
			return nil, err
		}
		if err := w.write(e); err != nil {
			return nil, err
		}
	}
}

// write writes the frames of one event.
func (w *Writer) write(e sse.Event) error {
	if !e.HasData {
		return nil
	}
	w.list = w.frames.Encode(e.Name, e.Data, w.list[:0])
	for _, f := range w.list {
		if err := w.writeFrame(f); err != nil {
			return err
		}
	}
	return nil
}

// maxValue is the length of a header's value, which is the vendor's limit.
const maxValue = 1<<15 - 1

var errTooLong = errors.New("eventstream: an event does not fit into a frame")

// writeFrame writes a frame. It does not use the SDK's encoder, which allocates for each header.
func (w *Writer) writeFrame(f codec.Frame) error {
	payload := f.Payload
	w.headers = appendHeader(w.headers[:0], typeHeader, f.Type)
	switch f.Type {
	case codec.ExceptionFrame:
		w.headers = appendHeader(w.headers, exceptionHeader, f.Name)
	case codec.ErrorFrame:
		w.headers = appendHeader(w.headers, codeHeader, f.Name)
		w.headers = appendHeader(w.headers, messageHeader, string(payload))
		payload = nil
	default:
		w.headers = appendHeader(w.headers, eventHeader, f.Name)
	}
	if f.Type != codec.ErrorFrame {
		w.headers = appendHeader(w.headers, mediaHeader, "application/json")
	}
	if len(f.Name) > maxValue || f.Type == codec.ErrorFrame && len(f.Payload) > maxValue || len(payload) > maxFrame {
		return errTooLong
	}
	out := w.output.AvailableBuffer()
	out = binary.BigEndian.AppendUint32(out, uint32(frameSize+len(w.headers)+len(payload)))
	out = binary.BigEndian.AppendUint32(out, uint32(len(w.headers)))
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
	out = append(append(out, w.headers...), payload...)
	w.output.Write(binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out)))
	return nil
}

// appendHeader appends a header with a text.
func appendHeader(to []byte, name, value string) []byte {
	to = append(append(to, byte(len(name))), name...)
	to = binary.BigEndian.AppendUint16(append(to, textValue), uint16(len(value)))
	return append(to, value...)
}

package eventstream

import (
	"bytes"
	"errors"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// Writer writes server-sent events as frames. Comments have no frames.
type Writer struct {
	frames  *protocol.Frames
	encoder *eventstream.Encoder
	source  bytes.Reader
	input   []byte // the memory of the reader of events
	list    []protocol.Frame
	output  bytes.Buffer
}

// NewWriter returns a writer for one stream.
func NewWriter(frames *protocol.Frames) *Writer {
	return &Writer{frames: frames, encoder: eventstream.NewEncoder(), input: make([]byte, 0, bufferSize)}
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
		if err := w.encoder.Encode(&w.output, messageOf(f)); err != nil {
			return err
		}
	}
	return nil
}

func messageOf(f protocol.Frame) eventstream.Message {
	m := eventstream.Message{Payload: f.Payload}
	set := func(name, value string) { m.Headers.Set(name, eventstream.StringValue(value)) }
	set(typeHeader, f.Type)
	switch f.Type {
	case protocol.ExceptionFrame:
		set(exceptionHeader, f.Name)
	case protocol.ErrorFrame:
		set(codeHeader, f.Name)
		set(messageHeader, string(f.Payload))
		m.Payload = nil
		return m
	default:
		set(eventHeader, f.Name)
	}
	set(mediaHeader, "application/json")
	return m
}

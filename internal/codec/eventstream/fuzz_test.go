package eventstream_test

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"github.com/isogloss-gateway/isogloss/internal/codec/eventstream"
)

// FuzzReader reads any bytes as a stream of frames: the events and the error do not depend on how the bytes arrive.
func FuzzReader(f *testing.F) {
	frames, err := eventstream.NewWriter(plain).Frames([]byte(events))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(frames)
	f.Add(frames[:len(frames)-3])
	f.Add(framed([]byte{1, 'x', 7, 0xff, 0xff}))
	f.Add(framed([]byte{0}, 1, 2, 3))
	f.Fuzz(func(t *testing.T, text []byte) {
		whole, err := io.ReadAll(eventstream.NewReader(io.NopCloser(bytes.NewReader(text)), plain))
		pieces, err2 := io.ReadAll(eventstream.NewReader(io.NopCloser(iotest.OneByteReader(bytes.NewReader(text))), plain))
		if !bytes.Equal(whole, pieces) || (err == nil) != (err2 == nil) {
			t.Errorf("%q %v, and in pieces %q %v", whole, err, pieces, err2)
		}
		if len(whole) > 16*len(text)+64 {
			t.Errorf("%d bytes become %d", len(text), len(whole))
		}
	})
}

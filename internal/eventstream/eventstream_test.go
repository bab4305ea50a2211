package eventstream_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/isogloss-gateway/isogloss/internal/eventstream"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// plain carries an event as a frame of its name.
var plain = &protocol.Frames{
	Decode: func(f protocol.Frame, to []byte) []byte { return sse.AppendEvent(to, f.Type+"-"+f.Name, f.Payload) },
	Encode: func(name, data []byte, to []protocol.Frame) []protocol.Frame {
		kind, name2, _ := strings.Cut(string(name), "-")
		return append(to, protocol.Frame{Type: kind, Name: name2, Payload: bytes.Clone(data)})
	},
}

const events = "event: event-chunk\ndata: {\"a\":1}\n\nevent: exception-throttlingException\ndata: {\"message\":\"slow\"}\n\nevent: error-InternalFailure\ndata: bad luck\n\n"

// TestThereAndBack writes events as frames and reads them again, however the bytes arrive.
func TestThereAndBack(t *testing.T) {
	for name, sent := range map[string]string{
		"events":            events,
		"comments":          ": hello\n\n" + strings.ReplaceAll(events, "\n\n", "\n\n: keep-alive\n\n"),
		"CRLF":              strings.ReplaceAll(events, "\n", "\r\n"),
		"without last line": strings.TrimRight(events, "\n"),
	} {
		frames, err := eventstream.NewWriter(plain).Frames([]byte(sent))
		if err != nil {
			t.Fatal(name, err)
		}
		for kind, source := range map[string]io.Reader{"whole": bytes.NewReader(frames), "bytes": iotest.OneByteReader(bytes.NewReader(frames))} {
			got, err := io.ReadAll(eventstream.NewReader(io.NopCloser(source), plain))
			if err != nil || string(got) != events {
				t.Errorf("%s, %s: %q %v", name, kind, got, err)
			}
		}
	}
}

// TestBrokenFrames checks that a stream that breaks off inside a frame, or that is damaged, ends with an error after
// the events before.
func TestBrokenFrames(t *testing.T) {
	frames, err := eventstream.NewWriter(plain).Frames([]byte(events))
	if err != nil {
		t.Fatal(err)
	}
	frames = bytes.Clone(frames)
	first := strings.Index(events, "\n\n") + 2
	for cut := 1; cut < len(frames); cut++ {
		got, err := io.ReadAll(eventstream.NewReader(io.NopCloser(bytes.NewReader(frames[:cut])), plain))
		if !strings.HasPrefix(events, string(got)) || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) || err == nil && string(got) == events {
			t.Fatalf("cut at %d: %q %v", cut, got, err)
		}
	}
	damaged := bytes.Clone(frames)
	damaged[len(damaged)-6] ^= 1
	got, err := io.ReadAll(eventstream.NewReader(io.NopCloser(bytes.NewReader(damaged)), plain))
	if err == nil || len(got) < first || !strings.HasPrefix(events, string(got)) {
		t.Errorf("%q %v", got, err)
	}
	huge := append([]byte{0xff, 0xff, 0xff, 0xff}, frames[4:]...)
	if _, err := io.ReadAll(eventstream.NewReader(io.NopCloser(bytes.NewReader(huge)), plain)); err == nil {
		t.Error("a frame of 4 GiB was read")
	}
}

// TestLengths checks frames whose lengths are impossible, with a valid checksum of the lengths.
func TestLengths(t *testing.T) {
	for _, tt := range []struct{ length, headers uint32 }{{1 << 31, 0}, {16<<20 + 1, 0}, {15, 0}, {100, 85}, {1 << 20, 129 << 10}} {
		head := binary.BigEndian.AppendUint32(nil, tt.length)
		head = binary.BigEndian.AppendUint32(head, tt.headers)
		head = binary.BigEndian.AppendUint32(head, crc32.ChecksumIEEE(head))
		endless := io.MultiReader(bytes.NewReader(head), zeros{})
		if got, err := io.ReadAll(eventstream.NewReader(io.NopCloser(endless), plain)); err == nil || len(got) > 0 {
			t.Errorf("%+v: %d bytes, %v", tt, len(got), err)
		}
	}
}

// zeros is an endless stream of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

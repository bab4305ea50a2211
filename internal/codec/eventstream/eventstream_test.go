package eventstream_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	awsstream "github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/eventstream"
	"github.com/isogloss-gateway/isogloss/internal/test/growth"
	"github.com/isogloss-gateway/isogloss/sse"
)

// plain carries an event as a frame of its name.
var plain = &codec.Frames{
	Decode: func(f codec.Frame, to []byte) []byte { return sse.AppendEvent(to, f.Type+"-"+f.Name, f.Payload) },
	Encode: func(name, data []byte, to []codec.Frame) []codec.Frame {
		kind, name2, _ := strings.Cut(string(name), "-")
		return append(to, codec.Frame{Type: kind, Name: name2, Payload: bytes.Clone(data)})
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

// framed returns a frame.
func framed(headers []byte, payload ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// TestWaitingReader reads frames that are as large as they may be, and many small ones, however they arrive.
func TestWaitingReader(t *testing.T) {
	names := func(size int) (headers []byte) { // of headers without a value, all different
		for i := 0; len(headers)+5 <= size; i++ {
			headers = append(headers, 3, byte('a'+i%26), byte('a'+i/26%26), byte('a'+i/26/26), 0)
		}
		return headers
	}
	for name, frames := range map[string]func(n int) []byte{
		"payload":      func(n int) []byte { return framed(nil, make([]byte, n*growth.PieceSize)...) },
		"many headers": func(n int) []byte { return bytes.Repeat(framed(names(n*4)), 8) },
		"long header": func(n int) []byte {
			header := append([]byte{1, 'x', 7, 0xff, 0xff}, make([]byte, 0xffff)...)
			return bytes.Repeat(framed(header), max(1, n*growth.PieceSize/len(header)))
		},
		"small frames": func(n int) []byte { return bytes.Repeat(framed(nil, make([]byte, 16)...), n) },
	} {
		for _, size := range []int{1, growth.PieceSize / 2, 4 << 10} {
			t.Run(fmt.Sprintf("%s/%d", name, size), func(t *testing.T) {
				inputs := map[int][]byte{growth.Pieces: frames(growth.Pieces), growth.Pieces / 8: frames(growth.Pieces / 8)}
				growth.Linear(t, func(n int) {
					read := 0
					reader := eventstream.NewReader(io.NopCloser(&sized{inputs[n], size}), &codec.Frames{Decode: func(f codec.Frame, to []byte) []byte {
						read += len(f.Payload)
						return append(to, '\n')
					}})
					if _, err := io.Copy(io.Discard, reader); err != nil {
						t.Fatal(err)
					}
					if name == "payload" && read != n*growth.PieceSize {
						t.Fatal(read)
					}
				})
			})
		}
	}
}

// sized is a reader whose reads have at most so many bytes.
type sized struct {
	bytes []byte
	size  int
}

func (s *sized) Read(p []byte) (int, error) {
	if len(s.bytes) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.size)], s.bytes)
	s.bytes = s.bytes[n:]
	return n, nil
}

// TestWaitingWriter writes many events at once, and one event with many lines.
func TestWaitingWriter(t *testing.T) {
	for name, piece := range map[string]string{"events": "event: event-a\ndata: {}\n\n", "lines": "data: {}\n", "comments": ":\n\n"} {
		t.Run(name, func(t *testing.T) {
			w := eventstream.NewWriter(plain)
			inputs := map[int][]byte{}
			for _, n := range []int{growth.Pieces, growth.Pieces / 8} {
				inputs[n] = []byte(strings.Repeat(piece, n))
			}
			growth.Linear(t, func(n int) {
				if _, err := w.Frames(inputs[n]); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestHeaders reads headers of every type, and rejects those that are cut off or of a type that does not exist.
func TestHeaders(t *testing.T) {
	var m awsstream.Message
	m.Headers.Set("bool", awsstream.BoolValue(true))
	m.Headers.Set("false", awsstream.BoolValue(false))
	m.Headers.Set("byte", awsstream.Int8Value(1))
	m.Headers.Set("short", awsstream.Int16Value(1))
	m.Headers.Set("int", awsstream.Int32Value(1))
	m.Headers.Set("long", awsstream.Int64Value(1))
	m.Headers.Set("bytes", awsstream.BytesValue("abc"))
	m.Headers.Set("time", awsstream.TimestampValue(time.Unix(1, 0)))
	m.Headers.Set("uuid", awsstream.UUIDValue{1})
	m.Headers.Set(":message-type", awsstream.StringValue("event"))
	m.Headers.Set(":event-type", awsstream.StringValue("chunk"))
	m.Payload = []byte("{}")
	var frame bytes.Buffer
	if err := awsstream.NewEncoder().Encode(&frame, m); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(eventstream.NewReader(io.NopCloser(bytes.NewReader(frame.Bytes())), plain)); err != nil || string(got) != "event: event-chunk\ndata: {}\n\n" {
		t.Errorf("%q %v", got, err)
	}
	length := binary.BigEndian.Uint32(frame.Bytes()[4:])
	headers := frame.Bytes()[12 : 12+length]
	ends := map[int]bool{}
	for i := range m.Headers {
		var some bytes.Buffer
		if err := awsstream.NewEncoder().Encode(&some, awsstream.Message{Headers: m.Headers[:i]}); err != nil {
			t.Fatal(err)
		}
		ends[some.Len()-16] = true
	}
	for cut := range headers {
		if _, err := io.ReadAll(eventstream.NewReader(io.NopCloser(bytes.NewReader(framed(headers[:cut]))), plain)); (err == nil) != ends[cut] {
			t.Errorf("headers that end after %d bytes: %v", cut, err)
		}
	}
	if _, err := io.ReadAll(eventstream.NewReader(io.NopCloser(bytes.NewReader(framed([]byte{1, 'x', 10}))), plain)); err == nil {
		t.Error("a type that does not exist was read")
	}
}

// TestSDKReads decodes the writer's frames with the vendor's own decoder, which checks lengths, checksums and headers.
func TestSDKReads(t *testing.T) {
	all := []codec.Frame{
		{Type: codec.EventFrame, Name: "contentBlockDelta", Payload: []byte(`{"delta":{"text":"x"}}`)},
		{Type: codec.ExceptionFrame, Name: "throttlingException", Payload: []byte(`{"message":"slow"}`)},
		{Type: codec.ErrorFrame, Name: "internal", Payload: []byte("a message")},
	}
	w := eventstream.NewWriter(&codec.Frames{Encode: func(_, _ []byte, _ []codec.Frame) []codec.Frame { return all }})
	frames, err := w.Frames([]byte("data: {}\n\n"))
	if err != nil {
		t.Fatal(err)
	}
	source, decoder := bytes.NewReader(frames), awsstream.NewDecoder()
	for i, want := range []string{
		`:message-type=event :event-type=contentBlockDelta :content-type=application/json {"delta":{"text":"x"}}`,
		`:message-type=exception :exception-type=throttlingException :content-type=application/json {"message":"slow"}`,
		`:message-type=error :error-code=internal :error-message=a message `,
	} {
		m, err := decoder.Decode(source, nil)
		if err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		got := ""
		for _, h := range m.Headers {
			got += h.Name + "=" + h.Value.String() + " "
		}
		if got += string(m.Payload); got != want {
			t.Errorf("frame %d: %s", i, got)
		}
	}
	if source.Len() > 0 {
		t.Errorf("%d bytes are left", source.Len())
	}
	for _, f := range []codec.Frame{{Type: codec.EventFrame, Name: strings.Repeat("x", 1<<15)}, {Type: codec.ErrorFrame, Payload: make([]byte, 1<<15)}, {Type: codec.EventFrame, Payload: make([]byte, 16<<20+1)}} {
		all = []codec.Frame{f}
		if _, err := w.Frames([]byte("data: {}\n\n")); err == nil {
			t.Errorf("a frame with %d and %d bytes is written", len(f.Name), len(f.Payload))
		}
	}
}

// TestFramesAllocate counts the allocations of a frame on the way in and out.
func TestFramesAllocate(t *testing.T) {
	frame := codec.Frame{Type: codec.EventFrame, Name: "contentBlockDelta", Payload: []byte(`{}`)}
	frames := &codec.Frames{
		Encode: func(_, _ []byte, to []codec.Frame) []codec.Frame { return append(to, frame) },
		Decode: func(_ codec.Frame, to []byte) []byte { return append(to, "data: {}\n\n"...) },
	}
	w, event := eventstream.NewWriter(frames), []byte("data: {}\n\n")
	if n := testing.AllocsPerRun(100, func() { _, _ = w.Frames(event) }); n > 2 {
		t.Errorf("%v allocations for a frame that is written", n)
	}
	one, err := w.Frames(event)
	if err != nil {
		t.Fatal(err)
	}
	r := eventstream.NewReader(io.NopCloser(bytes.NewReader(bytes.Repeat(one, 2000))), frames)
	p := make([]byte, len(event))
	if n := testing.AllocsPerRun(1000, func() { _, _ = io.ReadFull(r, p) }); n > 0 {
		t.Errorf("%v allocations for a frame that is read", n)
	}
}

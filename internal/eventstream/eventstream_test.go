package eventstream_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	ours "github.com/isogloss-gateway/isogloss/internal/eventstream"
	"github.com/isogloss-gateway/isogloss/sse"
)

func frame(t testing.TB, payload string, headers ...string) []byte {
	t.Helper()
	m := eventstream.Message{Payload: []byte(payload)}
	for i := 0; i < len(headers); i += 2 {
		m.Headers.Set(headers[i], eventstream.StringValue(headers[i+1]))
	}
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func event(t testing.TB, name, payload string) []byte {
	t.Helper()
	return frame(t, payload, ":event-type", name, ":content-type", "application/json", ":message-type", "event")
}

func TestFramesBecomeEvents(t *testing.T) {
	stream := bytes.Join([][]byte{
		event(t, "messageStart", `{"role":"assistant","p":"abcd"}`),
		event(t, "odd", "not json\n"),
		event(t, "empty", ""),
		event(t, "broken", "{\n\"a\": 1\n}"),
		frame(t, `{"message":"slow down"}`, ":exception-type", "throttlingException", ":message-type", "exception"),
		frame(t, "", ":error-code", "InternalError", ":error-message", `it "broke"`, ":message-type", "error"),
	}, nil)
	const want = "data: {\"messageStart\":{\"role\":\"assistant\",\"p\":\"abcd\"}}\n\n" +
		"data: {\"odd\":\"not json\\n\"}\n\n" +
		"data: {\"empty\":{}}\n\n" +
		"data: {\"broken\":{\ndata: \"a\": 1\ndata: }}\n\n" +
		"data: {\"throttlingException\":{\"message\":\"slow down\"}}\n\n" +
		"data: {\"error\":{\"code\":\"InternalError\",\"message\":\"it \\\"broke\\\"\"}}\n\n"
	for name, r := range map[string]io.Reader{"at once": bytes.NewReader(stream), "byte by byte": iotest.OneByteReader(bytes.NewReader(stream))} {
		got, err := io.ReadAll(ours.NewReader(r))
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, want)
		}
	}
}

// A stream that ends within a frame, or has a wrong checksum or length, is an error.
func TestBrokenFramesAreErrors(t *testing.T) {
	whole := event(t, "messageStop", `{"stopReason":"end_turn"}`)
	for n := 1; n < len(whole); n++ {
		if _, err := io.ReadAll(ours.NewReader(bytes.NewReader(whole[:n]))); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	for i := range whole {
		broken := bytes.Clone(whole)
		broken[i] ^= 0x41
		if got, err := io.ReadAll(ours.NewReader(bytes.NewReader(broken))); err == nil {
			t.Errorf("byte %d changed: %s", i, got)
		}
	}
	lengths := func(length, headers uint32) []byte {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, length), headers)
	}
	for _, head := range [][]byte{lengths(0, 0), lengths(15, 0), lengths(16, 1), lengths(1<<20, 1<<19)} {
		if _, err := io.ReadAll(ours.NewReader(io.MultiReader(bytes.NewReader(head), neverRead{t}))); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%x: %v", head, err)
		}
	}
	var long *sse.TooLongError
	if _, err := io.ReadAll(ours.NewReader(io.MultiReader(bytes.NewReader(lengths(ours.MaxFrame+1, 0)), neverRead{t}))); !errors.As(err, &long) {
		t.Errorf("a frame above the limit: %v", err)
	}
}

// neverRead fails the test if the rest of a frame is read after its lengths were wrong.
type neverRead struct{ t *testing.T }

func (r neverRead) Read([]byte) (int, error) {
	r.t.Error("the frame is read although its length is wrong")
	return 0, io.EOF
}

func TestEventsBecomeFrames(t *testing.T) {
	const events = ": a comment\n" +
		"data: {\"messageStart\":{\"role\":\"assistant\"}}\n\n" +
		"data: {\"serviceUnavailableException\":{\"message\":\"later\"}}\n\n"
	got, err := ours.NewWriter().Frames([]byte(events))
	want := append(event(t, "messageStart", `{"role":"assistant"}`),
		frame(t, `{"message":"later"}`, ":exception-type", "serviceUnavailableException", ":content-type", "application/json", ":message-type", "exception")...)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\n%q\nwant\n%q", err, got, want)
	}
	back, err := io.ReadAll(ours.NewReader(bytes.NewReader(got)))
	if err != nil || string(back) != strings.TrimPrefix(events, ": a comment\n") {
		t.Errorf("%v: %s", err, back)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(event(f, "messageStop", `{"stopReason":"end_turn"}`))
	f.Add(append(event(f, "a", "x"), event(f, "b", `{"c":1}`)...))
	f.Add([]byte{0, 0, 0, 16, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, stream []byte) {
		got, err := io.ReadAll(ours.NewReader(bytes.NewReader(stream)))
		again, errAgain := io.ReadAll(ours.NewReader(iotest.OneByteReader(bytes.NewReader(stream))))
		if !bytes.Equal(got, again) || (err == nil) != (errAgain == nil) {
			t.Fatalf("reads change the result: %q %v, %q %v", got, err, again, errAgain)
		}
	})
}

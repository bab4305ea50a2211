package protocoltest

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/isogloss-gateway/isogloss/llm"
)

// whole tests the decoding and encoding of a non-streaming response.
func (s suite) whole(t *testing.T) {
	body, _ := s.c.Section("upstream.json")
	resp, err := s.codec.DecodeResponse(body)
	if err != nil {
		s.c.Expect(t, "invalid", DumpError(err))
		return
	}
	dump := DumpResponse(resp)
	s.c.Expect(t, "response", dump)
	var report llm.Report
	out := s.codec.EncodeResponse(resp, s.c.ask(t, s.codec), &report)
	s.c.Expect(t, "client.json", string(indent(out)))
	if after := DumpResponse(resp); after != dump {
		t.Errorf("encoding changes the answer:\n%s\nbecame\n%s", dump, after)
	}
	s.same(t, "an answer written and read again", resp, s.read(t, out))
	events := llm.Explode(resp)
	if err := ValidateEvents(events); err != nil {
		t.Errorf("its stream: %v", err)
	}
	s.same(t, "an answer streamed and collected", resp, s.streamed(t, events))
}

func (s suite) read(t *testing.T, body []byte) *llm.Response {
	t.Helper()
	resp, err := s.codec.DecodeResponse(body)
	if err != nil {
		t.Fatalf("the codec cannot decode its own output: %v\n%s", err, body)
	}
	return resp
}

// streamed encodes events for a client and collects the response that the client reads.
func (s suite) streamed(t *testing.T, events []llm.Event) *llm.Response {
	t.Helper()
	stream := WriteStream(s.codec, s.c.ask(t, s.codec), events)
	s.check(t, "the client's stream", stream, Completed)
	got, err := ReadStream(s.codec, bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := Collect(got)
	if err != nil {
		t.Fatalf("the codec cannot decode its own stream: %v\n%s", err, stream)
	}
	return resp
}

func (s suite) check(t *testing.T, what string, stream []byte, want Ending) {
	t.Helper()
	ending, err := Check(s.codec.Name(), stream)
	if err != nil || ending != want {
		t.Errorf("%s: ends %s, want %s: %v\n%s", what, ending, want, err, stream)
	}
}

// same compares the parts of two responses that a stream can carry.
func (s suite) same(t *testing.T, what string, want, got *llm.Response) {
	t.Helper()
	if s.c.has("lossy") || got == nil {
		return
	}
	w, g := Bare(want), Bare(got)
	if g.Usage == nil { // the client did not request usage
		w.Usage = nil
	}
	if a, b := DumpResponse(w), DumpResponse(g); a != b {
		t.Errorf("%s differs:\n%s\nbecame\n%s", what, a, b)
	}
}

// stream tests the decoding and encoding of an upstream's stream.
func (s suite) stream(t *testing.T) {
	raw, _ := s.c.Section("upstream.sse")
	events, err := ReadStream(s.codec, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	dump := DumpEvents(events)
	s.c.Expect(t, "events", dump)
	if err := ValidateEvents(events); err != nil {
		t.Errorf("%v\n%s", err, dump)
	}
	ask := s.c.ask(t, s.codec)
	client := WriteStream(s.codec, ask, events)
	s.c.Expect(t, "client.sse", string(client))
	s.reads(t, raw, dump)
	resp, err := Collect(events)
	if err != nil {
		s.check(t, "a failed stream", client, Failed)
		return
	}
	if body, ok := s.c.Section("upstream.json"); ok {
		s.same(t, "the stream of a whole answer", s.read(t, body), resp)
	}
	s.same(t, "a stream written and read again", resp, s.streamed(t, events))
	s.same(t, "a stream with keep-alives", resp, s.streamed(t, withPings(events)))
	s.same(t, "an answer written whole", resp, s.read(t, s.codec.EncodeResponse(resp, ask, &llm.Report{})))
	s.failures(t, events)
	s.cuts(t, raw, resp)
}

func withPings(events []llm.Event) []llm.Event {
	var out []llm.Event
	for _, e := range events {
		if _, ok := e.(llm.Ping); ok {
			continue
		}
		if _, last := e.(llm.End); !last {
			out = append(out, e, llm.Ping{})
		} else {
			out = append(out, e)
		}
	}
	return out
}

// reads checks that the events do not depend on how the stream is divided into reads.
func (s suite) reads(t *testing.T, raw []byte, want string) {
	t.Helper()
	events, err := ReadStream(s.codec, iotest.OneByteReader(bytes.NewReader(raw)))
	if got := DumpEvents(events); err != nil || got != want {
		t.Errorf("byte by byte: %v\n%s\nwant\n%s", err, got, want)
	}
	for i := 0; i < len(raw); i += stride(len(raw)) {
		events, err := ReadStream(s.codec, io.MultiReader(bytes.NewReader(raw[:i]), bytes.NewReader(raw[i:])))
		if got := DumpEvents(events); err != nil || got != want {
			t.Fatalf("cut at %d: %v\n%s\nwant\n%s", i, err, got, want)
		}
	}
}

// stride returns the step between two tested positions in n bytes. It limits the number
// of positions, because each test reads the whole stream.
func stride(n int) int { return 1 + n/256 }

// cuts checks that a stream which is cut off ends with a failure, unless only usage is
// missing.
func (s suite) cuts(t *testing.T, raw []byte, whole *llm.Response) {
	t.Helper()
	w := Bare(whole)
	w.Usage = nil
	want := DumpResponse(w)
	for i := 0; i < len(raw); i += stride(len(raw)) {
		events, err := ReadStream(s.codec, bytes.NewReader(raw[:i]))
		if err != nil {
			t.Fatal(err)
		}
		if err := ValidateEvents(events); err != nil {
			t.Fatalf("cut at %d: %v", i, err)
		}
		if _, failed := events[len(events)-1].(llm.Failure); failed || s.c.has("late") {
			continue
		}
		resp, err := Collect(events)
		if err != nil {
			t.Fatalf("cut at %d: %v", i, err)
		}
		g := Bare(resp)
		g.Usage = nil
		if got := DumpResponse(g); got != want {
			t.Fatalf("cut at %d: a complete response with content missing:\n%s\nwant\n%s", i, got, want)
		}
	}
}

// failures checks that the client sees a failure if the upstream fails after any event.
func (s suite) failures(t *testing.T, events []llm.Event) {
	t.Helper()
	failure := llm.Failure{Err: &llm.Error{Kind: llm.Overloaded, Message: "no more"}}
	for i := range events {
		cut := append(slices.Clone(events[:i]), failure, llm.Ping{}, llm.End{})
		stream := WriteStream(s.codec, s.c.ask(t, s.codec), cut)
		s.check(t, "a stream that failed after event "+strconv.Itoa(i), stream, Failed)
		got, err := ReadStream(s.codec, bytes.NewReader(stream))
		if err != nil {
			t.Fatal(err)
		}
		last, ok := got[len(got)-1].(llm.Failure)
		if !ok || !strings.Contains(last.Err.Message, "no more") || last.Err.Kind != llm.Overloaded {
			t.Fatalf("failed after event %d: %s", i, DumpEvents(got))
		}
	}
}

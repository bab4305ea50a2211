package protocoltest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// request tests the decoding and encoding of a request. Encoding must keep every member,
// give the same bytes each time and not change the request. Turns that are added later
// must not change the bytes before them.
func (s suite) request(t *testing.T) {
	in := s.c.incoming(t, "request.json")
	req, err := s.codec.DecodeRequest(in)
	if err != nil {
		s.c.Expect(t, "invalid", DumpError(err))
		return
	}
	neutral := DumpRequest(req)
	s.c.Expect(t, "neutral", neutral)

	target := protocol.Target{Model: req.Model, Version: in.Version}
	s.c.jsonSection(t, "target.json", &target)
	var report llm.Report
	out, err := s.codec.EncodeRequest(req, target, &report)
	s.c.Expect(t, "report", DumpReport(&report))
	if err != nil {
		s.c.Expect(t, "invalid", DumpError(err))
		return
	}
	s.comesBack(t, in.Body, out.Body)
	if again, _ := s.codec.EncodeRequest(req, target, &llm.Report{}); !bytes.Equal(again.Body, out.Body) {
		t.Errorf("encoding the same request twice gives different bytes:\n%s\n%s", out.Body, again.Body)
	}
	if after := DumpRequest(req); after != neutral {
		t.Errorf("encoding changes the request:\n%s\nbecame\n%s", neutral, after)
	}
	s.settles(t, in, target, out.Body)
	s.prefix(t, req, target)
}

// comesBack compares the encoded request with the section encoded.json, or with the
// client's request if there is no such section.
func (s suite) comesBack(t *testing.T, sent, encoded []byte) {
	t.Helper()
	if _, ok := s.c.Section("encoded.json"); ok {
		s.c.Expect(t, "encoded.json", string(indent(encoded)))
		return
	}
	for _, d := range DiffJSON(sent, encoded) {
		if !strings.HasSuffix(d, ": lost null") { // null means the same as absent in a request, JSN-10
			t.Errorf("round trip: %s", d)
		}
	}
}

func indent(raw []byte) []byte {
	v := jsontext.Value(bytes.Clone(raw))
	if v.Indent(jsontext.WithIndent("  ")) != nil {
		return raw
	}
	return v
}

// settles checks that decoding and encoding an encoded request gives the same bytes.
func (s suite) settles(t *testing.T, in protocol.Incoming, target protocol.Target, encoded []byte) {
	t.Helper()
	in.Body = encoded
	req, err := s.codec.DecodeRequest(in)
	if err != nil {
		t.Errorf("the codec cannot decode its own output: %v", err)
		return
	}
	var report llm.Report
	if again, err := s.codec.EncodeRequest(req, target, &report); err != nil || !bytes.Equal(again.Body, encoded) {
		t.Errorf("decoding and encoding again gives different bytes: %v\n%s\n%s", err, encoded, again.Body)
	}
}

// turnsMember maps a protocol to the member that contains its turns.
var turnsMember = map[protocol.Name]string{
	protocol.OpenAIChat: "messages", protocol.OpenAIResponses: "input", protocol.Anthropic: "messages", protocol.Gemini: "contents", protocol.Converse: "messages",
}

// prefix checks that a request starts with the same bytes after the response and further
// turns were added to it.
func (s suite) prefix(t *testing.T, req *llm.Request, target protocol.Target) {
	t.Helper()
	for k, turn := range req.Turns {
		if turn.Role != llm.Assistant || k == 0 || k+1 == len(req.Turns) {
			continue
		}
		before, after := s.turnsOf(t, req, k, target), s.turnsOf(t, req, len(req.Turns), target)
		if open, ok := bytes.CutSuffix(before, []byte("]")); ok && !bytes.HasPrefix(after, open) {
			t.Errorf("turns 1 to %d are not a prefix:\n%s\n%s", k, before, after)
		}
	}
}

func (s suite) turnsOf(t *testing.T, req *llm.Request, n int, target protocol.Target) []byte {
	t.Helper()
	part := *req
	part.Turns = req.Turns[:n]
	out, err := s.codec.EncodeRequest(&part, target, &llm.Report{Mode: llm.Loose})
	if err != nil {
		t.Fatalf("turns 1 to %d: %v", n, err)
	}
	var body map[string]jsontext.Value
	if err := json.Unmarshal(out.Body, &body, lenient); err != nil {
		t.Fatal(err)
	}
	return body[turnsMember[s.codec.Name()]]
}

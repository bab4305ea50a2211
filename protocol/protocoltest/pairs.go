package protocoltest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Pairs tests translation between every ordered pair of codecs with the cases in a
// folder. The sections of such a case are those of a case for [Run], with the name of a
// protocol as a prefix: anthropic.request.json. Sections that differ only in the protocol
// have the same content.
//
//   - The sections of each protocol satisfy the rules of that protocol.
//   - A request that is decoded in one protocol and encoded in another has the same
//     content, except for the reported losses. The section "losses" lists them.
//   - A response has the same content for the client as at the upstream, streaming or
//     not.
//   - The client's stream satisfies the invariants of its protocol.
func Pairs(t *testing.T, dir string, codecs ...protocol.Translator) {
	t.Helper()
	for _, tc := range Cases(t, dir) {
		t.Run(tc.Name, func(t *testing.T) {
			var losses strings.Builder
			for _, client := range codecs {
				t.Run(string(client.Name())+" alone", func(t *testing.T) { suite{codec: client, c: tc.of(client.Name())}.run(t) })
				for _, upstream := range codecs {
					if client.Name() == upstream.Name() {
						continue
					}
					t.Run(string(client.Name())+" to "+string(upstream.Name()), func(t *testing.T) {
						p := pairOf{c: tc, client: client, upstream: upstream}
						p.request(t, &losses)
						p.whole(t)
						p.stream(t)
					})
				}
			}
			tc.Expect(t, "losses", losses.String())
			tc.save(t)
		})
	}
}

// pairOf is a client of one protocol with an upstream of another.
type pairOf struct {
	c                *Case
	client, upstream protocol.Translator
	names            map[string]llm.ToolRef
	ask              *llm.Request
}

func section(c protocol.Translator, name string) string { return string(c.Name()) + "." + name }

func (p *pairOf) request(t *testing.T, losses *strings.Builder) {
	p.ask = &llm.Request{Model: "m", Stream: true, IncludeUsage: true}
	body, ok := p.c.Section(section(p.client, "request.json"))
	if !ok {
		return
	}
	in := protocol.Incoming{}
	p.c.jsonSection(t, section(p.client, "incoming.json"), &in)
	in.Body = body
	req, err := p.client.DecodeRequest(in)
	if err != nil {
		t.Fatalf("the client's request: %v", err)
	}
	p.ask = req
	before := DumpRequest(req)
	var report llm.Report
	out, err := p.upstream.EncodeRequest(req, protocol.Target{Model: "m"}, &report)
	for loss := range strings.Lines(DumpReport(&report)) {
		fmt.Fprintf(losses, "%s to %s: %s", p.client.Name(), p.upstream.Name(), loss)
	}
	if after := DumpRequest(req); after != before {
		t.Errorf("encoding changes the request:\n%s\nbecame\n%s", before, after)
	}
	if err != nil {
		return // the section "losses" contains the error
	}
	p.names = out.Names
	path, _, _ := strings.Cut(out.Path, "?")
	back, err := p.upstream.DecodeRequest(protocol.Incoming{Body: out.Body, Path: path, Stream: req.Stream})
	if err != nil {
		t.Fatalf("the upstream cannot decode the request: %v\n%s", err, out.Body)
	}
	rename(back, out.Names)
	diff := requestFacts(req).diff(requestFacts(back))
	for _, fact := range slices.Sorted(maps.Keys(diff)) {
		if !reported(&report, fact) {
			t.Errorf("%s: %s, and the report has no such loss: %v\n%s", fact, diff[fact], report.Losses, out.Body)
		}
	}
}

// rename restores the client's tool names in a request that was sent upstream.
func rename(r *llm.Request, names map[string]llm.ToolRef) {
	for i, t := range r.Tools {
		if ref, ok := names[t.Name]; ok {
			r.Tools[i].Name, r.Tools[i].Namespace = ref.Name, ref.Namespace
		}
	}
	for i, n := range r.ToolChoice.Names {
		if ref, ok := names[n.Name]; ok {
			r.ToolChoice.Names[i] = ref
		}
	}
	for _, t := range r.Turns {
		undo := llm.Undo{Names: names}
		undo.Response(&llm.Response{Choices: []llm.Choice{{Blocks: t.Blocks}}})
	}
}

func (p *pairOf) whole(t *testing.T) {
	body, ok := p.c.Section(section(p.upstream, "upstream.json"))
	if !ok {
		return
	}
	resp, err := p.upstream.DecodeResponse(body)
	if err != nil {
		t.Fatalf("the upstream's answer: %v", err)
	}
	undo := llm.Undo{Names: p.names}
	undo.Response(resp)
	var report llm.Report
	out := p.client.EncodeResponse(resp, p.ask, &report)
	got, err := p.client.DecodeResponse(out)
	if err != nil {
		t.Fatalf("the client cannot decode the response: %v\n%s", err, out)
	}
	p.same(t, "the answer", resp, got, &report, out)
	p.sealsComeBack(t, resp, out)
}

// sealsComeBack checks that the upstream's seals are sent back to it when the client adds
// the response to the conversation.
func (p *pairOf) sealsComeBack(t *testing.T, resp *llm.Response, answer []byte) {
	t.Helper()
	var seals []llm.Seal
	for _, c := range resp.Choices {
		for _, b := range c.Blocks {
			seals = append(seals, b.Common().Seals...)
		}
	}
	if len(seals) == 0 {
		return
	}
	req, err := p.client.DecodeRequest(protocol.Incoming{Body: historyOf(t, p.client.Name(), answer), Path: "/v1beta/models/m:generateContent"})
	if err != nil {
		t.Fatalf("the client's next request: %v", err)
	}
	out, err := p.upstream.EncodeRequest(req, protocol.Target{Model: "m"}, &llm.Report{Mode: llm.Loose})
	if err != nil {
		t.Fatalf("the next request: %v", err)
	}
	for _, s := range seals {
		if !bytes.Contains(out.Body, []byte(s.Data)) {
			t.Errorf("the %s of %s is not sent back:\n%s\n%s", s.Form, s.Origin, answer, out.Body)
		}
	}
}

func (p *pairOf) stream(t *testing.T) {
	raw, ok := p.c.Section(section(p.upstream, "upstream.sse"))
	if !ok {
		return
	}
	events, err := ReadStream(p.upstream, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	undo := llm.Undo{Names: p.names}
	var mapped []llm.Event
	for _, e := range events {
		if e, ok := undo.Event(e); ok {
			mapped = append(mapped, e)
		}
	}
	if err := ValidateEvents(mapped); err != nil {
		t.Fatalf("%v\n%s", err, DumpEvents(mapped))
	}
	out := WriteStream(p.client, p.ask, mapped)
	ending, err := Check(p.client.Name(), out)
	if err != nil {
		t.Errorf("%v\n%s\n%s", err, DumpEvents(mapped), out)
	}
	want, err := Collect(mapped)
	if err != nil {
		if ending != Failed {
			t.Errorf("the upstream failed and the client's stream ends %s:\n%s", ending, out)
		}
		return
	}
	if ending != Completed {
		t.Errorf("the client's stream ends %s:\n%s", ending, out)
	}
	got, err := ReadStream(p.client, bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := Collect(got)
	if err != nil {
		t.Fatalf("the client cannot decode the stream: %v\n%s", err, out)
	}
	p.same(t, "the stream", want, resp, &llm.Report{}, out)
}

func (p *pairOf) same(t *testing.T, what string, want, got *llm.Response, report *llm.Report, out []byte) {
	t.Helper()
	diff := answerFacts(want).diff(answerFacts(got))
	for _, fact := range slices.Sorted(maps.Keys(diff)) {
		if fact == "usage" && got.Usage == nil && !p.ask.IncludeUsage {
			continue // the client did not request it
		}
		if !reported(report, fact) {
			t.Errorf("%s: %s: %s\n%s", what, fact, diff[fact], out)
		}
	}
}

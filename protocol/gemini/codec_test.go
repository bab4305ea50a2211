package gemini

import (
	"bytes"
	"flag"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

var _ = flag.Bool("update", false, "rewrite the expected sections of testdata")

func TestCodec(t *testing.T) { protocoltest.Run(t, Codec{}, "testdata") }

func encode(t *testing.T, req *llm.Request, model string) (protocol.Outgoing, *llm.Report) {
	t.Helper()
	report := &llm.Report{}
	out, err := Codec{}.EncodeRequest(req, protocol.Target{Model: model}, report)
	if err != nil && report.Err() == nil {
		t.Fatal(err)
	}
	return out, report
}

func losses(r *llm.Report) string {
	var b strings.Builder
	for _, l := range r.Losses {
		b.WriteString(string(l.Verdict) + " " + l.Code + " " + l.Path + "\n")
	}
	return b.String()
}

// readStream gives the events of a stream, which have to keep the rules.
func readStream(t *testing.T, stream []byte) []llm.Event {
	t.Helper()
	events, err := protocoltest.ReadStream(Codec{}, bytes.NewReader(stream))
	if err == nil {
		err = protocoltest.ValidateEvents(events)
	}
	if err != nil {
		t.Errorf("%v: %s", err, stream)
	}
	return events
}

// visible is what a person or an agent makes of an answer.
func visible(r *llm.Response) string {
	var out []string
	for _, c := range r.Choices {
		text, thought := "", ""
		for _, b := range c.Blocks {
			switch b := b.(type) {
			case *llm.Text:
				text += b.Text
			case *llm.Thought:
				thought += b.Text("")
			case *llm.ToolCall:
				out = append(out, b.Name+string(wire.Compact(wire.Raw(b.Args))))
			}
			for _, s := range b.Common().Seals {
				out = append(out, s.Data)
			}
		}
		out = append(out, text, thought, string(c.Stop.Kind))
	}
	return strings.Join(out, "|")
}

// What a stream brings is what a whole answer brings.
func TestExplodeAndCollect(t *testing.T) {
	const body = `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"Hi "},{"text":"there"},` +
		`{"functionCall":{"id":"c1","name":"f","args":{"n":1.10,"big":12345678901234567890}},"thoughtSignature":"U2ln"},{"functionCall":{"name":"f"}}],"role":"model"},` +
		`"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":15},"modelVersion":"m","responseId":"r1"}`
	want, err := Codec{}.DecodeResponse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	stream := protocoltest.WriteStream(Codec{}, nil, llm.Explode(want))
	events, bad := protocoltest.ReadStream(Codec{}, bytes.NewReader(stream))
	if bad != nil {
		t.Fatal(bad)
	}
	collected, bad := protocoltest.Collect(events)
	if bad != nil {
		t.Fatal(bad)
	}
	whole := Codec{}.EncodeResponse(collected, nil, &llm.Report{})
	got, err := Codec{}.DecodeResponse(whole)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Choices[0].Blocks, want.Choices[0].Blocks) || got.Choices[0].Stop != want.Choices[0].Stop || *got.Usage != *want.Usage {
		t.Errorf("\n got %s\nwant %s", protocoltest.DumpResponse(got), protocoltest.DumpResponse(want))
	}
	if want.Choices[0].Stop.Kind != llm.ToolUse {
		t.Errorf("stop %s", want.Choices[0].Stop.Kind)
	}
}

// GEM-20: a stream without alt=sse is one array, and both forms are read.
func TestArray(t *testing.T) {
	events := []llm.Event{
		llm.Start{ID: "r", Model: "m"}, llm.BlockStart{Block: &llm.Text{}}, llm.Delta{Text: "a\n"}, llm.Delta{Text: "b"},
		llm.BlockEnd{}, llm.ChoiceEnd{Stop: llm.Stop{Kind: llm.EndTurn}}, llm.End{},
	}
	write := func(events []llm.Event) []byte {
		enc := Codec{}.NewStreamEncoder(nil).(*StreamEncoder)
		enc.Array()
		var out []byte
		for _, e := range events {
			out = enc.Encode(e, out)
		}
		return out
	}
	out := write(events)
	var list []map[string]any
	if err := json.Unmarshal(out, &list); err != nil || len(list) != 3 {
		t.Fatalf("%v: %s", err, out)
	}
	var d streamDecoder
	if r, err := protocoltest.Collect(d.Finish(d.Decode(nil, out, nil))); err != nil || visible(r) != "a\nb||end_turn" {
		t.Errorf("read back: %v", err)
	}
	out = write(append(slices.Clone(events[:3]), llm.Failure{Err: &llm.Error{Kind: llm.Upstream, Message: "gone"}}))
	list = nil
	if err := json.Unmarshal(out, &list); err != nil || list[len(list)-1]["error"] == nil {
		t.Errorf("a failure: %v %s", err, out)
	}
}

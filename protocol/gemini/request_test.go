package gemini

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func TestLooseForms(t *testing.T) {
	const body = `{"contents":{"parts":{"inline_data":{"mime_type":"image/png","data":"-_8"}}},"tools":{"function_declarations":{"name":"f"}},"system_instruction":{"parts":{"text":"s"}}}`
	req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	if len(req.Turns) != 2 || req.Turns[0].Role != llm.System || req.Turns[1].Blocks[0].(*llm.Media).Data != "+/8=" || req.Tools[0].Name != "f" {
		t.Errorf("%s", protocoltest.DumpRequest(req))
	}
	const old = `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"role":"function","parts":[{"functionResponse":{"name":"f","response":{}}}]},` +
		`{"role":"model","parts":[{"functionResponse":{"name":"g","response":{"result":null}}}]}]}`
	req, err = Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(old)})
	if err != nil {
		t.Fatal(err)
	}
	call := req.Turns[0].Blocks[0].(*llm.ToolCall)
	if res := req.Turns[1].Blocks[0].(*llm.ToolResult); req.Turns[1].Role != llm.ToolRole || res.CallID != call.CallID || res.Blocks[0].(*llm.Text).Text != "{}" {
		t.Errorf("%s", protocoltest.DumpRequest(req))
	}
	if res := req.Turns[2].Blocks[0].(*llm.ToolResult); res.CallID == "" || res.CallID == call.CallID || res.Blocks[0].(*llm.Text).Text != "null" {
		t.Errorf("%s", protocoltest.DumpRequest(req))
	}
}

func TestHistoryOfStreams(t *testing.T) {
	events := []llm.Event{
		llm.Start{ID: "r"}, llm.BlockStart{Block: &llm.Thought{}}, llm.Delta{Text: "thinking "}, llm.Delta{Text: "hard"},
		llm.SealDelta{Seal: llm.Seal{Form: llm.Signature, Data: "s", Origin: "anthropic"}}, llm.BlockEnd{},
		llm.BlockStart{Index: 1, Block: &llm.Text{}}, llm.Delta{Index: 1, Text: "Hel"}, llm.Delta{Index: 1, Text: "lo"}, llm.BlockEnd{Index: 1},
		llm.BlockStart{Index: 2, Block: &llm.ToolCall{CallID: "a", Name: "f", Kind: llm.FunctionTool}}, llm.BlockEnd{Index: 2},
		llm.BlockStart{Index: 3, Block: &llm.ToolCall{CallID: "b", Name: "f", Kind: llm.FunctionTool}}, llm.BlockEnd{Index: 3},
		llm.ChoiceEnd{Stop: llm.Stop{Kind: llm.ToolUse}}, llm.End{},
	}
	enc := StreamEncoder{form: asLines}
	var out []byte
	for _, e := range events {
		out = enc.Encode(e, out)
	}
	contents := []string{`{"parts":[{"text":"Hi"}]}`}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		var w Response
		if err := wire.UnmarshalLenient([]byte(line), &w); err != nil {
			t.Fatal(err)
		}
		contents = append(contents, string(w.Candidates.Value().Slice()[0].Content))
	}
	contents = append(contents, `{"parts":[{"functionResponse":{"id":"b","name":"f","response":{}}},{"functionResponse":{"id":"a","name":"f","response":{}}}]}`)
	req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(`{"contents":[` + strings.Join(contents, ",") + `]}`)})
	if err != nil {
		t.Fatal(err)
	}
	if len(req.Turns) != 3 || len(req.Turns[1].Blocks) != 4 {
		t.Fatalf("%s", protocoltest.DumpRequest(req))
	}
	b := req.Turns[1].Blocks
	thought, text := b[0].(*llm.Thought), b[1].(*llm.Text)
	if thought.Text("") != "thinking hard" || thought.Seals[0].Data != "s" || text.Text != "Hello" || b[3].(*llm.ToolCall).CallID != "b" {
		t.Errorf("%s", protocoltest.DumpRequest(req))
	}
}

func TestLongBodies(t *testing.T) {
	const n = 3000
	for name, body := range map[string]string{
		"contents": `{"contents":[{"parts":[{"text":"x"}]}` + strings.Repeat(`,{"role":"model","parts":[{"text":"x","thought":true}]}`, n) + strings.Repeat(`,{"role":"model","parts":[{"text":"x"}]}`, n) + `]}`,
		"calls": `{"contents":[{"parts":[{"text":"x"}]},{"role":"model","parts":[{"text":""}` + strings.Repeat(`,{"functionCall":{"name":"f"}}`, n) + `]},{"parts":[` +
			strings.TrimPrefix(strings.Repeat(`,{"functionResponse":{"name":"f","response":{}}}`, n), ",") + `]}]}`,
	} {
		req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(body)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(req.Turns) > 3 {
			t.Errorf("%s: %d turns", name, len(req.Turns))
		}
		out, report := encode(t, req, "gemini-3")
		if len(out.Body) == 0 || report.Err() != nil {
			t.Errorf("%s: %v", name, report.Err())
		}
	}
	deep := `{"contents":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`
	if _, err := (Codec{}).DecodeRequest(protocol.Incoming{Body: []byte(deep)}); err == nil || err.Kind != llm.InvalidRequest {
		t.Errorf("%v", err)
	}
}

package all_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

// A client sends a vendor's seals back. They return to that vendor, and no other vendor gets them or the texts in which
// the gateway wraps them.
func TestSealsReachOnlyTheirMaker(t *testing.T) {
	for origin, form := range map[protocol.Name]llm.SealForm{protocol.Anthropic: llm.Signature, protocol.OpenAIResponses: llm.Encrypted, protocol.Gemini: llm.Signature} {
		for _, client := range all.Codecs() {
			body := secondRequest(t, client, sealedResponse(origin, form))
			for _, upstream := range all.Codecs() {
				t.Run(string(origin+" by "+client.Name()+" to "+upstream.Name()), func(t *testing.T) {
					req, err := client.DecodeRequest(protocol.Incoming{Body: body, Path: "/v1beta/models/m:generateContent"})
					if err != nil {
						t.Fatalf("%v\n%s", err, body)
					}
					var report llm.Report
					out, err := upstream.EncodeRequest(req, protocol.Target{Model: "m"}, &report)
					if err != nil {
						t.Fatal(err)
					}
					sent := string(out.Body)
					switch has := strings.Contains(sent, sealData); {
					case upstream.Name() == origin && !has:
						t.Errorf("the seal is lost: %s", sent)
					case upstream.Name() == protocol.OpenAIChat && client.Name() == protocol.OpenAIChat: // its servers have seals of their own
					case upstream.Name() != origin && has:
						t.Errorf("the seal is sent: %s", sent)
					case upstream.Name() != origin && len(report.Losses) == 0:
						t.Errorf("no loss is reported: %s", sent)
					}
					if codec.HasForeign(out.Body, upstream.Name()) {
						t.Errorf("a text of the gateway is sent: %s", sent)
					}
				})
			}
		}
	}
}

const sealData = "U2VhbGVk"

// sealedResponse returns a response with a vendor's seals: on reasoning, and on a text and a call if it is Gemini's.
func sealedResponse(origin protocol.Name, form llm.SealForm) *llm.Response {
	sealed := llm.Meta{Seals: []llm.Seal{{Form: form, Data: sealData, Origin: string(origin)}}}
	var others llm.Meta
	if origin == protocol.Gemini {
		others = sealed
	}
	return &llm.Response{ID: "x", Model: "m", Choices: []llm.Choice{{Stop: llm.Stop{Kind: llm.ToolUse}, Blocks: []llm.Block{
		&llm.Thought{Meta: sealed, Parts: []llm.ThoughtPart{{Form: llm.SummaryReasoning, Text: "hm"}}},
		&llm.Text{Meta: others, Text: "I look."},
		&llm.ToolCall{Meta: others, CallID: "call_1", Kind: llm.FunctionTool, Name: "f", Args: "{}"},
	}}}}
}

// secondRequest returns the request of a client that has received a response and sends it back with the result of its call.
func secondRequest(t *testing.T, client protocol.Translator, resp *llm.Response) []byte {
	t.Helper()
	var got struct {
		Choices []struct {
			Message jsontext.Value `json:"message"`
		} `json:"choices"`
		Output     jsontext.Value `json:"output"`
		Content    jsontext.Value `json:"content"`
		Candidates []struct {
			Content jsontext.Value `json:"content"`
		} `json:"candidates"`
	}
	if err := json.Unmarshal(client.EncodeResponse(resp, &llm.Request{Model: "m"}, &llm.Report{}), &got); err != nil {
		t.Fatal(err)
	}
	switch client.Name() {
	case protocol.OpenAIChat:
		return []byte(`{"model":"m","messages":[{"role":"user","content":"q"},` + string(got.Choices[0].Message) + `,{"role":"tool","tool_call_id":"call_1","content":"1"}]}`)
	case protocol.OpenAIResponses:
		items := strings.TrimSuffix(strings.TrimPrefix(string(got.Output), "["), "]")
		return []byte(`{"model":"m","store":false,"input":[{"role":"user","content":"q"},` + items + `,{"type":"function_call_output","call_id":"call_1","output":"1"}]}`)
	case protocol.Anthropic:
		return []byte(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"q"},{"role":"assistant","content":` + string(got.Content) + `},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"1"}]}]}`)
	case protocol.Converse:
		message := strings.TrimSuffix(strings.TrimPrefix(string(got.Output), `{"message":`), "}")
		return []byte(`{"messages":[{"role":"user","content":[{"text":"q"}]},` + message + `,{"role":"user","content":[{"toolResult":{"toolUseId":"call_1","content":[{"text":"1"}]}}]}]}`)
	}
	return []byte(`{"contents":[{"role":"user","parts":[{"text":"q"}]},` + string(got.Candidates[0].Content) + `,{"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"f","response":{"output":"1"}}}]}]}`)
}

// A seal of a call is at the start of its block, where the SDKs of Messages keep unknown members.
func TestSealStartsTheCall(t *testing.T) {
	const upstream = `data: {"candidates":[{"content":{"parts":[{"functionCall":{"id":"c1","name":"f","args":{"a":1}},"thoughtSignature":"c2ln"}]},"finishReason":"STOP","index":0}],"responseId":"r","modelVersion":"m"}` + "\n\n"
	events, err := protocoltest.ReadStream(codecNamed(t, protocol.Gemini), strings.NewReader(upstream))
	if err != nil {
		t.Fatal(err)
	}
	out := string(protocoltest.WriteStream(codecNamed(t, protocol.Anthropic), &llm.Request{Stream: true}, events))
	start, rest, _ := strings.Cut(out, `"input_json_delta"`)
	if !strings.Contains(start, `"extra_content":{"google":{"thought_signature":"c2ln"}}`) || strings.Contains(rest, "c2ln") {
		t.Errorf("the seal is not at the start of the block: %s", out)
	}
}

// A seal on a text that is not sent, because it is empty, is reported.
func TestSealOfEmptyText(t *testing.T) {
	for _, c := range all.Codecs() {
		if c.Name() == protocol.Gemini {
			continue
		}
		req, err := codecNamed(t, protocol.Gemini).DecodeRequest(protocol.Incoming{Path: "/v1beta/models/m:generateContent", Body: []byte(`{"contents":[{"role":"user","parts":[{"text":"q"}]},` +
			`{"role":"model","parts":[{"text":"a"},{"text":"","thoughtSignature":"c2ln"}]},{"role":"user","parts":[{"text":"r"}]}]}`)})
		if err != nil {
			t.Fatal(err)
		}
		var report llm.Report
		out, err := c.EncodeRequest(req, protocol.Target{Model: "m"}, &report)
		if err != nil || strings.Contains(string(out.Body), "c2ln") || !slices.ContainsFunc(report.Losses, func(l llm.Loss) bool { return l.Code == "seal.foreign" }) {
			t.Errorf("%s: %v %v: %s", c.Name(), err, report.Losses, out.Body)
		}
	}
}

// Asynchronous tools and calls, and what the vendor did not show to its model, are reported to clients and for upstreams
// of every other dialect.
func TestAsyncToolsAreReported(t *testing.T) {
	const response = `{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m","output":[{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}","async":true,"status":"completed"}],` +
		`"input_transformations":[{"id":"rs_1","action":"removed","reason":"model_mismatch","type":"reasoning"}]}`
	from := codecNamed(t, protocol.OpenAIResponses)
	whole, err := from.DecodeResponse([]byte(response))
	if err != nil {
		t.Fatal(err)
	}
	events, bad := protocoltest.ReadStream(from, strings.NewReader("data: {\"type\":\"response.completed\",\"sequence_number\":0,\"response\":"+response+"}\n\n"))
	if bad != nil {
		t.Fatal(bad)
	}
	streamed, bad := protocoltest.Collect(events)
	if bad != nil {
		t.Fatal(bad)
	}
	req, err := from.DecodeRequest(protocol.Incoming{Body: []byte(`{"model":"m","input":"q","tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":false,"async":true}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all.Codecs() {
		if c.Name() == protocol.OpenAIResponses {
			continue
		}
		var asked llm.Report
		if _, err := c.EncodeRequest(req, protocol.Target{Model: "m"}, &asked); err != nil || !names(&asked, ".async") {
			t.Errorf("%s: %v %v", c.Name(), err, asked.Losses)
		}
		for _, resp := range []*llm.Response{whole, streamed} {
			var report llm.Report
			c.EncodeResponse(resp, &llm.Request{}, &report)
			if !names(&report, ".async") || !names(&report, ".input_transformations") {
				t.Errorf("%s: %v", c.Name(), report.Losses)
			}
		}
	}
}

// names reports whether a loss has a path that ends in a name.
func names(r *llm.Report, name string) bool {
	return slices.ContainsFunc(r.Losses, func(l llm.Loss) bool { return strings.HasSuffix(l.Path, name) })
}

// Reasoning without a seal that another vendor's model has made does not reach a model of Converse as its own.
func TestUnsealedReasoningOfOthersOnConverse(t *testing.T) {
	converse := codecNamed(t, protocol.Converse)
	resp := &llm.Response{ID: "r", Model: "m", Choices: []llm.Choice{{Stop: llm.Stop{Kind: llm.EndTurn}, Blocks: []llm.Block{
		&llm.Thought{Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: "secret"}}}, &llm.Text{Text: "x"}}}}}
	body := converse.EncodeResponse(resp, &llm.Request{}, &llm.Report{})
	events, err := protocoltest.ReadStream(converse, bytes.NewReader(protocoltest.WriteStream(converse, &llm.Request{Stream: true}, llm.Explode(resp))))
	if err != nil {
		t.Fatal(err)
	}
	streamed, err := protocoltest.Collect(events)
	if err != nil {
		t.Fatal(err)
	}
	whole, lerr := converse.DecodeResponse(body)
	if lerr != nil {
		t.Fatal(lerr)
	}
	for _, r := range []*llm.Response{whole, streamed} {
		req := &llm.Request{Turns: []llm.Turn{{Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: "q"}}}, {Role: llm.Assistant, Blocks: r.Choices[0].Blocks}, {Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: "q"}}}}}
		var report llm.Report
		out, err := converse.EncodeRequest(req, protocol.Target{Model: "m"}, &report)
		if err != nil || strings.Contains(string(out.Body), "secret") || len(report.Losses) == 0 {
			t.Errorf("%v %v: %s", err, report.Losses, out.Body)
		}
	}
}

func codecNamed(t *testing.T, name protocol.Name) protocol.Translator {
	t.Helper()
	i := slices.IndexFunc(all.Codecs(), func(c protocol.Translator) bool { return c.Name() == name })
	return all.Codecs()[i]
}

package relay

import (
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec/gates"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// fidelity sets the configured fidelity mode.
func fidelity(mode llm.Mode) func(*gateway) {
	return func(g *gateway) { g.state.Fidelity = mode }
}

// TestFidelityModes checks the three modes, set by configuration and by header, with
// three requests: one that translates exactly, one with a member that the upstream's
// dialect lacks and can be dropped, and one that is rejected by default.
func TestFidelityModes(t *testing.T) {
	const (
		lossy   = `{"model":"m","max_completion_tokens":9,"seed":7,"messages":[{"role":"user","content":"Hi"}]}`
		refused = `{"model":"m","max_completion_tokens":9,"n":3,"messages":[{"role":"user","content":"Hi"}]}`
		exact   = `{"model":"m","max_completion_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`
	)
	for _, c := range []struct {
		config      llm.Mode
		header, ask string
		param       string // empty: the request succeeds
		says        string // prefix of the header Isogloss-Fidelity
	}{
		{"", "", exact, "", "exact"},
		{llm.Strict, "", exact, "", "exact"},
		{"", "", lossy, "", `dropped;a=0;d=1;codes="`},
		{llm.Default, "", lossy, "", "dropped;"},
		{llm.Loose, "", lossy, "", "dropped;"},
		{llm.Strict, "", lossy, "seed", ""},
		{"", "strict", lossy, "seed", ""},
		{llm.Loose, "Strict", lossy, "seed", ""},
		{llm.Strict, "default", lossy, "", "dropped;"},
		{llm.Strict, "loose", lossy, "", "dropped;"},
		{"", "", refused, "n", ""},
		{llm.Strict, "", refused, "n", ""},
		{llm.Loose, "", refused, "", "dropped;"},
		{llm.Default, "loose", refused, "", "dropped;"},
		{llm.Loose, "default", refused, "n", ""},
		{"", "sloppy", exact, exchange.ModeHeader, ""},
	} {
		g := newGateway(t, speaking(anthropicDialect), fidelity(c.config))
		g.up.Answer(upstreamtest.JSON(200, messagesResponse))
		resp, body, _ := g.post(t, chatPath, c.ask, exchange.ModeHeader, c.header)
		if c.param == "" {
			if got := resp.Header.Get("Isogloss-Fidelity"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(got, c.says) {
				t.Errorf("%+v: %s %q %s", c, resp.Status, got, body)
			}
			g.wantLine(t, `"fidelity":"`+strings.Split(c.says, `"`)[0])
			continue
		}
		f := readFault(t, chatDialect, body)
		param := c.param
		if param != exchange.ModeHeader { // the client's own field
			param = `"param":"` + param + `"`
		}
		if resp.StatusCode != http.StatusBadRequest || f.word != "invalid_request_error" || !strings.Contains(body, param) || len(g.up.Requests()) > 0 {
			t.Errorf("%+v: %s %s", c, resp.Status, body)
		}
		if got := resp.Header.Get("Isogloss-Fidelity"); c.param != exchange.ModeHeader && !strings.HasPrefix(got, "refused;") {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestStrictRefusesInEveryDialect checks that the rejection is in the client's dialect
// and that no upstream request is sent.
func TestStrictRefusesInEveryDialect(t *testing.T) {
	lossy := map[protocol.Name]string{
		chatDialect:      `{"model":"m","max_completion_tokens":9,"logit_bias":{"1":2},"messages":[{"role":"user","content":"Hi"}]}`,
		responsesDialect: `{"model":"m","max_output_tokens":9,"truncation":"auto","input":"Hi"}`,
		anthropicDialect: `{"model":"m","max_tokens":9,"top_k":5,"container":"c","messages":[{"role":"user","content":"Hi"}]}`,
		geminiDialect:    `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}],"generationConfig":{"maxOutputTokens":9},"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}]}`,
	}
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		g := newGateway(t, speaking(upstream), fidelity(llm.Strict))
		for _, stream := range []bool{false, true} {
			resp, body, _ := g.post(t, requestPath(client, stream), lossy[client])
			if readFault(t, client, body); resp.StatusCode != http.StatusBadRequest || len(g.up.Requests()) > 0 {
				t.Errorf("%s %s", resp.Status, body)
			}
		}
	})
}

// TestStrictLeavesTheVerbatimLaneAlone checks that the strict mode rejects nothing in the
// verbatim lane, which is lossless.
func TestStrictLeavesTheVerbatimLaneAlone(t *testing.T) {
	g := newGateway(t, fidelity(llm.Strict))
	g.up.Answer(upstreamtest.JSON(200, plainResponse))
	ask := `{"model":"real-chat","messages":[],"logit_bias":{},"invention":[1]}`
	resp, body, _ := g.post(t, chatPath, ask)
	if resp.StatusCode != http.StatusOK || body != plainResponse || string(g.up.Last(t).Body) != ask || resp.Header.Get("Isogloss-Fidelity") != "exact" {
		t.Errorf("%s %s", resp.Status, body)
	}
}

// TestGatesAreUsed checks that configured gates take precedence over the built-in ones.
func TestGatesAreUsed(t *testing.T) {
	const ask = `{"model":"m","temperature":0.5,"messages":[{"role":"user","content":"Hi"}]}`
	g := newGateway(t, speaking(anthropicDialect), func(g *gateway) {
		g.state.Gates = gates.New([]gates.Rule{{Protocol: anthropicDialect, Patterns: []string{"m*"}, Gates: protocol.Gates{NoSampling: true, MaxOutput: 777}}})
	})
	g.up.Answer(upstreamtest.JSON(200, messagesResponse))
	_, _, _ = g.post(t, chatPath, ask)
	if sent := string(g.up.Last(t).Body); strings.Contains(sent, "temperature") || !strings.Contains(sent, `"max_tokens":777`) {
		t.Errorf("sent %s", sent)
	}
	g = newGateway(t, speaking(anthropicDialect))
	g.up.Answer(upstreamtest.JSON(200, messagesResponse))
	_, _, _ = g.post(t, chatPath, ask)
	if sent := string(g.up.Last(t).Body); !strings.Contains(sent, `"temperature":0.5`) {
		t.Errorf("sent %s", sent)
	}
}

// TestTranslatedToolNames checks that tool names and kinds in the response are those of
// the client's request.
func TestTranslatedToolNames(t *testing.T) {
	const odd = "mcp.files/read:all-the-things-that-are-there-in-the-folder-of-a-user-with-a-long-name"
	tools := map[protocol.Name]string{
		chatDialect:      `{"model":"m","max_completion_tokens":9,"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"` + odd + `","parameters":{"type":"object"}}}]}`,
		responsesDialect: `{"model":"m","max_output_tokens":9,"input":"Hi","tools":[{"type":"function","name":"` + odd + `","parameters":{"type":"object"},"strict":false}]}`,
		anthropicDialect: `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}],"tools":[{"name":"` + odd + `","input_schema":{"type":"object"}}]}`,
		geminiDialect:    `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}],"tools":[{"functionDeclarations":[{"name":"` + odd + `","parametersJsonSchema":{"type":"object"}}]}]}`,
	}
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		for _, form := range []string{"stream", "whole", "collected"} {
			stream := form == "stream"
			g := newGateway(t, speaking(upstream), func(g *gateway) {
				if form == "collected" {
					always(g)
				}
			})
			g.up.Answer(func(c *upstreamtest.Conn) { callBack(t, upstream, form == "whole")(c) })
			ask := tools[client]
			if stream {
				ask = strings.Replace(ask, `{"model":"m",`, `{"model":"m","stream":true,`, 1)
			}
			resp, body, err := g.post(t, requestPath(client, stream), ask)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %v %s %s", form, err, resp.Status, body)
			}
			read := readWhole
			if stream {
				read = readStream
			}
			if got := read(t, client, body); !strings.HasPrefix(got, "call function "+odd+` {"x":1}`) {
				t.Errorf("%s: %s\n%s\nsent %s", form, got, body, g.up.Last(t).Body)
			}
		}
	})
}

// callBack is an upstream that calls the first tool of its request.
func callBack(t testing.TB, dialect protocol.Name, whole bool) upstreamtest.Script {
	return func(c *upstreamtest.Conn) {
		codec := codecOf(t, dialect)
		path, _, _ := strings.Cut(c.Request.Path, "?")
		req, err := codec.DecodeRequest(protocol.Incoming{Body: c.Request.Body, Path: path})
		if err != nil || len(req.Tools) == 0 {
			t.Errorf("the upstream cannot read what it was sent: %v: %s", err, c.Request.Body)
			return
		}
		resp := &llm.Response{ID: "a", Model: "m", Created: 7, Usage: &llm.Usage{Input: 1, Output: 1}, Choices: []llm.Choice{{
			Blocks: []llm.Block{&llm.ToolCall{CallID: "call_1", Kind: llm.FunctionTool, Name: req.Tools[0].Name, Args: `{"x":1}`}},
			Stop:   llm.Stop{Kind: llm.ToolUse},
		}}}
		if whole {
			upstreamtest.JSON(200, string(codec.EncodeResponse(resp, req, &llm.Report{})))(c)
			return
		}
		encoder := codec.NewStreamEncoder(&llm.Request{Stream: true, IncludeUsage: true})
		var b []byte
		for _, e := range llm.Explode(resp) {
			b = encoder.Encode(e, b)
		}
		upstreamtest.StreamRandom(string(b), 5)(c)
	}
}

// TestTranslatedCustomTools checks that a custom tool's call has free text as its input
// in the client's dialect.
func TestTranslatedCustomTools(t *testing.T) {
	c := sharedCase(t, "tool_names")
	for _, client := range []protocol.Name{chatDialect, responsesDialect} {
		for _, upstream := range []protocol.Name{anthropicDialect, geminiDialect} {
			for _, form := range []string{"stream", "whole", "collected", "exploded"} {
				stream := form == "stream" || form == "exploded"
				g := newGateway(t, speaking(upstream))
				g.up.Answer(upstreamtest.JSON(200, c.whole(upstream)))
				if form == "stream" || form == "collected" {
					g.up.Answer(upstreamtest.StreamCut(c.stream(upstream), 3))
				}
				path, ask := c.ask(client, stream)
				_, body, err := g.post(t, path, ask)
				read := readWhole
				if stream {
					read = readStream
				}
				if got := read(t, client, body); err != nil || !strings.HasPrefix(got, `call custom shell ls"-l😀`) {
					t.Errorf("%s on %s, %s: %v %s\n%s", client, upstream, form, err, got, body)
				}
			}
		}
	}
}

// TestTranslatedIDs checks that ids missing from the upstream's response are generated.
func TestTranslatedIDs(t *testing.T) {
	bare := map[protocol.Name][2]string{
		chatDialect: {`{"choices":[{"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}`,
			`data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}` + "\n\n"},
		geminiDialect: {`{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}`,
			`data: {"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}` + "\n\n"},
	}
	for upstream, answer := range bare {
		for _, client := range textDialects {
			if client == upstream {
				continue
			}
			for i, script := range []upstreamtest.Script{upstreamtest.JSON(200, answer[0]), upstreamtest.Stream(answer[1])} {
				g := newGateway(t, speaking(upstream))
				g.up.Answer(script)
				path, ask := simpleRequest(client, i == 1)
				resp, body, err := g.post(t, path, ask)
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Fatalf("%v %s %s", err, resp.Status, body)
				}
				if i == 1 {
					readStream(t, client, body)
				}
				for _, empty := range []string{`"id":""`, `"model":""`, `"created":0,`, `"created_at":0,`, `"responseId":""`} {
					if strings.Contains(body, empty) {
						t.Errorf("%s on %s: %s in %s", client, upstream, empty, body)
					}
				}
				if !strings.Contains(body, `"m"`) {
					t.Errorf("%s on %s: the model is missing: %s", client, upstream, body)
				}
			}
		}
	}
}

// TestStateOfTheVendor checks that members that refer to state stored at OpenAI are
// rejected for other upstreams, with advice, and forwarded to OpenAI (RSP-17, RSP-18,
// RSP-19).
func TestStateOfTheVendor(t *testing.T) {
	for param, ask := range map[string]string{
		"previous_response_id": `{"model":"m","previous_response_id":"resp_1","input":"Hi"}`,
		"conversation":         `{"model":"m","conversation":{"id":"conv_1"},"input":"Hi"}`,
		"background":           `{"model":"m","background":true,"input":"Hi"}`,
		"prompt":               `{"model":"m","prompt":{"id":"pmpt_1"},"input":"Hi"}`,
		"item_reference":       `{"model":"m","input":[{"type":"item_reference","id":"msg_1"},{"role":"user","content":"Hi"}]}`,
	} {
		for _, upstream := range []protocol.Name{chatDialect, anthropicDialect, geminiDialect} {
			for _, mode := range []string{"strict", "default", "loose"} {
				g := newGateway(t, speaking(upstream))
				resp, body, _ := g.post(t, "/v1/responses", ask, exchange.ModeHeader, mode)
				f := readFault(t, responsesDialect, body)
				if resp.StatusCode != http.StatusBadRequest || f.word != "invalid_request_error" || !strings.Contains(body, `"param":"`+param+`"`) || !strings.Contains(f.message, "instead") || param == "background" && strings.Contains(f.message, "conversation") || len(g.up.Requests()) > 0 {
					t.Errorf("%s on %s, %s: %s %s", param, upstream, mode, resp.Status, body)
				}
			}
		}
		g := newGateway(t, speaking(responsesDialect))
		g.up.Answer(upstreamtest.JSON(200, `{"id":"resp_2","object":"response","status":"completed","model":"m","output":[]}`))
		if resp, body, _ := g.post(t, "/v1/responses", ask); resp.StatusCode != http.StatusOK || string(g.up.Last(t).Body) != ask {
			t.Errorf("%s: %s %s", param, resp.Status, body)
		}
	}
	// The response has "store":false, because it is not stored (RSP-19).
	g := newGateway(t, speaking(chatDialect))
	g.up.Answer(upstreamtest.JSON(200, chatResponse))
	resp, body, _ := g.post(t, "/v1/responses", `{"model":"m","store":true,"input":"Hi"}`)
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"store":false`) {
		t.Errorf("%s %s", resp.Status, body)
	}
}

// TestNvExtIsNotTranslated checks that NVIDIA's nvext member is dropped for other
// dialects.
func TestNvExtIsNotTranslated(t *testing.T) {
	ask := `{"model":"m","max_completion_tokens":9,"nvext":{"top_k":5},"messages":[{"role":"user","content":"Hi"}]}`
	for mode, refused := range map[provider.Extensions]string{provider.RefuseExtensions: "default", provider.ForwardExtensions: "strict", provider.DropExtensions: ""} {
		g := newGateway(t, speaking(anthropicDialect), nvExt(mode))
		g.up.Answer(upstreamtest.JSON(200, messagesResponse))
		if refused != "" {
			resp, body, _ := g.post(t, chatPath, ask, exchange.ModeHeader, refused)
			if f := readFault(t, chatDialect, body); resp.StatusCode != http.StatusBadRequest || !strings.Contains(f.message, "nvext: drop") || len(g.up.Requests()) > 0 {
				t.Errorf("%s: %s %s", mode, resp.Status, body)
			}
		}
		resp, body, _ := g.post(t, chatPath, ask, exchange.ModeHeader, "loose")
		if f := resp.Header.Get("Isogloss-Fidelity"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(f, "dropped") || strings.Contains(string(g.up.Last(t).Body), "nvext") {
			t.Errorf("%s: %s %s %s", mode, resp.Status, f, body)
		}
	}
}

// TestLossInAStream checks that losses in a stream are reported in the header if they
// occur before the first token, and always in the log.
func TestLossInAStream(t *testing.T) {
	g := newGateway(t, speaking(anthropicDialect))
	g.up.Answer(upstreamtest.Stream(`event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"c","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"q"}}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Found."}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"srvtoolu_2","name":"web_search","input":{"query":"q"}}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

`))
	resp, body, err := g.post(t, chatPath, `{"model":"real-chat","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"Find it."}]}`)
	if err != nil || !strings.HasPrefix(resp.Header.Get("Isogloss-Fidelity"), "dropped;") || !strings.Contains(body, "Found.") {
		t.Fatalf("%v %s %s", err, resp.Header, body)
	}
	g.wantLine(t, `"fidelity":"dropped;a=0;d=2;codes=\"block.unknown\""`)
}

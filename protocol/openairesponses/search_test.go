package openairesponses

import (
	"bytes"
	"cmp"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

func decoded(t *testing.T, body string) *llm.Request {
	t.Helper()
	req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// sameAgain holds that a request is written as it came.
func sameAgain(t *testing.T, body string, req *llm.Request) {
	t.Helper()
	var report llm.Report
	out, err := Codec{}.EncodeRequest(req, protocol.Target{}, &report)
	if err != nil || len(report.Losses) > 0 {
		t.Errorf("%v %s", err, lossLines(&report))
	}
	for _, d := range protocoltest.DiffJSON([]byte(body), out.Body) {
		t.Errorf("%s\n%s", d, out.Body)
	}
}

func toolNames(req *llm.Request) string {
	names := make([]string, 0, len(req.Tools))
	for _, t := range req.Tools {
		names = append(names, string(t.Kind)+" "+strings.TrimPrefix(t.Namespace+"."+cmp.Or(t.Name, t.Hosted), "."))
	}
	return strings.Join(names, ", ")
}

const (
	aSearch   = `{"type":"tool_search","execution":"client"}`
	searched  = `{"type":"tool_search_call","id":"tsc_1","call_id":"c1","execution":"client","arguments":{"query":"q"},"status":"completed"}`
	aFunction = `{"type":"function","name":"tool_search","strict":false,"parameters":{"type":"object","properties":{}}}`
)

func findings(tools string) string {
	return `{"type":"tool_search_output","call_id":"c1","execution":"client","status":"completed","tools":[` + tools + `]}`
}

// The tools that a request has, and what it is written as again, which is the same.
func TestSearchTools(t *testing.T) {
	function := func(name string) string { return strings.Replace(aFunction, "tool_search", name, 1) }
	space := func(name, tools string) string {
		return `{"type":"namespace","name":"` + name + `","description":"","tools":[` + tools + `]}`
	}
	for name, tc := range map[string]struct{ items, tools, want string }{
		"nothing found": {searched + "," + findings(""), aSearch, "search tool_search"},
		"found":         {searched + "," + findings(function("a")+","+space("n", function("a"))), aSearch, "search tool_search, function a, function n.a"},
		"found twice":   {searched + "," + findings(function("a")) + "," + findings(function("b")+","+function("a")), aSearch, "search tool_search, function a, function b"},
		"listed":        {searched + "," + findings(space("n", function("a"))+","+function("a")), aSearch + "," + space("n", function("a")), "search tool_search, function n.a, function a"},
		"declared by an item after it": {searched + "," + findings(function("a")) + `,{"type":"additional_tools","role":"developer","tools":[` + function("a") + `]}`, aSearch,
			"search tool_search, function a"},
		"declared by an item": {`{"type":"additional_tools","role":"developer","tools":[` + aSearch + `]},` + searched + "," + findings(function("a")) +
			`,{"type":"additional_tools","role":"developer","tools":[` + function("b") + `]}`, function("c"), "function c, search tool_search, function a, function b"},
		"the vendor's":              {strings.ReplaceAll(searched+","+findings(function("a")), "client", "server"), `{"type":"tool_search"}`, "hosted tool_search"},
		"nobody's":                  {strings.ReplaceAll(searched+","+findings(function("a")), `"client"`, "1"), `{"type":"tool_search","execution":null}`, "hosted tool_search"},
		"a function of that name":   {searched + "," + findings(""), aSearch + "," + aFunction, "search tool_search_2, function tool_search"},
		"both names taken":          {searched + "," + findings(function("tool_search_2")), aFunction + "," + aSearch, "function tool_search, search tool_search_3, function tool_search_2"},
		"that name in a namespace":  {searched + "," + findings(space("n", aFunction)), aSearch, "search tool_search, function n.tool_search"},
		"a search in a namespace":   {"", space("n", aSearch), "hosted n.tool_search"},
		"a search finds itself":     {searched + "," + findings(aSearch), aSearch, "search tool_search"},
		"a namespace without tools": {searched + "," + findings(space("n", "")), aSearch, "search tool_search, hosted namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"model":"m","input":[` + strings.TrimSuffix(`{"role":"user","content":"u"},`+tc.items, ",") + `],"tools":[` + tc.tools + `]}`
			req := decoded(t, body)
			if got := toolNames(req); got != tc.want {
				t.Errorf("tools: %s, want %s", got, tc.want)
			}
			for _, turn := range req.Turns {
				for _, b := range turn.Blocks {
					if c, ok := b.(*llm.ToolCall); ok && !strings.Contains(tc.want+",", "search "+c.Name+",") {
						t.Errorf("the search is called %s", c.Name)
					}
				}
			}
			sameAgain(t, body, req)
			stream := protocoltest.WriteStream(Codec{}, req, []llm.Event{llm.Start{}, llm.ChoiceEnd{Stop: llm.Stop{Kind: llm.EndTurn}}, llm.End{}})
			if n := bytes.Count(stream, []byte(`"name":"a"`)) - 3*strings.Count(tc.tools, `"name":"a"`); n != 0 {
				t.Errorf("the answer repeats %d tools that were found:\n%s", n, stream)
			}
		})
	}
}

func TestSearchChoice(t *testing.T) {
	for choice, want := range map[string]llm.ToolChoice{
		`{"type":"tool_search"}`: {Mode: "named", Names: []llm.ToolRef{{Kind: llm.SearchTool, Name: "tool_search"}}},
		`{"type":"allowed_tools","mode":"required","tools":[{"type":"tool_search"}]}`: {Mode: "allowed", Allowed: "required",
			Names: []llm.ToolRef{{Kind: llm.SearchTool, Name: "tool_search"}}},
	} {
		body := `{"model":"m","input":[{"role":"user","content":"u"}],"tools":[` + aSearch + `],"tool_choice":` + choice + `}`
		req := decoded(t, body)
		if c := req.ToolChoice; c.Mode != want.Mode || c.Allowed != want.Allowed || len(c.Names) != 1 || c.Names[0] != want.Names[0] {
			t.Errorf("%s is read as %+v", choice, c)
		}
		sameAgain(t, body, req)
		vendors := strings.Replace(body, `"client"`, `"server"`, 1)
		if c := decoded(t, vendors).ToolChoice; len(c.Names) > 0 && c.Names[0].Kind != llm.HostedTool {
			t.Errorf("the vendor's search is chosen as %+v", c)
		}
	}
}

func TestMalformedSearches(t *testing.T) {
	for body, param := range map[string]string{
		`{"input":"u","tools":[{"type":"tool_search","execution":"client","description":1}]}`:                        "tools[0].description",
		`{"input":[{"type":"tool_search_call","execution":"client","call_id":1}]}`:                                   "input[0].call_id",
		`{"input":[{"type":"tool_search_output","execution":"client","call_id":"c","tools":{}}]}`:                    "input[0].tools",
		`{"input":[{"type":"tool_search_output","execution":"client","call_id":"c","tools":[{"type":"function"}]}]}`: "input[0].tools.0",
		`{"input":[{"type":"tool_search_output","execution":"client","call_id":"c","tools":["x"]}]}`:                 "input[0].tools.0",
	} {
		_, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(body)})
		if err == nil || err.Param != param {
			t.Errorf("%s: %+v, want a refusal of %s", body, err, param)
		}
	}
}

// A call without arguments and without ids is still one, and so is a search that
// found what is not said.
func TestBareSearch(t *testing.T) {
	body := `{"model":"m","input":[{"type":"tool_search_call","execution":"client"},{"type":"tool_search_output","execution":"client"}]}`
	req := decoded(t, body)
	call, _ := req.Turns[0].Blocks[0].(*llm.ToolCall)
	if call == nil || call.CallID == "" || !call.Synthetic || call.Args != "" {
		t.Errorf("%+v", call)
	}
	sameAgain(t, body, req)
}

// The arguments of a search have no events of their own.
func TestSearchIsStreamedWhole(t *testing.T) {
	stream := string(protocoltest.WriteStream(Codec{}, nil, []llm.Event{
		llm.Start{ID: "x", Model: "m"},
		llm.BlockStart{Block: &llm.ToolCall{CallID: "c", Kind: llm.SearchTool, Name: "tool_search"}},
		llm.Delta{Text: "{\n\"query\":"}, llm.Delta{Text: " \"q\"\n}"}, llm.BlockEnd{},
		llm.ChoiceEnd{Stop: llm.Stop{Kind: llm.ToolUse}}, llm.End{},
	}))
	if strings.Contains(stream, "arguments.d") || strings.Count(stream, "event: ") != 5 {
		t.Errorf("%s", stream)
	}
	for _, want := range []string{
		`"status":"in_progress","call_id":"c","execution":"client","arguments":{}}`,
		`"status":"completed","call_id":"c","execution":"client","arguments":{"query":"q"}}`,
	} {
		if !strings.Contains(stream, want) {
			t.Errorf("no %s in\n%s", want, stream)
		}
	}
}

// What a client declares on several lines is repeated on one: an event is a line.
func TestEchoIsOneLine(t *testing.T) {
	req := decoded(t, `{"model":"m","input":"u","metadata":{"a":"b"},"tools":[
		{"type":"tool_search", "execution":"client",
		 "description":"D"}, {"type":"web_search",
		 "x": 1.0}, {"type":"function","name":"f","parameters":{"type":"object",
		 "properties":{}}}]}`)
	stream := protocoltest.WriteStream(Codec{}, req, []llm.Event{llm.Start{}, llm.ChoiceEnd{Stop: llm.Stop{Kind: llm.EndTurn}}, llm.End{}})
	if _, err := protocoltest.Check(protocol.OpenAIResponses, stream); err != nil {
		t.Errorf("%v\n%s", err, stream)
	}
	checkStreamSchema(t, stream)
	if want := `{"type":"web_search","x":1.0}`; !bytes.Contains(stream, []byte(want)) {
		t.Errorf("no %s in\n%s", want, stream)
	}
}

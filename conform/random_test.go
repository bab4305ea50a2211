package conform

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// harmful is a proxy between a client and the upstream of its own dialect. It changes one
// thing.
type harmful struct {
	upstream string
	request  func([]byte, *http.Request) []byte
	response func([]byte, http.Header) []byte
	status   int  // instead of the upstream's
	late     bool // the status comes after the upstream's request
	fidelity string
	leaks    bool // the client's key and the upstream's cookie pass
	count    atomic.Int64
}

func (h *harmful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.count.Add(1)
	d := dialectAt(r.URL.Path)
	body, _ := io.ReadAll(r.Body)
	if h.status != 0 && !h.late {
		h.refuse(w, d)
		return
	}
	if h.request != nil {
		body = h.request(body, r)
	}
	req, _ := http.NewRequestWithContext(r.Context(), http.MethodPost, h.upstream+r.URL.RequestURI(), bytes.NewReader(body))
	codecOf(d).credential(req.Header, "sk-upstream")
	if h.leaks {
		req.Header.Set("X-Client", "sk-test")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	if h.status != 0 {
		h.refuse(w, d)
		return
	}
	if h.response != nil {
		answer = h.response(answer, resp.Header)
	}
	if h.leaks {
		w.Header().Set("Set-Cookie", "canary=1")
	}
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.Header().Set("Isogloss-Fidelity", h.fidelity)
	_, _ = w.Write(answer)
}

func (h *harmful) refuse(w http.ResponseWriter, d Dialect) {
	_, body := codecOf(d).writeError(APIError{Kind: "invalid", Message: "no"})
	whole(w, h.status, "application/json", body)
}

// playThrough returns a player whose target is the proxy.
func playThrough(t *testing.T, h *harmful) *player {
	t.Helper()
	r := direct(t)
	h.upstream = r.Upstream.URL()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	r.Target.BaseURL, r.Target.Direct = server.URL, false
	r.dial()
	return &player{runner: r, strict: true, twice: true, both: true}
}

// TestRandomDialoguesHoldAgainstThemselves plays random dialogues through a proxy that changes
// nothing. A failure is a mistake in the generator, a writer, a reader or a comparison.
func TestRandomDialoguesHoldAgainstThemselves(t *testing.T) {
	y := playThrough(t, &harmful{fidelity: "exact"})
	for i := range 40 {
		d := newDialogue(1, uint64(i))
		for j, dialect := range Dialects() {
			cell := Cell{dialect, dialect, (i+j)%2 == 0}
			p := y.play(t.Context(), d, cell)
			for _, f := range p.findings {
				t.Errorf("dialogue %d, %s: %s: %.300s", i, cell, f.kind, f.text)
			}
		}
	}
}

// sampleDialogue is a dialogue of two rounds with a bit of everything.
func sampleDialogue() dialogue {
	schema := `{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"],"additionalProperties":false}`
	text := func(s string) []Piece { return []Piece{{Kind: kindText, Text: s}} }
	user := text("Question")
	user = append(user, Piece{Kind: kindImage, Image: Image{"image/png", "iVBORw0KGgo="}}, Piece{Kind: kindDocument, Name: "a.pdf", Image: Image{"application/pdf", "JVBERi0xLjQ="}})
	user[0].Cache = true
	return dialogue{
		settings: Request{Tools: []Tool{{Name: "look", About: "Looks.", Schema: schema, Strict: true}, {Name: "find", About: "Finds."}}, Choice: "auto", Serial: true,
			Max: "100", Temperature: "0.5", TopP: "0.9", TopK: "5", Stop: []string{"END"}, Format: &Format{"answer", schema, true}, Seed: "7",
			Frequency: "0.25", Presence: "0.75", Choices: "2"},
		rounds: []talk{
			{turns: []Turn{{Role: "system", Pieces: text("Rules")}, {Role: "system", Developer: true, Pieces: text("More")}, {Role: "user", Pieces: user},
				{Role: "assistant", Pieces: []Piece{{Kind: kindText, Text: "Looking"}, {Kind: kindCall, Name: "look", Args: `{"x":12345678901234567890}`, number: 1}}},
				{Role: "tool", Pieces: []Piece{{Kind: kindResult, Text: "Found", number: 1, Failed: true, Images: []Image{{"image/png", "iVBORw0KGgoA"}}}}}},
				answer: Response{Pieces: []Piece{{Kind: kindText, Text: "Answer one"}}, Stop: "length", Usage: &Usage{In: 90, Cached: 40, Written: 20, Out: 30, Think: 10},
					others: []Response{{Pieces: text("Answer two"), Stop: "end"}}}},
			{turns: []Turn{{Role: "user", Pieces: text("Again")}},
				answer: Response{Pieces: []Piece{{Kind: kindThink, Text: "Reason", Sig: "c2VhbA=="}, {Kind: kindCall, Name: "look", Args: `{"x":2.50}`, number: 2}}, Stop: "tool", Usage: &Usage{In: 9, Out: 8}}},
			{turns: []Turn{{Role: "tool", Pieces: []Piece{{Kind: kindResult, Text: "Done", number: 2}}}},
				answer: Response{Pieces: text("End"), Stop: "end", Usage: &Usage{In: 9, Out: 8}}},
		},
	}
}

func inRequest(old, with string) *harmful {
	return &harmful{request: func(b []byte, _ *http.Request) []byte { return bytes.ReplaceAll(b, []byte(old), []byte(with)) }}
}

func inResponse(old, with string) *harmful {
	return &harmful{response: func(b []byte, _ http.Header) []byte { return bytes.ReplaceAll(b, []byte(old), []byte(with)) }}
}

// TestEveryOracleCanFail damages one thing at a time and expects the oracle for it to report it.
func TestEveryOracleCanFail(t *testing.T) {
	whole := func(d Dialect) Cell { return Cell{d, d, false} }
	stream := func(d Dialect) Cell { return Cell{d, d, true} }
	tests := []struct {
		kind string
		cell Cell
		harm *harmful
	}{
		{"status: 502", whole(Chat), &harmful{status: 502}},
		{"refused: no", whole(Chat), &harmful{status: 400}},
		{"refused: after an upstream request", whole(Gemini), &harmful{status: 400, late: true}},
		{"illegal: unknown member seeds", whole(Chat), inRequest(`"seed"`, `"seeds"`)},
		{"illegal: messages…: tool_call_id … answers no call before it", whole(Chat), inRequest(`"tool_call_id":"call_Cn1`, `"tool_call_id":"call_Cn9`)},
		{"illegal: a thinking block without signature", whole(Anthropic), inRequest(`"signature":"c2VhbA=="`, `"signature":""`)},
		{"illegal: max_output_tokens …, at least …", whole(Responses), inRequest(`"max_output_tokens":100`, `"max_output_tokens":1`)},
		{"request: user-text", whole(Chat), inRequest("Question", "Questions")},
		{"request: system", whole(Responses), inRequest("Rules", "Rule")},
		{"request: developer", whole(Chat), inRequest(`"role":"developer"`, `"role":"system"`)},
		{"request: assistant-text", whole(Gemini), inRequest("Looking", "")},
		{"request: image", whole(Anthropic), inRequest(`"data":"iVBORw0KGgo="`, `"data":"iVBORw0KGgp="`)},
		{"request: user-document", whole(Anthropic), inRequest(`JVBERi0xLjQ=`, `JVBERi0xLjU=`)},
		{"request: document-name", whole(Anthropic), inRequest(`"title":"a.pdf"`, `"title":""`)},
		{"request: call", whole(Chat), inRequest(`12345678901234567890`, `12345678901234567000`)},
		{"request: call-id", whole(Responses), inRequest(`call_Cn2`, `call_Cn3`)},
		{"request: result", whole(Chat), inRequest("Found", "found")},
		{"request: result-error", whole(Anthropic), inRequest(`"is_error":true,`, "")},
		{"request: result-image", whole(Anthropic), inRequest(`iVBORw0KGgoA`, `iVBORw0KGgoB`)},
		{"request: signature", whole(Anthropic), inRequest(`"signature":"c2VhbA=="`, `"signature":"c2VhbB=="`)},
		{"request: tools", whole(Chat), inRequest(`Looks.`, `Look.`)},
		{"request: schema", whole(Chat), inRequest(`"required":["x"],`, ``)},
		{"request: strict", whole(Anthropic), inRequest(`"strict":true`, `"strict":false`)},
		{"request: cache", whole(Anthropic), inRequest(`"cache_control"`, `"cache_x"`)},
		{"request: choice", whole(Chat), inRequest(`"tool_choice":"auto"`, `"tool_choice":"required"`)},
		{"request: serial", whole(Chat), inRequest(`"parallel_tool_calls":false`, `"parallel_tool_calls":true`)},
		{"request: max", whole(Chat), inRequest(`"max_completion_tokens":100`, `"max_completion_tokens":99`)},
		{"request: temperature", whole(Chat), inRequest(`"temperature":0.5`, `"temperature":0.6`)},
		{"request: top_p", whole(Gemini), inRequest(`"topP":0.9`, `"topP":1`)},
		{"request: stop", whole(Chat), inRequest(`["END"]`, `["ENDE"]`)},
		{"request: format-gone", whole(Gemini), inRequest(`"responseJsonSchema"`, `"logprobs"`)},
		{"request: n", whole(Chat), inRequest(`"n":2`, `"n":1`)},
		{"request: seed", whole(Chat), inRequest(`"seed":7`, `"seed":8`)},
		{"request: frequency_penalty", whole(Chat), inRequest(`0.25`, `0.26`)},
		{"request: presence_penalty", whole(Gemini), inRequest(`0.75`, `0.76`)},
		{"silent: temperature", whole(Anthropic), inRequest(`"temperature":0.5`, `"temperature":0.6`)},
		{"silent: format-strict", whole(Responses), inRequest(`"strict":true,"type":"json_schema"`, `"strict":false,"type":"json_schema"`)},
		{"reply: object, id, model or created is missing", whole(Chat), inResponse(`"object":"chat.completion"`, `"object":"x"`)},
		{"reply: usage is not whole or does not add up (RSP-…): …", whole(Responses), inResponse(`"total_tokens":120`, `"total_tokens":121`)},
		{"grammar: no … (INV-…)", stream(Chat), inResponse("data: [DONE]\n\n", "")},
		{"grammar: message_stop in state … (INV-…)", stream(Anthropic), inResponse(`"type":"message_delta"`, `"type":"ping"`)},
		{"response: text", whole(Gemini), inResponse("Answer one", "Answer 1")},
		{"response: text", stream(Anthropic), inResponse(`"text":"A"`, `"text":"B"`)},
		{"response: think", whole(Anthropic), inResponse("Reason", "Reasons")},
		{"response: signature", whole(Anthropic), inResponse("c2VhbA==", "c2VhbB==")},
		{"response: call", whole(Chat), inResponse(`2.50`, `2.5`)},
		{"response: stop", whole(Anthropic), inResponse(`"max_tokens"`, `"end_turn"`)},
		{"response: usage", whole(Anthropic), inResponse(`"output_tokens":30`, `"output_tokens":31`)},
		{"response: cached", whole(Gemini), inResponse(`"cachedContentTokenCount":40`, `"cachedContentTokenCount":4`)},
		{"response: written", whole(Chat), inResponse(`"cache_write_tokens":20`, `"cache_write_tokens":2`)},
		{"response: think-tokens", whole(Chat), inResponse(`"reasoning_tokens":10`, `"reasoning_tokens":1`)},
		{"response: choices", whole(Chat), inResponse("Answer two", "Answer 2")},
		{"response: end", stream(Gemini), inResponse("finishReason", "finish")},
		{"loud: seed.unsupported", whole(Anthropic), &harmful{fidelity: `dropped;a=0;d=1;codes="seed.unsupported"`}},
		{"secret: the client's key", whole(Chat), &harmful{leaks: true}},
		{"secret: the upstream's cookie was passed on (LIF-…)", whole(Chat), &harmful{leaks: true}},
		{"bytes: another request", whole(Chat), changing()},
		{"prefix: messages", whole(Chat), renaming()},
		{"stream: text", stream(Chat), inResponse(`"content":"Answer one"`, `"content":"Answer"`)},
		{"verbatim: bytes", whole(Chat), inRequest(`"model":"up",`, `"model":"up", `)},
	}
	covered := map[string]bool{}
	for _, c := range tests {
		oracle, _, _ := strings.Cut(c.kind, ":")
		covered[oracle] = true
		t.Run(c.kind+" "+c.cell.String(), func(t *testing.T) {
			y := playThrough(t, c.harm)
			y.strict = oracle != oracleSame
			p := y.play(t.Context(), sampleDialogue(), c.cell)
			var got []string
			for _, f := range p.findings {
				if f.kind == c.kind {
					return
				}
				got = append(got, fmt.Sprintf("%s: %.200s", f.kind, f.text))
			}
			t.Errorf("found %q", got)
		})
	}
	for _, o := range oracles() {
		if !covered[o] {
			t.Errorf("nothing shows that the oracle %s can fail", o)
		}
	}
}

// changing gives every request another member.
func changing() *harmful {
	h := &harmful{}
	h.request = func(b []byte, _ *http.Request) []byte {
		return bytes.Replace(b, []byte(`{`), fmt.Appendf(nil, `{"verbosity":"v%d",`, h.count.Load()), 1)
	}
	return h
}

// renaming names the first author after the length of the request.
func renaming() *harmful {
	return &harmful{request: func(b []byte, _ *http.Request) []byte {
		return bytes.Replace(b, []byte(`"role":"system"`), fmt.Appendf(nil, `"name":"n%d","role":"system"`, len(b)), 1)
	}}
}

// TestAReportedLossIsAllowed checks that a loss of the table passes if its code is reported.
func TestAReportedLossIsAllowed(t *testing.T) {
	h := inRequest(`"temperature":0.5`, `"temperature":0.6`)
	h.fidelity = `approximated;a=1;d=0;codes="temperature.clamped"`
	y := playThrough(t, h)
	for _, f := range y.play(t.Context(), sampleDialogue(), Cell{Anthropic, Anthropic, false}).findings {
		t.Errorf("%s: %s", f.kind, f.text)
	}
}

// TestShrink checks that a failure becomes small and stays the same.
func TestShrink(t *testing.T) {
	y := playThrough(t, inRequest("Question", "Questions"))
	cell := Cell{Chat, Chat, false}
	d, p := y.shrink(t.Context(), sampleDialogue(), cell, "request: user-text")
	if len(d.rounds) != 1 || len(d.rounds[0].turns) != 1 || len(d.rounds[0].turns[0].Pieces) != 1 || len(d.settings.Tools) != 0 {
		t.Errorf("%d rounds, %+v", len(d.rounds), d)
	}
	if len(p.findings) == 0 || p.findings[0].kind != "request: user-text" {
		t.Errorf("%v", p.findings)
	}
}

func TestDialoguesAreRepeatable(t *testing.T) {
	render := func(seed, index uint64) string {
		var b strings.Builder
		d := newDialogue(seed, index)
		for _, r := range d.rounds {
			a := d.settings
			a.Turns = r.turns
			b.Write(codecOf(Responses).writeRequest(a, "m", true))
			b.Write(codecOf(Anthropic).writeBody(r.answer))
		}
		return b.String()
	}
	for i := range uint64(20) {
		if first, again := render(5, i), render(5, i); first != again || first == render(6, i) {
			t.Errorf("dialogue %d does not depend on the seed alone", i)
		}
	}
}

// TestAnswersHaveTheRequestedChoices checks that the upstream sends as many choices as it is asked for.
func TestAnswersHaveTheRequestedChoices(t *testing.T) {
	several := 0
	for i := range uint64(300) {
		d := newDialogue(1, i)
		n := 1
		if d.settings.Choices != "" {
			n, _ = strconv.Atoi(d.settings.Choices)
		}
		for k, r := range d.rounds {
			if len(r.answer.others) != n-1 {
				t.Errorf("dialogue %d, round %d: %d choices, want %d", i, k, len(r.answer.others)+1, n)
			}
			if n > 1 && len(r.answer.calls()) > 0 {
				several++
			}
		}
	}
	if several == 0 {
		t.Error("no response has calls and several choices")
	}
}

// TestSealOfNothingIsNoSignature checks that the gateway's mark of reasoning without a seal does not pass for a signature.
func TestSealOfNothingIsNoSignature(t *testing.T) {
	sent := []Piece{{Kind: kindThink, Text: "a"}, {Kind: kindText, Text: "b", Sig: "c2VhbA=="}}
	for seal, lost := range map[string]bool{"": true, sealOfNothing: true, "aXNvZ2xvc3M6eyJnZW1pbmkiOnt9fQ==": false} {
		var d diffs
		compareSigs(&d, sent, []Piece{{Kind: kindThink, Text: "a", Sig: seal}, {Kind: kindText, Text: "b"}}, Cell{Converse, Gemini, false})
		if (len(d) > 0) != lost {
			t.Errorf("%q: %v", seal, d)
		}
	}
}

// TestLossesAreDocumented checks that every row has codes of the documentation.
func TestLossesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/protocols/codes.md")
	if err != nil {
		t.Fatal(err)
	}
	known := func(codes ...string) {
		for _, code := range codes {
			if !strings.Contains(string(page), "`"+code+"`") {
				t.Errorf("%s is not in codes.md", code)
			}
		}
	}
	for _, r := range refusals {
		known(r.code)
	}
	for _, n := range notes {
		known(n.codes...)
	}
	for _, l := range losses {
		known(l.codes...)
		if err := l.cells.check(); err != nil || l.row == "" || len(l.features) == 0 {
			t.Errorf("%+v: %v", l, err)
		}
	}
	for _, g := range gaps {
		if err := g.cells.check(); err != nil || g.about == "" {
			t.Errorf("%+v: %v", g, err)
		}
	}
}

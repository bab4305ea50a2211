package engines

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/gosdk"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// features are the columns of the table.
func features() []feature {
	hello := gosdk.Request{Prompt: "Say hello number 2.", MaxTokens: 40}
	short := gosdk.Request{Prompt: "Tell me of Paris.", MaxTokens: 4}
	stop := gosdk.Request{Prompt: "Tell me of Paris.", MaxTokens: 30, Stop: []string{"melting"}}
	data := gosdk.Request{Prompt: "Tell me of Paris.", MaxTokens: 60, Schema: placeSchema()}
	likely := gosdk.Request{Prompt: "Tell me of Paris.", MaxTokens: 4, Logprobs: true}
	long := gosdk.Request{Prompt: "Tell me of Paris. " + strings.Repeat("Then tell me more of it. ", 10), MaxTokens: 2}
	tooLong := gosdk.Request{Prompt: strings.Repeat("word ", 3000), MaxTokens: 2}
	tool := gosdk.Request{Prompt: "What is the weather in Paris?", MaxTokens: 60, Tool: "get_weather"}
	forced := tool
	forced.ForceTool = true
	story := gosdk.Request{Prompt: "Write a long story about a king.", MaxTokens: 1500}

	return []feature{
		{name: "text", ask: hello, hold: checkText},
		{name: "stream", ask: hello, hold: checkStream},
		{name: "usage", ask: hello, hold: checkUsage},
		{name: "length", ask: short, hold: checkLength, place: lengthPlace, proof: proveLength},
		{name: "stop", ask: stop, hold: checkStop, place: stopPlace, code: "stop."},
		{name: "structured", ask: data, hold: checkStructured, place: structuredPlace, proof: proveStructured},
		{name: "logprobs", ask: likely, hold: checkLogprobs, place: logprobsPlace, code: "logprobs", proof: proveLogprobs},
		{name: "cache hits", ask: long, hold: checkCache},
		{name: "overflow", ask: tooLong, hold: checkOverflow},
		{name: "tool", ask: tool, by: "calls", hold: checkTool},
		{name: "forced tool", ask: forced, by: "calls", hold: checkTool},
		{name: "cancel", ask: story, hold: checkCancel},
	}
}

// checkText: the engine gives the same text through every dialect, also where only the
// upstream is asked to stream.
func checkText(t *testing.T, c *cell) {
	own := c.direct(t, c.ask)
	for _, model := range []string{c.ask.Model, c.ask.Model + live} {
		q := c.ask
		q.Model = model
		if a := c.client.must(t, q); a.Text != own.Text || a.Finish != ended {
			t.Errorf("%s: the client has %q, which ends by %s; the engine says %q", model, a.Text, a.Finish, own.Text)
		}
	}
}

// checkStream: streamed, it is the same text, and comes in the pieces that the engine writes.
func checkStream(t *testing.T, c *cell) {
	own := c.direct(t, c.ask)
	var pieces []string
	q := c.ask
	q.Stream, q.Piece = true, func(s string) bool { pieces = append(pieces, s); return false }
	a := c.client.must(t, q)
	if a.Text != own.Text || a.Finish != ended {
		t.Errorf("the client has %q, which ends by %s; the engine says %q", a.Text, a.Finish, own.Text)
	}
	if strings.Join(pieces, "") != a.Text || len(pieces) < 5 {
		t.Errorf("the pieces are %q and have to make up %q in at least five", pieces, a.Text)
	}
}

// checkUsage: the client is told what the engine counts.
func checkUsage(t *testing.T, c *cell) {
	c.each(t, func(t *testing.T, q gosdk.Request) {
		var a gosdk.Answer
		own := c.counted(t, func() { a = c.client.must(t, q) })
		if a.Usage != own || a.Usage.Output == 0 {
			t.Errorf("the client has %+v, the engine counted %+v\n%s", a.Usage, own, c.client.last)
		}
	})
}

// checkLength: an answer that was cut off says so.
func checkLength(t *testing.T, c *cell) {
	c.each(t, func(t *testing.T, q gosdk.Request) {
		if a := c.client.must(t, q); a.Finish != cut || a.Usage.Output != q.MaxTokens {
			t.Errorf("the answer ends by %s after %d tokens, want %s after %d\n%s", a.Finish, a.Usage.Output, cut, q.MaxTokens, c.client.last)
		}
	})
}

// lengthPlace: over Responses the engine calls an answer complete that it cut off.
func lengthPlace(_, upstream string) where {
	if upstream == "openai-responses" {
		return ignored
	}
	return works
}

func proveLength(t *testing.T, s *stage) {
	r := testrig.Parse(s.engine.Post(t, "/v1/responses", `{"model":"smol","input":"Tell me of Paris.","max_output_tokens":4,"temperature":0}`))
	if r.Str("status") != "completed" || r.Obj("usage").Num("output_tokens") != 4 {
		t.Errorf("the engine tells now how it ended: %s; hold the gateway to it", testrig.Compact(r))
	}
}

// checkStop: the answer ends before the given text.
func checkStop(t *testing.T, c *cell) {
	q := c.ask
	q.Stop = nil
	want, _, found := strings.Cut(c.direct(t, q).Text, c.ask.Stop[0])
	if !found {
		t.Fatalf("the engine does not say %q, so this shows nothing", c.ask.Stop[0])
	}
	c.each(t, func(t *testing.T, q gosdk.Request) {
		if a := c.client.must(t, q); a.Text != want || a.Finish != ended {
			t.Errorf("the client has %q, which ends by %s, want %q\n%s", a.Text, a.Finish, want, c.client.last)
		}
	})
}

// stopPlace: Responses has no stop sequences.
func stopPlace(client, upstream string) where {
	switch {
	case client == "openai-responses":
		return nowhere
	case upstream == "openai-responses":
		return lost
	}
	return works
}

// placeSchema is one that the engine would not follow by itself.
func placeSchema() map[string]any {
	return map[string]any{
		"type": "object", "required": []string{"city", "old"}, "additionalProperties": false,
		"properties": map[string]any{
			"city": map[string]any{"type": "string", "enum": []string{"Paris", "London"}}, "old": map[string]any{"type": "boolean"},
		},
	}
}

// checkStructured: the engine writes what the schema allows and nothing else.
func checkStructured(t *testing.T, c *cell) {
	c.each(t, func(t *testing.T, q gosdk.Request) {
		a := c.client.must(t, q)
		var got struct {
			City string
			Old  *bool
		}
		d := json.NewDecoder(strings.NewReader(a.Text))
		d.DisallowUnknownFields()
		if err := d.Decode(&got); err != nil || got.Old == nil || got.City != "Paris" && got.City != "London" {
			t.Errorf("%q is not what the schema allows: %v\n%s", a.Text, err, c.client.last)
		}
	})
}

// structuredPlace: the engine follows a schema over Chat only.
func structuredPlace(_, upstream string) where {
	if upstream != "openai-chat" {
		return ignored
	}
	return works
}

func proveStructured(t *testing.T, s *stage) {
	schema := testrig.Compact(placeSchema())
	for path, body := range map[string]string{
		"/v1/responses": `{"model":"smol","input":"Tell me of Paris.","max_output_tokens":4,"text":{"format":{"type":"json_schema","name":"answer","strict":true,"schema":` + schema + `}}}`,
		"/v1/messages":  `{"model":"smol","messages":[{"role":"user","content":"Tell me of Paris."}],"max_tokens":4,"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}}`,
	} {
		if answer := s.engine.Post(t, path, body); strings.Contains(string(answer), `{\"`) {
			t.Errorf("the engine follows a schema at %s now: %s; hold the gateway to it", path, answer)
		}
	}
}

// checkLogprobs: the client has the engine's own figures.
func checkLogprobs(t *testing.T, c *cell) {
	own := c.direct(t, c.ask).Logprobs
	c.each(t, func(t *testing.T, q gosdk.Request) {
		got := c.client.must(t, q).Logprobs
		if len(got) != q.MaxTokens || len(own) != q.MaxTokens {
			t.Fatalf("the client has %d and the engine %d, want %d\n%s", len(got), len(own), q.MaxTokens, c.client.last)
		}
		for i := range got {
			if d := got[i].Value - own[i].Value; got[i].Token != own[i].Token || got[i].Top != 2 || d*d > 1e-4 {
				t.Errorf("the client has %+v, the engine %+v", got[i], own[i])
			}
		}
	})
}

// logprobsPlace: Messages has none, and the engine has them over Chat only.
func logprobsPlace(client, upstream string) where {
	switch {
	case client == "anthropic":
		return nowhere
	case upstream == "openai-responses":
		return ignored
	case upstream == "anthropic":
		return lost
	}
	return works
}

func proveLogprobs(t *testing.T, s *stage) {
	ask := `{"model":"smol","input":"Tell me of Paris.","max_output_tokens":4,"top_logprobs":2,"include":["message.output_text.logprobs"]}`
	res, err := http.Post(s.engine.URL+"/v1/responses", "application/json", strings.NewReader(ask))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusBadRequest { // "top_logprobs requires logprobs to be set to true", which Responses does not have
		t.Errorf("the engine has them over Responses now: %s; hold the gateway to it", res.Status)
	}
}

// checkCache: what the engine took from its cache the second time is in the client's
// own field for it.
func checkCache(t *testing.T, c *cell) {
	c.each(t, func(t *testing.T, q gosdk.Request) {
		q.Prompt = t.Name() + ". " + q.Prompt // which nobody has asked yet
		c.client.must(t, q)
		var a gosdk.Answer
		own := c.counted(t, func() { a = c.client.must(t, q) })
		if a.Usage != own || a.Usage.Cached < a.Usage.Input/2 {
			t.Errorf("the client has %+v, the engine counted %+v, and most has to be cached\n%s", a.Usage, own, c.client.last)
		}
	})
}

// checkOverflow: a gosdk.Request that is too long is refused in the words that the client's
// vendor has for it.
func checkOverflow(t *testing.T, c *cell) {
	c.each(t, func(t *testing.T, q gosdk.Request) {
		if _, err := c.client.ask(t.Context(), q); err == nil {
			t.Fatal("the client was not told of an error")
		}
		status, _, body := c.client.last.response()
		e := testrig.Parse([]byte(body)).Obj("error")
		ok := map[string]bool{
			"openai-chat":      e.Str("type") == "invalid_request_error" && e.Str("code") == "context_length_exceeded",
			"openai-responses": e.Str("type") == "invalid_request_error" && e.Str("code") == "context_length_exceeded",
			"anthropic":        e.Str("type") == "invalid_request_error" && strings.HasPrefix(e.Str("message"), "prompt is too long"),
			"gemini":           e.Str("status") == "INVALID_ARGUMENT" && strings.Contains(e.Str("message"), "input token count"),
		}
		if status != http.StatusBadRequest || !ok[c.client.Dialect] {
			t.Errorf("the client got %d %s", status, body)
		}
	})
}

// checkTool: what the engine finds in the text is a call in the client's dialect.
func checkTool(t *testing.T, c *cell) {
	c.each(t, func(t *testing.T, q gosdk.Request) {
		a := c.client.must(t, q)
		if want := `{"city":"Paris"}`; len(a.Calls) != 1 || a.Calls[0].Name != "get_weather" || testrig.Compact(testrig.Parse([]byte(a.Calls[0].Args))) != want || a.Finish != called || a.Text != "" {
			t.Errorf("the client has the calls %q and the text %q, which ends by %s; want %s\n%s", a.Calls, a.Text, a.Finish, want, c.client.last)
		}
	})
}

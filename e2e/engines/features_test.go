package engines

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// features are the columns of the table.
func features() []feature {
	hello := question{text: "Say hello number 2.", tokens: 40}
	short := question{text: "Tell me of Paris.", tokens: 4}
	stop := question{text: "Tell me of Paris.", tokens: 30, stop: []string{"melting"}}
	data := question{text: "Tell me of Paris.", tokens: 60, schema: placeSchema()}
	likely := question{text: "Tell me of Paris.", tokens: 4, logprobs: true}
	long := question{text: "Tell me of Paris. " + strings.Repeat("Then tell me more of it. ", 10), tokens: 2}
	tooLong := question{text: strings.Repeat("word ", 3000), tokens: 2}
	tool := question{text: "What is the weather in Paris?", tokens: 60, tool: "get_weather"}
	forced := tool
	forced.force = true
	story := question{text: "Write a long story about a king.", tokens: 1500}

	return []feature{
		{name: "text", ask: hello, hold: holdText},
		{name: "stream", ask: hello, hold: holdStream},
		{name: "usage", ask: hello, hold: holdUsage},
		{name: "length", ask: short, hold: holdLength, place: lengthPlace, proof: proveLength},
		{name: "stop", ask: stop, hold: holdStop, place: stopPlace, code: "stop."},
		{name: "structured", ask: data, hold: holdStructured, place: structuredPlace, proof: proveStructured},
		{name: "logprobs", ask: likely, hold: holdLogprobs, place: logprobsPlace, code: "logprobs", proof: proveLogprobs},
		{name: "cache hits", ask: long, hold: holdCache},
		{name: "overflow", ask: tooLong, hold: holdOverflow},
		{name: "tool", ask: tool, by: "calls", hold: holdTool},
		{name: "forced tool", ask: forced, by: "calls", hold: holdTool},
		{name: "cancel", ask: story, hold: holdCancel},
	}
}

// holdText: the engine gives the same text through every dialect, also where only the
// upstream is asked to stream.
func holdText(t *testing.T, c *cell) {
	own := c.direct(t, c.ask)
	for _, model := range []string{c.ask.model, c.ask.model + live} {
		q := c.ask
		q.model = model
		if a := c.client.must(t, q); a.text != own.text || a.finish != ended {
			t.Errorf("%s: the client has %q, which ends by %s; the engine says %q", model, a.text, a.finish, own.text)
		}
	}
}

// holdStream: streamed, it is the same text, and comes in the pieces that the engine writes.
func holdStream(t *testing.T, c *cell) {
	own := c.direct(t, c.ask)
	var pieces []string
	q := c.ask
	q.stream, q.piece = true, func(s string) { pieces = append(pieces, s) }
	a := c.client.must(t, q)
	if a.text != own.text || a.finish != ended {
		t.Errorf("the client has %q, which ends by %s; the engine says %q", a.text, a.finish, own.text)
	}
	if strings.Join(pieces, "") != a.text || len(pieces) < 5 {
		t.Errorf("the pieces are %q and have to make up %q in at least five", pieces, a.text)
	}
}

// holdUsage: the client is told what the engine counts.
func holdUsage(t *testing.T, c *cell) {
	c.each(t, func(t *testing.T, q question) {
		var a answer
		own := c.counted(t, func() { a = c.client.must(t, q) })
		if a.usage != own || a.usage.Out == 0 {
			t.Errorf("the client has %+v, the engine counted %+v\n%s", a.usage, own, c.client.heard)
		}
	})
}

// holdLength: an answer that was cut off says so.
func holdLength(t *testing.T, c *cell) {
	c.each(t, func(t *testing.T, q question) {
		if a := c.client.must(t, q); a.finish != cut || a.usage.Out != q.tokens {
			t.Errorf("the answer ends by %s after %d tokens, want %s after %d\n%s", a.finish, a.usage.Out, cut, q.tokens, c.client.heard)
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
	r := rig.Parse(s.engine.Post(t, "/v1/responses", `{"model":"smol","input":"Tell me of Paris.","max_output_tokens":4,"temperature":0}`))
	if r.Str("status") != "completed" || r.Obj("usage").Num("output_tokens") != 4 {
		t.Errorf("the engine tells now how it ended: %s; hold the gateway to it", rig.Compact(r))
	}
}

// holdStop: the answer ends before the given text.
func holdStop(t *testing.T, c *cell) {
	q := c.ask
	q.stop = nil
	want, _, found := strings.Cut(c.direct(t, q).text, c.ask.stop[0])
	if !found {
		t.Fatalf("the engine does not say %q, so this shows nothing", c.ask.stop[0])
	}
	c.each(t, func(t *testing.T, q question) {
		if a := c.client.must(t, q); a.text != want || a.finish != ended {
			t.Errorf("the client has %q, which ends by %s, want %q\n%s", a.text, a.finish, want, c.client.heard)
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

// holdStructured: the engine writes what the schema allows and nothing else.
func holdStructured(t *testing.T, c *cell) {
	c.each(t, func(t *testing.T, q question) {
		a := c.client.must(t, q)
		var got struct {
			City string
			Old  *bool
		}
		d := json.NewDecoder(strings.NewReader(a.text))
		d.DisallowUnknownFields()
		if err := d.Decode(&got); err != nil || got.Old == nil || got.City != "Paris" && got.City != "London" {
			t.Errorf("%q is not what the schema allows: %v\n%s", a.text, err, c.client.heard)
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
	schema := rig.Compact(placeSchema())
	for path, body := range map[string]string{
		"/v1/responses": `{"model":"smol","input":"Tell me of Paris.","max_output_tokens":4,"text":{"format":{"type":"json_schema","name":"answer","strict":true,"schema":` + schema + `}}}`,
		"/v1/messages":  `{"model":"smol","messages":[{"role":"user","content":"Tell me of Paris."}],"max_tokens":4,"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}}`,
	} {
		if answer := s.engine.Post(t, path, body); strings.Contains(string(answer), `{\"`) {
			t.Errorf("the engine follows a schema at %s now: %s; hold the gateway to it", path, answer)
		}
	}
}

// holdLogprobs: the client has the engine's own figures.
func holdLogprobs(t *testing.T, c *cell) {
	own := c.direct(t, c.ask).logprobs
	c.each(t, func(t *testing.T, q question) {
		got := c.client.must(t, q).logprobs
		if len(got) != q.tokens || len(own) != q.tokens {
			t.Fatalf("the client has %d and the engine %d, want %d\n%s", len(got), len(own), q.tokens, c.client.heard)
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

// holdCache: what the engine took from its cache the second time is in the client's
// own field for it.
func holdCache(t *testing.T, c *cell) {
	c.each(t, func(t *testing.T, q question) {
		q.text = t.Name() + ". " + q.text // which nobody has asked yet
		c.client.must(t, q)
		var a answer
		own := c.counted(t, func() { a = c.client.must(t, q) })
		if a.usage != own || a.usage.Cached < a.usage.In/2 {
			t.Errorf("the client has %+v, the engine counted %+v, and most has to be cached\n%s", a.usage, own, c.client.heard)
		}
	})
}

// holdOverflow: a question that is too long is refused in the words that the client's
// vendor has for it.
func holdOverflow(t *testing.T, c *cell) {
	c.each(t, func(t *testing.T, q question) {
		if _, err := c.client.ask(t.Context(), q); err == nil {
			t.Fatal("the client was not told of an error")
		}
		status, _, body := c.client.heard.last()
		e := rig.Parse([]byte(body)).Obj("error")
		ok := map[string]bool{
			"openai-chat":      e.Str("type") == "invalid_request_error" && e.Str("code") == "context_length_exceeded",
			"openai-responses": e.Str("type") == "invalid_request_error" && e.Str("code") == "context_length_exceeded",
			"anthropic":        e.Str("type") == "invalid_request_error" && strings.HasPrefix(e.Str("message"), "prompt is too long"),
			"gemini":           e.Str("status") == "INVALID_ARGUMENT" && strings.Contains(e.Str("message"), "input token count"),
		}
		if status != http.StatusBadRequest || !ok[c.client.dialect] {
			t.Errorf("the client got %d %s", status, body)
		}
	})
}

// holdTool: what the engine finds in the text is a call in the client's dialect.
func holdTool(t *testing.T, c *cell) {
	c.each(t, func(t *testing.T, q question) {
		a := c.client.must(t, q)
		if want := `get_weather{"city":"Paris"}`; len(a.calls) != 1 || a.calls[0] != want || a.finish != called || a.text != "" {
			t.Errorf("the client has the calls %q and the text %q, which ends by %s; want %s\n%s", a.calls, a.text, a.finish, want, c.client.heard)
		}
	})
}

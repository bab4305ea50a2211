package relay

import (
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestRepairedStream checks that a stream reaches the client unchanged also if its request had to be written anew: with the
// running counts, and without a time that the vendor has not sent.
func TestRepairedStream(t *testing.T) {
	const stream = `data: {"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":1,"totalTokenCount":1},"modelVersion":"m","responseId":"r"}` + "\n\n" +
		`data: {"candidates":[{"content":{"parts":[{"text":"b"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2,"totalTokenCount":3},"modelVersion":"m","responseId":"r"}` + "\n\n"
	g := newGateway(t, speaking(geminiDialect), func(g *gateway) { g.extra = append(g.extra, "gemini-3-pro") })
	g.up.Answer(streamEnd(stream, (*upstreamtest.Conn).EndStream))
	ask := `{"contents":[{"role":"user","parts":[{"text":"Go."}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"x"}}}]}]}`
	_, body, err := g.post(t, "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", ask)
	if sent := string(g.up.Last(t).Body); err != nil || body != stream || !strings.Contains(sent, "skip_thought_signature_validator") {
		t.Errorf("%v: %s; sent %s", err, body, sent)
	}
	g.wantSuccess(t)
}

// TestUnsignedCall checks that a call without a signature reaches a Gemini model that requires one with the
// documented stand-in, and that other requests are not changed.
func TestUnsignedCall(t *testing.T) {
	const (
		call   = `{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]}`
		signed = `{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"c2ln"}]}`
		result = `{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"x"}}}]}`
		again  = `{"role":"user","parts":[{"text":"Again."}]}`
	)
	for name, c := range map[string]struct {
		model, turns string
		added        bool
	}{
		"unsigned":                {"gemini-3-pro", call + "," + result, true},
		"unsigned in an old turn": {"gemini-3-pro", call + "," + result + "," + again, false},
		"signed":                  {"gemini-3-pro", signed + "," + result, false},
		"older model":             {"gemini-2.5-pro", call + "," + result, false},
	} {
		g := newGateway(t, speaking(geminiDialect), func(g *gateway) { g.extra = append(g.extra, c.model) })
		g.up.Answer(upstreamtest.JSON(http.StatusOK, sharedCase(t, "text").whole(geminiDialect)))
		ask := `{ "contents":[{"role":"user","parts":[{"text":"Go."}]},` + c.turns + `]}`
		resp, body, _ := g.post(t, "/v1beta/models/"+c.model+":generateContent", ask)
		if want := sharedCase(t, "text").whole(geminiDialect); body != want {
			t.Errorf("%s: the response was changed to %s", name, body)
		}
		sent, fidelity := string(g.up.Last(t).Body), resp.Header.Get("Isogloss-Fidelity")
		if resp.StatusCode != http.StatusOK || strings.Contains(sent, "skip_thought_signature_validator") != c.added || strings.Contains(fidelity, "seal.skipped") != c.added {
			t.Errorf("%s: %s %s, %s; sent %s", name, resp.Status, body, fidelity, sent)
		}
		if !c.added && sent != ask {
			t.Errorf("%s: the request was changed to %s", name, sent)
		}
	}
}

// TestSealOfAStream checks that the signature of a streamed call is sent with the call again, although the
// client's dialect has none.
func TestSealOfAStream(t *testing.T) {
	const (
		stream = `data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"c2ln"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2,"totalTokenCount":3},"modelVersion":"m","responseId":"r"}` + "\n\n"
		ask    = `{"model":"gemini-3-pro","stream":true,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"messages":[{"role":"user","content":"Go."}`
	)
	g := newGateway(t, speaking(geminiDialect), func(g *gateway) { g.extra = append(g.extra, "gemini-3-pro") })
	g.up.Answer(upstreamtest.Stream(stream))
	_, body, err := g.post(t, chatPath, ask+`]}`)
	_, rest, _ := strings.Cut(body, `"tool_calls":[{`)
	_, rest, _ = strings.Cut(rest, `"id":"`)
	id, _, found := strings.Cut(rest, `"`)
	if err != nil || !found {
		t.Fatalf("%v: no call in %s", err, body)
	}
	_, _, _ = g.post(t, chatPath, ask+`,{"role":"assistant","content":null,"tool_calls":[{"id":"`+id+`","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"`+id+`","content":"x"}]}`)
	if sent := string(g.up.Last(t).Body); !strings.Contains(sent, `"thoughtSignature":"c2ln"`) {
		t.Errorf("the upstream got %s", sent)
	}
}

package relay

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

const (
	countPath          = "/v1/messages/count_tokens"
	countRequest       = `{"model":"m","system":"Be brief.","messages":[{"role":"user","content":"Hi"}]}`
	geminiCountPath    = "/v1beta/models/m:countTokens"
	geminiCountRequest = `{"generateContentRequest":{"model":"models/m","systemInstruction":{"parts":[{"text":"Be brief."}]},"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}}`
)

func TestCountTokens(t *testing.T) {
	const inAnthropic, inGemini = `{"input_tokens":42}`, `{"totalTokens":42}`
	for _, c := range []struct {
		path, ask, want  string
		upstream         protocol.Name
		change           func(*gateway)
		answer           string
		sentPath, sentTo string // a part of the body
	}{
		{countPath, countRequest, inAnthropic, anthropicDialect, pinned(""), inAnthropic, countPath, countRequest},
		{countPath, countRequest, inAnthropic, anthropicDialect, pinned(newVersion), inAnthropic, countPath, `"Be brief."`},
		{countPath, countRequest, inAnthropic, geminiDialect, pinned(""), `{"totalTokens":42,"promptTokensDetails":[]}`, geminiCountPath, `"text":"Be brief."`},
		{geminiCountPath, geminiCountRequest, `{"totalTokens":42, "x":1}`, geminiDialect, pinned(""), `{"totalTokens":42, "x":1}`, geminiCountPath, geminiCountRequest},
		{geminiCountPath, geminiCountRequest, inGemini, anthropicDialect, pinned(""), inAnthropic, countPath, `Be brief.`},
		{"/v1/models/m:countTokens", geminiRequest, inGemini, anthropicDialect, pinned(""), inAnthropic, countPath, `Hi`},
	} {
		g := newGateway(t, speaking(c.upstream), c.change)
		g.up.Answer(upstreamtest.JSON(200, c.answer))
		resp, body, _ := g.post(t, c.path, c.ask, "Anthropic-Version", oldVersion)
		sent := g.up.Last(t)
		if resp.StatusCode != http.StatusOK || body != c.want || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s on %s: %s %s, want %s", c.path, c.upstream, resp.Status, body, c.want)
		}
		if sent.Path != c.sentPath || !strings.Contains(string(sent.Body), c.sentTo) || strings.Contains(string(sent.Body), `"max_tokens"`) {
			t.Errorf("%s on %s: sent %s %s", c.path, c.upstream, sent.Path, sent.Body)
		}
		g.wantSuccess(t)
	}
}

// TestCountTokensUnsupported checks that counting tokens on an upstream that cannot is
// rejected in the client's dialect, with the status after which clients count locally and
// without a retry.
func TestCountTokensUnsupported(t *testing.T) {
	for path, c := range map[string]struct {
		dialect   protocol.Name
		ask, word string
	}{countPath: {anthropicDialect, countRequest, "not_supported"}, geminiCountPath: {geminiDialect, geminiCountRequest, "UNIMPLEMENTED"}} {
		for _, upstream := range []protocol.Name{chatDialect} {
			g := newGateway(t, speaking(upstream))
			resp, body, _ := g.post(t, path, c.ask)
			f := readFault(t, c.dialect, body)
			if resp.StatusCode != http.StatusNotImplemented || resp.Header.Get("X-Should-Retry") != "false" || f.word != c.word || !strings.Contains(f.message, string(upstream)) || !strings.HasSuffix(f.message, "no equivalent of "+path) || len(g.up.Requests()) > 0 {
				t.Errorf("%s on %s: %s %s", path, upstream, resp.Status, body)
			}
		}
	}
	g := newGateway(t, speaking(geminiDialect)) // an error, and a malformed response
	g.up.Answer(upstreamtest.JSON(429, errorBody(geminiDialect, "x", "busy", "slow down")))
	if resp, body, _ := g.post(t, countPath, countRequest); resp.StatusCode != http.StatusTooManyRequests || readFault(t, anthropicDialect, body).message != "slow down" {
		t.Errorf("%s %s", resp.Status, body)
	}
	g.up.Answer(upstreamtest.JSON(200, `{"nothing":1}`))
	if resp, body, _ := g.post(t, countPath, countRequest); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("%s %s", resp.Status, body)
	}
}

func TestEmbeddingsOverGemini(t *testing.T) {
	const vectors = `{"embeddings":[{"values":[0.5,-1e-3]},{"values":[1,2]}],"usageMetadata":{"promptTokenCount":7}}`
	for name, c := range map[string]struct{ ask, answer, want, sent string }{
		"texts": {`{"model":"m","input":["a","b"],"dimensions":2}`, vectors,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1e-3]},{"object":"embedding","index":1,"embedding":[1,2]}],"model":"m","usage":{"prompt_tokens":7,"total_tokens":7}}`,
			`{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]},"outputDimensionality":2},{"model":"models/m","content":{"parts":[{"text":"b"}]},"outputDimensionality":2}]}`},
		"a text": {`{"model":"m","input":"a","encoding_format":"float"}`, `{"embeddings":[{"values":[0.25]}]}`,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.25]}],"model":"m","usage":null}`,
			`{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]}}]}`},
		"base64": {`{"model":"m","input":"a","encoding_format":"base64"}`, `{"embeddings":[{"values":[1,-2.5]}]}`,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":"AACAPwAAIMA="}],"model":"m","usage":null}`,
			`{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]}}]}`},
	} {
		g := newGateway(t, speaking(geminiDialect))
		g.up.Answer(upstreamtest.JSON(200, c.answer))
		resp, body, _ := g.post(t, "/v1/embeddings", c.ask)
		sent := g.up.Last(t)
		if resp.StatusCode != http.StatusOK || body != c.want || resp.Header.Get("Isogloss-Fidelity") != "exact" {
			t.Errorf("%s: %s %s", name, resp.Status, body)
		}
		if sent.Path != "/v1beta/models/m:batchEmbedContents" || string(sent.Body) != c.sent {
			t.Errorf("%s: sent %s %s", name, sent.Path, sent.Body)
		}
		if name == "texts" {
			g.wantLine(t, `"input_tokens":7`)
		}
	}
}

func TestEmbeddingsThatCannotBeTranslated(t *testing.T) {
	for _, c := range []struct{ ask, mode, says string }{
		{`{"model":"m","input":[1,2]}`, "", "token ids"},
		{`{"model":"m","input":[[1,2],[3]]}`, "", "token ids"},
		{`{"model":"m","input":["a",null]}`, "", "list of texts"},
		{`{"model":"m","input":[]}`, "", "list of texts"},
		{`{"model":"m"}`, "", "list of texts"},
		{`{"model":"m","input":"a","encoding_format":"hex"}`, "", "base64"},
		{`{"model":"m","input":"a","dimensions":"many"}`, "", "integer"},
		{`{"model":"m","input":"a","dimensions":0}`, "", "integer"},
		{`{"model":"m","input":"a","user":"u"}`, "strict", "user"},
	} {
		g := newGateway(t, speaking(geminiDialect))
		resp, body, _ := g.post(t, "/v1/embeddings", c.ask, exchange.ModeHeader, c.mode)
		if f := readFault(t, chatDialect, body); resp.StatusCode != http.StatusBadRequest || !strings.Contains(f.message, c.says) || len(g.up.Requests()) > 0 {
			t.Errorf("%s: %s %s", c.ask, resp.Status, body)
		}
	}
	for _, answer := range []string{`{"embeddings":[]}`, `{"embeddings":[{"values":[1]},{"values":[2]}]}`, `{}`, `no`, `{"embeddings":[{"values":"x"}]}`} {
		g := newGateway(t, speaking(geminiDialect))
		g.up.Answer(upstreamtest.JSON(200, answer))
		if resp, body, _ := g.post(t, "/v1/embeddings", `{"model":"m","input":"a","encoding_format":"base64"}`); resp.StatusCode != http.StatusBadGateway {
			t.Errorf("%s: %s %s", answer, resp.Status, body)
		}
	}
}

func TestGeminiEmbeddings(t *testing.T) {
	const one, batch = "/v1beta/models/m:embedContent", "/v1/models/m:batchEmbedContents"
	const askOne = `{"content":{"parts":[{"text":"a"}]},"taskType":"RETRIEVAL_QUERY","outputDimensionality":2}`
	const askBatch = `{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]}},{"model":"models/m","content":{"parts":[{"text":"b"}]}}]}`
	for name, c := range map[string]struct{ path, ask, answer, want, sent, fidelity string }{
		"one": {one, askOne, `{"data":[{"index":0,"embedding":[1,2.50]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`,
			`{"embedding":{"values":[1,2.50]},"usageMetadata":{"promptTokenCount":3}}`,
			`{"model":"m","input":["a"],"dimensions":2,"encoding_format":"float"}`, `dropped;a=0;d=1;codes="embeddings.task_type"`},
		"several, out of order": {batch, askBatch, `{"data":[{"index":1,"embedding":[2]},{"index":0,"embedding":[1]}]}`,
			`{"embeddings":[{"values":[1]},{"values":[2]}]}`,
			`{"model":"m","input":["a","b"],"encoding_format":"float"}`, "exact"},
	} {
		g := newGateway(t, speaking(chatDialect))
		g.up.Answer(upstreamtest.JSON(200, c.answer))
		resp, body, _ := g.post(t, c.path, c.ask)
		sent := g.up.Last(t)
		if resp.StatusCode != http.StatusOK || body != c.want || resp.Header.Get("Isogloss-Fidelity") != c.fidelity {
			t.Errorf("%s: %s %s %s", name, resp.Status, body, resp.Header.Get("Isogloss-Fidelity"))
		}
		if sent.Path != "/v1/embeddings" || string(sent.Body) != c.sent {
			t.Errorf("%s: sent %s %s", name, sent.Path, sent.Body)
		}
		if resp, body, _ := g.post(t, c.path, c.ask, exchange.ModeHeader, "strict"); (resp.StatusCode == http.StatusBadRequest) != (c.fidelity != "exact") {
			t.Errorf("%s, strict: %s %s", name, resp.Status, body)
		}

		g = newGateway(t, speaking(geminiDialect)) // the verbatim lane does not parse the body
		g.up.Answer(upstreamtest.JSON(200, `{"embedding":{"values":[1] } }`))
		if _, body, _ := g.post(t, c.path, c.ask); body != `{"embedding":{"values":[1] } }` || string(g.up.Last(t).Body) != c.ask || g.up.Last(t).Path != c.path {
			t.Errorf("%s: %s %s", name, body, g.up.Last(t).Path)
		}
	}
	for _, answer := range []string{`{"data":[]}`, `{"data":[{"embedding":"AACA"}]}`, `[]`} {
		g := newGateway(t, speaking(chatDialect))
		g.up.Answer(upstreamtest.JSON(200, answer))
		if resp, body, _ := g.post(t, one, askOne); resp.StatusCode != http.StatusBadGateway || readFault(t, geminiDialect, body).message == "" {
			t.Errorf("%s: %s %s", answer, resp.Status, body)
		}
	}
	g := newGateway(t, speaking(anthropicDialect))
	if resp, body, _ := g.post(t, one, askOne); resp.StatusCode != http.StatusBadRequest || !strings.Contains(readFault(t, geminiDialect, body).message, "embedContent") {
		t.Errorf("%s %s", resp.Status, body)
	}
}

// TestOtherGeminiVerbs checks that verbs that only Gemini has are forwarded unchanged.
func TestOtherGeminiVerbs(t *testing.T) {
	for _, verb := range []string{"predict", "batchGenerateContent", "predictLongRunning", "asyncBatchEmbedContent"} {
		g := newGateway(t, speaking(geminiDialect))
		g.up.Answer(upstreamtest.JSON(200, `{"done": true}`))
		path := "/v1beta/models/m:" + verb
		if resp, body, _ := g.post(t, path, `{"a": 1}`); resp.StatusCode != http.StatusOK || body != `{"done": true}` || string(g.up.Last(t).Body) != `{"a": 1}` || g.up.Last(t).Path != path {
			t.Errorf("%s: %s %s", verb, resp.Status, body)
		}
		g = newGateway(t, speaking(chatDialect))
		if resp, body, _ := g.post(t, path, `{"a": 1}`); resp.StatusCode != http.StatusBadRequest || !strings.Contains(readFault(t, geminiDialect, body).message, fmt.Sprint(chatDialect)) {
			t.Errorf("%s: %s %s", verb, resp.Status, body)
		}
	}
}

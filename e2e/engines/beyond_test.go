package engines

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/e2e/gosdk"
	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// TestBeyond is of what is not in every dialect: embeddings, counting, and what the
// engine refuses.
func TestBeyond(t *testing.T) {
	s := newStage(t)
	t.Run("embeddings", s.checkEmbeddings)
	t.Run("count_tokens", s.checkCounting)
	t.Run("logged", s.checkLogged)
	for _, u := range []string{"openai-chat", "anthropic"} { // over Responses it is the engine's, which keeps nothing
		t.Run("a named past/"+u, func(t *testing.T) { s.checkNamed(t, "real-"+u) })
	}
	for _, c := range s.clients {
		for _, u := range upstreams {
			t.Run("a picture/"+c.Dialect+" on "+u, func(t *testing.T) { s.checkPicture(t, c.Dialect, u) })
		}
	}
}

// checkEmbeddings: the gateway gives out the engine's own vectors, in both forms.
func (s *stage) checkEmbeddings(t *testing.T) {
	texts := []string{"The king is old.", "Rain."}
	var own struct {
		Data []struct{ Embedding []float64 }
	}
	if err := json.Unmarshal(s.engine.Post(t, "/v1/embeddings", testrig.Compact(map[string]any{"model": s.engine.Model, "input": texts})), &own); err != nil {
		t.Fatal(err)
	}
	sdk := gosdk.OpenAI(gosdk.Options{BaseURL: s.gateway.URL + "/v1", Key: rig.ClientKey, HTTP: http.DefaultClient})
	got, err := sdk.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: "real-openai-chat", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: texts},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Data) != len(texts) || len(own.Data) != len(texts) || int(got.Usage.PromptTokens) != s.engine.Tokens(t, texts[0])+s.engine.Tokens(t, texts[1]) {
		t.Fatalf("%d vectors and %d tokens", len(got.Data), got.Usage.PromptTokens)
	}
	for i := range texts {
		if !slices.Equal(got.Data[i].Embedding, own.Data[i].Embedding) || len(own.Data[i].Embedding) != 576 {
			t.Errorf("the vector of %q is not the engine's", texts[i])
		}
	}
}

// checkCounting: the engine counts for Messages, and what it counts is what it then reads.
func (s *stage) checkCounting(t *testing.T) {
	messages := s.clients[2]
	q := gosdk.Request{Model: "real-anthropic", Prompt: "Say hello number 2.", MaxTokens: 1}
	counted, err := messages.CountTokens(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if read := s.counted(t, func() { messages.must(t, q) }); counted != read.Input {
		t.Errorf("the engine counted %d tokens and then read %d", counted, read.Input)
	}
}

// checkNamed: whoever names the answer before gets the text, and pays for the tokens, that
// one gets who says it all again, three questions long.
func (s *stage) checkNamed(t *testing.T, model string) {
	sdk := gosdk.OpenAI(gosdk.Options{BaseURL: s.gateway.URL + "/v1", Key: rig.ClientKey, HTTP: http.DefaultClient})
	questions := []string{"Say hello number 4.", "And number 5?", "Which came first?"}
	ask := func(p responses.ResponseNewParams) *responses.Response {
		t.Helper()
		p.Model, p.MaxOutputTokens, p.Temperature = model, openai.Int(8), openai.Float(0)
		r, err := sdk.Responses.New(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var said responses.ResponseInputParam
	var before string
	for i, text := range questions {
		said = append(said, responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser))
		whole := ask(responses.ResponseNewParams{Input: responses.ResponseNewParamsInputUnion{OfInputItemList: said}, Store: openai.Bool(false)})
		p := responses.ResponseNewParams{Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}}
		if before != "" {
			p.PreviousResponseID = openai.String(before)
		}
		named := ask(p)
		if named.OutputText() != whole.OutputText() || named.OutputText() == "" || named.Usage.InputTokens != whole.Usage.InputTokens || named.PreviousResponseID != before {
			t.Errorf("question %d: %q for %d tokens after %q, want %q for %d", i+1, named.OutputText(), named.Usage.InputTokens, named.PreviousResponseID, whole.OutputText(), whole.Usage.InputTokens)
		}
		said = append(said, responses.ResponseInputItemParamOfMessage(whole.OutputText(), responses.EasyInputMessageRoleAssistant))
		before = named.ID
	}
}

// checkLogged: the gateway's log has one line for each request, and the tokens in it add
// up to what the engine counts.
func (s *stage) checkLogged(t *testing.T) {
	before := len(s.gateway.Log())
	asked := 0
	own := s.counted(t, func() {
		for _, c := range s.clients {
			for _, u := range upstreams {
				for _, stream := range []bool{false, true} {
					c.must(t, gosdk.Request{Model: "real-" + u, Prompt: "Say hello number 2.", MaxTokens: 3, Stream: stream})
					asked++
				}
			}
		}
	})
	var logged gosdk.Usage
	lines := 0
	_ = testrig.Until(t.Context(), 5*time.Second, "", func() bool { // a line may come after the client has its answer
		logged, lines = s.logged(before)
		return lines >= asked
	})
	if lines != asked || logged != own {
		t.Errorf("the log has %d lines for %d requests and %+v tokens; the engine counted %+v", lines, asked, logged, own)
	}
}

// logged returns the tokens in the gateway's log from an offset on, and the number of
// lines with tokens.
func (s *stage) logged(from int) (sum gosdk.Usage, lines int) {
	for line := range strings.Lines(s.gateway.Log()[from:]) {
		if o := testrig.Parse([]byte(line)); o.Str("msg") == "exchange" {
			lines++
			sum.Input += o.Num("input_tokens") + o.Num("cache_read_tokens")
			sum.Cached += o.Num("cache_read_tokens")
			sum.Output += o.Num("output_tokens")
		}
	}
	sum.Total = sum.Input + sum.Output
	return sum, lines
}

// checkPicture: the engine has no eyes and says so with status 500. The client is told
// what the engine said, as its vendor tells of an error of the server.
func (s *stage) checkPicture(t *testing.T, dialect, upstream string) {
	model := "real-" + upstream
	const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	path, ask := "", ""
	switch dialect {
	case "openai-chat":
		path, ask = "/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,`+pixel+`"}}]}]}`
	case "openai-responses":
		path, ask = "/v1/responses", `{"model":"`+model+`","input":[{"role":"user","content":[{"type":"input_text","text":"What is it?"},{"type":"input_image","image_url":"data:image/png;base64,`+pixel+`"}]}]}`
	case "anthropic":
		path, ask = "/v1/messages", `{"model":"`+model+`","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`+pixel+`"}}]}]}`
	case "gemini":
		path, ask = "/v1beta/models/"+model+":generateContent", `{"contents":[{"role":"user","parts":[{"text":"What is it?"},{"inlineData":{"mimeType":"image/png","data":"`+pixel+`"}}]}]}`
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.gateway.URL+path, strings.NewReader(ask))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+rig.ClientKey)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if message := testrig.Parse(body).Obj("error").Str("message"); res.StatusCode < 500 || !strings.Contains(message, "image input is not supported") {
		t.Errorf("the client got %d %s", res.StatusCode, body)
	}
}

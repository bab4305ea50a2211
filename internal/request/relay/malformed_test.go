package relay

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// TestMalformedOutput checks that a response with a malformed call is no normal end for any client: dialects that have
// no word for it get an error (GEM-14, GEM-30). The target is not at fault.
func TestMalformedOutput(t *testing.T) {
	const gemini = `{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"MALFORMED_RESPONSE","index":0}],"responseId":"r","modelVersion":"m","usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2}}`
	const chat = `{"id":"c","object":"chat.completion%s","created":1,"model":"m","choices":[{"index":0,"%s":{"role":"assistant","content":"hi"},"finish_reason":"malformed_function_call"}]}`
	for _, upstream := range []protocol.Name{geminiDialect, chatDialect} {
		for client, words := range map[protocol.Name]string{
			chatDialect: "malformed_output", anthropicDialect: "malformed_output", responsesDialect: `"status":"failed"`,
			geminiDialect: "MALFORMED_FUNCTION_CALL", converseDialect: "malformed_tool_use",
		} {
			if client == upstream {
				continue
			}
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s on %s, %t", client, upstream, stream), func(t *testing.T) {
					g := newGateway(t, speaking(upstream))
					path, body := simpleRequest(client, stream)
					if client == converseDialect {
						path, body = "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"Hi"}]}]}`
						if stream {
							path += "-stream"
						}
					}
					answer := gemini
					switch {
					case upstream == chatDialect && stream:
						answer = "data: " + fmt.Sprintf(chat, ".chunk", "delta") + "\n\n" + sentinel
					case upstream == chatDialect:
						answer = fmt.Sprintf(chat, "", "message")
					case stream:
						answer = "data: " + answer + "\n\n"
					}
					if stream {
						g.up.Answer(streamEnd(answer, (*upstreamtest.Conn).EndStream))
					} else {
						g.up.Answer(upstreamtest.JSON(http.StatusOK, answer))
					}
					resp, got, err := g.post(t, path, body)
					if err != nil {
						t.Fatal(err)
					}
					if !strings.Contains(got, words) || strings.Contains(got, `"malformed_function_call"`) || strings.Contains(got, `"malformed_response"`) {
						t.Errorf("%s: %s", resp.Status, got)
					}
					if client == chatDialect && (strings.Contains(got, `"finish_reason":"`) || strings.Contains(got, sentinel)) {
						t.Errorf("it looks complete: %s", got)
					}
				})
			}
		}
	}
}

// TestMissingSignature checks that a request without a signature that the model requires is an error, and logged: the
// gateway has translated the request.
func TestMissingSignature(t *testing.T) {
	const answer = `{"candidates":[{"finishReason":"MISSING_THOUGHT_SIGNATURE","finishMessage":"part 3 lacks one","index":0}],"responseId":"r","modelVersion":"m","usageMetadata":{"promptTokenCount":1,"totalTokenCount":1}}`
	for _, stream := range []bool{false, true} {
		g := newGateway(t, speaking(geminiDialect))
		if stream {
			g.up.Answer(streamEnd("data: "+answer+"\n\n", (*upstreamtest.Conn).EndStream))
		} else {
			g.up.Answer(upstreamtest.JSON(http.StatusOK, answer))
		}
		path, body := simpleRequest(chatDialect, stream)
		resp, got, err := g.post(t, path, body)
		if err != nil || resp.StatusCode != http.StatusBadGateway {
			t.Fatalf("%v %s: %s", err, resp.Status, got)
		}
		if f := readFault(t, chatDialect, got); f.code != llm.MissingSignature || f.message != "part 3 lacks one" {
			t.Errorf("%+v", f)
		}
		eventually(t, "it is logged", func() bool {
			return strings.Contains(g.log.String(), `"level":"WARN","msg":"request lacks a signature that the model requires"`)
		})
	}
}

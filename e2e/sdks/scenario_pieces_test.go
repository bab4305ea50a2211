package sdks

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// upstreamName is what the configuration below makes of a model's name.
func upstreamName(model string) string {
	switch model {
	case "alias":
		return "gpt-real"
	case "embed":
		return "text-embedding-3-small"
	}
	return model
}

// chatConfiguration has one provider, which speaks Chat.
func chatConfiguration(upstreamURL string) string {
	return `
listen: %s
admin: { listen: %s }
keys: [ ` + rig.ClientKey + ` ]
providers:
  up: { protocol: openai-chat, base_url: "` + upstreamURL + `", api_key: ` + rig.UpstreamKey + ` }
models:
  gpt-real: { targets: [up/gpt-real] }
  alias: { targets: [up/gpt-real] }
  "vendor/slashed": { targets: [up/vendor/slashed] }
  embed: { targets: [up/text-embedding-3-small] }
limits: { body: 8MiB }
retries: { attempts: 1 } # so that an upstream's answer can be compared with and without the gateway
`
}

// gzipped compresses its answer if the peer allows it, as the vendor's edge does.
func gzipped(body string) rig.Step {
	return func(w http.ResponseWriter, r *http.Request, b []byte) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			rig.Whole(http.StatusOK, body)(w, r, b)
			return
		}
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = io.WriteString(z, body)
		_ = z.Close()
		rig.Whole(http.StatusOK, packed.String(), "Content-Encoding", "gzip")(w, r, b)
	}
}

// event is one chat.completion.chunk whose choices are given as JSON.
func event(choices string) string {
	return `data: {"id":"chatcmpl-s","object":"chat.completion.chunk","created":1763000000,"model":"gpt-real-0001","system_fingerprint":"fp_1","choices":[` + choices + `]}` + "\n\n"
}

// text is a chunk that brings s to choice n.
func text(n int, s string) string {
	return event(fmt.Sprintf(`{"index":%d,"delta":{"content":%s},"logprobs":null,"finish_reason":null}`, n, rig.Quote(s)))
}

// role is the first chunk of choice n.
func role(n int) string {
	return event(fmt.Sprintf(`{"index":%d,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}`, n))
}

// call is a chunk with a fragment of a tool call of choice 0, given as JSON.
func call(fragment string) string {
	return event(`{"index":0,"delta":{"tool_calls":[` + fragment + `]},"logprobs":null,"finish_reason":null}`)
}

// finish is the last chunk of choice n.
func finish(n int, reason string) string {
	return event(fmt.Sprintf(`{"index":%d,"delta":{},"logprobs":null,"finish_reason":%q}`, n, reason))
}

// answer is a whole chat completion whose choices are given as JSON. Its usage has
// every detail, and its key order and spacing are not what an encoder would write.
func answer(choices string) string {
	return `{"id": "chatcmpl-w",  "object":"chat.completion","created":1763000000,"model":"gpt-real-0001","choices":[` + choices + `],` +
		`"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":0},` +
		`"completion_tokens_details":{"reasoning_tokens":3,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},` +
		`"service_tier":"default","system_fingerprint":"fp_1"}` + "\n"
}

// says is an answer of one choice with the text s.
func says(s string) string { return answer(choice(0, rig.Quote(s), "stop")) }

func choice(n int, content, reason string) string {
	return fmt.Sprintf(`{"index":%d,"message":{"role":"assistant","content":%s,"refusal":null,"annotations":[]},"logprobs":null,"finish_reason":%q}`, n, content, reason)
}

// problem is an error body as OpenAI writes it; param and code are JSON.
func problem(message, kind, param, code string) string {
	return fmt.Sprintf(`{"error":{"message":%s,"type":%s,"param":%s,"code":%s}}`, rig.Quote(message), rig.Quote(kind), param, code)
}

// embed answers two vectors in the encoding that was asked for: the SDKs for Python
// and Node ask for base64 unless told otherwise.
func embed(w http.ResponseWriter, r *http.Request, body []byte) {
	var asked struct {
		Format string `json:"encoding_format"`
	}
	_ = json.Unmarshal(body, &asked) // a body that is no JSON is found by the comparison of requests
	var data []string
	for i, v := range [][]float32{{0.5, -0.25, 2}, {0, 1, -8}} {
		data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, i, vector(v, asked.Format)))
	}
	rig.Whole(http.StatusOK, `{"object":"list","data":[`+strings.Join(data, ",")+
		`],"model":"text-embedding-3-small","usage":{"prompt_tokens":9,"total_tokens":9}}`)(w, r, body)
}

func vector(v []float32, format string) string {
	if format != "base64" {
		return strings.ReplaceAll(fmt.Sprint(v), " ", ",")
	}
	var b []byte
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return rig.Quote(base64.StdEncoding.EncodeToString(b))
}

package all

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

// FuzzEmbeddings reads any bytes as embeddings of each dialect that translates them. What is read can be written in each.
func FuzzEmbeddings(f *testing.F) {
	for _, text := range []string{`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1,-2e5]}],"model":"m","usage":{"prompt_tokens":1,"total_tokens":1}}`, `{"embeddings":[{"values":[0.1]},{"values":[]}]}`, `{"embedding":{"values":[1e999]}}`,
		`{"data":[{"index":9223372036854775807,"embedding":"AAAA"},{"index":-1,"embedding":null}]}`, `{"data":[{"embedding":[[]]}]}`, `[]`, `{}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, from := range Dialects() {
			if from.Embed == nil {
				continue
			}
			v, err := from.Embed.DecodeResponse(text)
			if (v == nil) == (err == nil) {
				t.Fatalf("%s: %v, %v", from.Name, v, err)
			}
			for _, to := range Dialects() {
				if v == nil || to.Embed == nil {
					continue
				}
				_, _ = to.Embed.EncodeResponse(v, &llm.EmbedRequest{Inputs: []string{"x"}}) // an error is as good as a response
			}
		}
	})
}

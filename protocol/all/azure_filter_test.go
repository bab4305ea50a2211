package all_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// TestAzureFilterResults checks that what Azure's content filters found is kept in the dialect that has it, and reported
// as lost in every other.
func TestAzureFilterResults(t *testing.T) {
	const prompt, choice = `"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"jailbreak":{"detected":false,"filtered":false}}}]`, `"content_filter_results":{"hate":{"filtered":false,"severity":"low"}}`
	body := `{"id":"c1","object":"chat.completion","created":1,"model":"m",` + prompt + `,"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop",` + choice + `}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	chat := all.Codecs()[0]
	for _, c := range all.Codecs() {
		resp, err := chat.DecodeResponse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		report := &llm.Report{}
		out := string(c.EncodeResponse(resp, &llm.Request{Model: "m"}, report))
		if c.Name() == protocol.OpenAIChat {
			if len(report.Losses) > 0 || !strings.Contains(out, prompt) || !strings.Contains(out, choice) {
				t.Errorf("%s: %s %v", c.Name(), out, report.Losses)
			}
			continue
		}
		for _, path := range []string{"response.prompt_filter_results", "choices.content_filter_results"} {
			if !slices.ContainsFunc(report.Losses, func(l llm.Loss) bool {
				return strings.HasPrefix(l.Path, path[:7]) && strings.HasSuffix(l.Path, "_filter_results") && l.Verdict == llm.Dropped
			}) {
				t.Errorf("%s: %s is not among %v", c.Name(), path, report.Losses)
			}
		}
	}
}

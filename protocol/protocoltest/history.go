package protocoltest

import (
	"fmt"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// historyOf returns the next request of a client that has received answer. The client
// sends back what the protocol's documentation requires.
func historyOf(t *testing.T, name protocol.Name, answer []byte) []byte {
	t.Helper()
	var a struct {
		Choices []struct {
			Message jsontext.Value `json:"message"`
		} `json:"choices"`
		Output     jsontext.Value `json:"output"`
		Content    jsontext.Value `json:"content"`
		Candidates []struct {
			Content jsontext.Value `json:"content"`
		} `json:"candidates"`
	}
	if err := json.Unmarshal(answer, &a, lenient); err != nil {
		t.Fatal(err)
	}
	switch name {
	case protocol.OpenAIChat:
		return fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":"x"},%s,{"role":"user","content":"y"}]}`, a.Choices[0].Message)
	case protocol.OpenAIResponses:
		items := []byte(`{"role":"user","content":"x"}`)
		var output []jsontext.Value
		if err := json.Unmarshal(a.Output, &output, lenient); err != nil {
			t.Fatal(err)
		}
		for _, item := range output {
			items = append(append(items, ','), item...)
		}
		return fmt.Appendf(nil, `{"model":"m","store":false,"input":[%s,{"role":"user","content":"y"}]}`, items)
	case protocol.Anthropic:
		return fmt.Appendf(nil, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":%s},{"role":"user","content":"y"}]}`, a.Content)
	case protocol.Converse:
		var output struct {
			Message jsontext.Value `json:"message"`
		}
		if err := json.Unmarshal(a.Output, &output, lenient); err != nil {
			t.Fatal(err)
		}
		return fmt.Appendf(nil, `{"messages":[{"role":"user","content":[{"text":"x"}]},%s,{"role":"user","content":[{"text":"y"}]}]}`, output.Message)
	default:
		return fmt.Appendf(nil, `{"contents":[{"role":"user","parts":[{"text":"x"}]},%s,{"role":"user","parts":[{"text":"y"}]}]}`, a.Candidates[0].Content)
	}
}

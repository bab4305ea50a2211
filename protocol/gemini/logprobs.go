package gemini

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
)

// tokenLogprob is a token of OpenAI's list of log probabilities. The number is kept as
// it is written.
type tokenLogprob struct {
	Token   string         `json:"token"`
	Logprob jsontext.Value `json:"logprob"`
	Top     []tokenLogprob `json:"top_logprobs"`
}

// logprobsOf are the lists of all of a choice's texts, in one.
func logprobsOf(blocks []llm.Block) string {
	var lists []string
	for _, b := range blocks {
		var list llm.Raw
		switch b := b.(type) {
		case *llm.Text:
			list = b.Logprobs
		case *llm.Refusal:
			list = b.Logprobs
		}
		if inner := strings.TrimSpace(string(list)); len(inner) > len("[]") {
			lists = append(lists, inner[1:len(inner)-1])
		}
	}
	return strings.Join(lists, ",")
}

// appendLogprobs writes the items of such a list as Google has them: those that were
// said in one list and the likeliest of each place in another. What is no such list
// has no form here.
func appendLogprobs(b []byte, items string) []byte {
	var tokens []tokenLogprob
	if items == "" || json.Unmarshal([]byte("["+items+"]"), &tokens, lenient) != nil {
		return b
	}
	b = append(b, `,"logprobsResult":{"topCandidates":[`...)
	for i, t := range tokens {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendTokens(append(b, `{"candidates":`...), t.Top)
		b = append(b, '}')
	}
	b = appendTokens(append(b, `],"chosenCandidates":`...), tokens)
	return append(b, '}')
}

func appendTokens(b []byte, tokens []tokenLogprob) []byte {
	b = append(b, '[')
	for i, t := range tokens {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(append(b, `{"token":`...), t.Token)
		if t.Logprob.Kind() == '0' {
			b = append(append(b, `,"logProbability":`...), t.Logprob...)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

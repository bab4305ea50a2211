package relay

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/gemini"
)

// Nothing here has a tokenizer: every vendor has its own and few publish them. What
// has to be known before a provider has counted is estimated from bytes.
const (
	bytesPerToken = 4       // of text, when what was said is counted
	promptBytes   = 2       // of a request's body, when it is reserved for: code and numbers have more tokens than prose
	tokenBytes    = 12      // more than this in one event is several tokens
	unboundedMost = 4 << 10 // tokens that are reserved at a time where the client sets no bound
)

// prompt is how many tokens a request's body has: at most, nearly always, and
// likely.
func (p *projection) prompt() (most, likely int64) {
	n := int64(len(p.body))
	return n/promptBytes + 1, n/bytesPerToken + 1
}

// counts reports whether the request is for a count of tokens, which no vendor
// takes money for.
func (e endpoint) counts() bool { return e.name == "count_tokens" || e.verb == gemini.CountTokens }

// most is how many tokens an answer may have, and whether the client has said so.
func (x *exchange) most() (tokens int64, bounded bool) {
	if !x.generates() {
		return 0, true
	}
	n := x.bound()
	if n <= 0 {
		return unboundedMost * x.choices(), false
	}
	return n * x.choices(), true
}

// choices is how many answers are made for the request.
func (x *exchange) choices() int64 {
	n := int64(x.ask.n)
	switch {
	case x.endpoint.dialect == protocol.Gemini:
		n = x.configured("candidateCount")
	case x.endpoint.form != nil:
		n = max(n, number(x.ask.raw("best_of"))) // made, and the best of them told
		n = min(n, maxChoices) * listed(x.ask.raw("prompt"))
	}
	return min(max(n, 1), maxChoices)
}

// maxChoices is more than any vendor makes; what is reckoned with it does not
// overflow.
const maxChoices = 1 << 16

// listed is how many prompts there are: one text, one list of tokens, or a list of
// either.
func listed(v jsontext.Value) int64 {
	var list []jsontext.Value
	if v.Kind() != '[' || json.Unmarshal(v, &list, scanOptions) != nil || len(list) == 0 || list[0].Kind() == '0' {
		return 1
	}
	return int64(len(list))
}

// bound is the longest answer that the client asks for; 0 where it does not say.
func (x *exchange) bound() int64 {
	switch x.endpoint.dialect {
	case protocol.OpenAIResponses:
		return number(x.ask.raw("max_output_tokens"))
	case protocol.Gemini:
		return x.configured("maxOutputTokens")
	default:
		return max(number(x.ask.raw("max_completion_tokens")), number(x.ask.raw("max_tokens")))
	}
}

// configured is a number of Gemini's generationConfig; 0 where it is not there.
func (x *exchange) configured(name string) int64 {
	if x.ask.raw("generationConfig").Kind() != '{' {
		return 0
	}
	config, err := x.ask.inner("generationConfig", nil)
	if err != nil {
		return 0
	}
	return number(config.raw(name))
}

// maxBound keeps a silly number from overflowing what is reckoned with it.
const maxBound = 1 << 32

func number(v jsontext.Value) int64 {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return min(n, maxBound)
}

// spokenTokens counts the tokens that pass by, without reading them: an event is one, or
// as many as its bytes make where it is much longer than the shortest, which is all
// wrapping.
type spokenTokens struct {
	n        int64
	shortest int
}

func (s *spokenTokens) event(size int) {
	if s.shortest == 0 || size < s.shortest {
		s.shortest = size
	}
	s.text(size - s.shortest)
}

func (s *spokenTokens) text(size int) {
	s.n++
	if size > tokenBytes {
		s.n += int64(size / bytesPerToken)
	}
}

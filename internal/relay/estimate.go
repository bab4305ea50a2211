package relay

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// Nothing here has a tokenizer: every vendor has its own and few publish them. What
// has to be known before a provider has counted is estimated from bytes.
const (
	bytesPerToken = 4       // of text, when what was said is counted
	promptBytes   = 2       // of a request's body, when it is reserved for: code and numbers have more tokens than prose
	tokenBytes    = 12      // more than this in one event is several tokens
	unboundedMost = 4 << 10 // tokens that are reserved at a time where the client sets no bound
)

// prompt is the most that a request's body is likely to be, in tokens.
func (p *projection) prompt() int64 { return int64(len(p.body))/promptBytes + 1 }

// most is how many tokens an answer may have, and whether the client has said so.
func (x *exchange) most() (tokens int64, bounded bool) {
	if !x.endpoint.generates && x.endpoint.form == nil {
		return 0, true
	}
	n := x.bound()
	if n <= 0 {
		return unboundedMost * int64(x.ask.n), false
	}
	return n * int64(x.ask.n), true
}

// bound is the longest answer that the client asks for; 0 where it does not say.
func (x *exchange) bound() int64 {
	switch x.endpoint.dialect {
	case protocol.OpenAIResponses:
		return number(x.ask.raw("max_output_tokens"))
	case protocol.Gemini:
		if x.ask.raw("generationConfig").Kind() != '{' {
			return 0
		}
		config, err := x.ask.inner("generationConfig", nil)
		if err != nil {
			return 0
		}
		return number(config.raw("maxOutputTokens"))
	default:
		return max(number(x.ask.raw("max_completion_tokens")), number(x.ask.raw("max_tokens")))
	}
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

// spoken counts the tokens that pass by, without reading them: an event is one, or
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

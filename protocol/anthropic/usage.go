package anthropic

import (
	"slices"
	"strconv"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// tally is what an answer has counted so far. A stream gives totals more than
// once, and not all of them each time.
type tally struct {
	seen                                 bool
	input, read, write, output, thinking int64
	tier                                 string
	rest                                 wire.Extra
}

// add replaces what is known by what is newer. A zero never hides a count: servers
// fill members that they do not know with it. USE-04, USE-05
func (t *tally) add(u *Usage) {
	t.seen = true
	set := func(to *int64, n wire.Opt[wire.Number]) {
		if c := count(n); c > 0 {
			*to = c
		}
	}
	set(&t.input, u.InputTokens)
	set(&t.read, u.CacheReadInputTokens)
	set(&t.write, u.CacheCreationInputTokens)
	set(&t.output, u.OutputTokens)
	set(&t.thinking, u.OutputTokensDetails.Value().ThinkingTokens)
	if s := u.ServiceTier.Value(); s != "" {
		t.tier = s
	}
	for _, m := range u.Extra.All() {
		if !slices.Contains(countNames, m.Name) {
			t.rest.Set(m.Name, m.Value)
		}
	}
}

// countNames are the members that appendUsage writes; what is odd among them is
// not kept.
var countNames = []string{"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens", "output_tokens_details", "service_tier"}

// neutral is the counts in classes that do not overlap, nil if there were none.
func (t *tally) neutral() *llm.Usage {
	if !t.seen {
		return nil
	}
	return &llm.Usage{Input: t.input, CacheRead: t.read, CacheWrite: t.write,
		Output: max(0, t.output-t.thinking), Reasoning: min(t.thinking, t.output)}
}

// count is a number of tokens; what is none counts zero.
func count(n wire.Opt[wire.Number]) int64 {
	i, err := n.Value().Int64()
	if err != nil {
		return 0
	}
	return max(0, i)
}

// appendUsage writes counts as the protocol has them. Clients add them up without
// looking whether they are there, so that nothing known is written as zero.
func appendUsage(b []byte, u *llm.Usage) []byte {
	if u == nil {
		u = &llm.Usage{}
	}
	b = strconv.AppendInt(append(b, `{"input_tokens":`...), u.Input, 10)
	b = strconv.AppendInt(append(b, `,"cache_creation_input_tokens":`...), u.CacheWrite, 10)
	b = strconv.AppendInt(append(b, `,"cache_read_input_tokens":`...), u.CacheRead, 10)
	b = strconv.AppendInt(append(b, `,"output_tokens":`...), u.TotalOutput(), 10)
	if u.Reasoning > 0 {
		b = strconv.AppendInt(append(b, `,"output_tokens_details":{"thinking_tokens":`...), u.Reasoning, 10)
		b = append(b, '}')
	}
	return append(b, '}')
}

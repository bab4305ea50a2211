package protocol_test

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Empty values do not count as lost, because strict mode would reject the requests of
// frameworks that send empty arrays.
func TestLost(t *testing.T) {
	for members, want := range map[string]string{
		`include []`:            "",
		`include "odd"`:         "include",
		`safetySettings [ ]`:    "",
		`refusal null`:          "",
		`search {}`:             "search",
		`flag false`:            "flag",
		`isogloss.note "inner"`: "",
		`list [[]]`:             "list",
	} {
		name, value, _ := strings.Cut(members, " ")
		e := llm.Ext{Protocol: string(protocol.OpenAIResponses), Members: []llm.Member{{Name: name, Value: llm.Raw(value)}}}
		if got := strings.Join(protocol.Lost(e, protocol.Gemini), " "); got != want {
			t.Errorf("%s: lost %q, want %q", members, got, want)
		}
		if got := protocol.Lost(e, protocol.OpenAIResponses); got != nil {
			t.Errorf("%s: lost %q in its own protocol", members, got)
		}
	}
}

package codec_test

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// TestRefusedMembers checks which members of another dialect are refused rather than dropped.
func TestRefusedMembers(t *testing.T) {
	for members, want := range map[string]llm.Verdict{
		`billing_policy "member"`:                                       llm.Rejected,
		`moderation {"model":"m","policy":{"input":{"mode":"block"}}}`:  llm.Rejected,
		`moderation {"model":"m","policy":{"output":{"mode":"block"}}}`: llm.Rejected,
		`moderation {"model":"m","policy":{"input":{"mode":"score"}}}`:  llm.Dropped,
		`moderation {"model":"m"}`:                                      llm.Dropped,
		`safeguards {"id":"s"}`:                                         llm.Rejected,
		`anything "else"`:                                               llm.Dropped,
	} {
		name, value, _ := strings.Cut(members, " ")
		report := llm.Report{Mode: llm.Default}
		codec.DropExt(&report, "ext", llm.Ext{Protocol: string(protocol.OpenAIResponses), Members: []llm.Member{{Name: name, Value: llm.Raw(value)}}}, protocol.Gemini)
		if len(report.Losses) != 1 || report.Losses[0].Verdict != want {
			t.Errorf("%s: %+v, want %s", members, report.Losses, want)
		}
	}
}

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
		if got := strings.Join(codec.Lost(e, protocol.Gemini), " "); got != want {
			t.Errorf("%s: lost %q, want %q", members, got, want)
		}
		if got := codec.Lost(e, protocol.OpenAIResponses); got != nil {
			t.Errorf("%s: lost %q in its own protocol", members, got)
		}
	}
}

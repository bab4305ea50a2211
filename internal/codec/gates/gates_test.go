package gates

import (
	"reflect"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol"
)

func TestGates(t *testing.T) {
	const chat, responses, anthropic, gemini = protocol.OpenAIChat, protocol.OpenAIResponses, protocol.Anthropic, protocol.Gemini
	modern := protocol.Gates{NoSampling: true, NoPrefill: true, Adaptive: true, MidSystem: true, MaxOutput: 64000}
	always := modern
	always.LeastReasoning = "low"
	unforced := always
	unforced.NoForcedTool = true
	between := unforced
	between.LeastReasoning = "between_tools"
	thinker := protocol.Gates{NoSampling: true, NoStop: true}
	for _, c := range []struct {
		protocol protocol.Name
		model    string
		want     protocol.Gates
	}{
		{anthropic, "claude-opus-5-5", unforced},
		{anthropic, "claude-sonnet-5.5", between},
		{anthropic, "claude-fable-5", always},
		{anthropic, "claude-fable-5-1", unforced},
		{anthropic, "claude-sonnet-5-20260301", modern},
		{anthropic, "Claude-Opus-4.8", modern},
		{anthropic, "us.anthropic/claude-opus-4-7-v1:0", protocol.Gates{NoSampling: true, NoPrefill: true, Adaptive: true, MaxOutput: 64000}},
		{anthropic, "claude-sonnet-4-6", protocol.Gates{OneSampling: true, NoPrefill: true, Adaptive: true, Efforts: []string{"low", "medium", "high", "max"}, MaxOutput: 64000}},
		{anthropic, "claude-sonnet-4-5", protocol.Gates{OneSampling: true, Budget: true, MaxOutput: 32000}},
		{anthropic, "claude-3-5-haiku-latest", protocol.Gates{Budget: true, MaxOutput: 8192}},
		{anthropic, "vendor/claude-sonnet-4", protocol.Gates{Budget: true, MaxOutput: 32000}},
		{anthropic, "glm-5", protocol.Gates{}},
		{chat, "gpt-5-mini", thinker},
		{chat, "openai/gpt-5.1", thinker},
		{chat, "openai/o3", thinker},
		{chat, "gpt-4o", protocol.Gates{}},
		{chat, "models/gemini-3-pro", protocol.Gates{Carrier: true}},
		{chat, "deepseek/deepseek-chat", protocol.Gates{SystemOnly: true, ReasoningHistory: "reasoning_content"}},
		{responses, "gpt-5-mini", protocol.Gates{NoSampling: true}},
		{gemini, "gemini-2.5-flash", protocol.Gates{Budget: true}},
		{gemini, "gemini-3-pro", protocol.Gates{}},
		{gemini, "gemini-3-pro-preview", protocol.Gates{Efforts: []string{"low", "high"}}},
		{chat, "claude-opus-5", protocol.Gates{}},
	} {
		var none *Table
		if got := none.For(c.protocol, c.model); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %s: %+v, want %+v", c.protocol, c.model, got, c.want)
		}
	}
}

func TestGatesOfTheOperatorComeFirst(t *testing.T) {
	own := []Rule{
		{protocol.Anthropic, []string{"Claude-X.1*", "other/*"}, protocol.Gates{NoStop: true}},
		{protocol.Anthropic, []string{"claude-x*"}, protocol.Gates{MaxOutput: 7}},
	}
	g := New(own)
	for model, want := range map[string]protocol.Gates{
		"claude-x-1-pro": {NoStop: true},
		"OTHER/a/b":      {NoStop: true},
		"claude-x":       {MaxOutput: 7},
		"claude-x-2":     {MaxOutput: 7},
		"claude-y":       {Budget: true, MaxOutput: 32000},
	} {
		if got := g.For(protocol.Anthropic, model); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", model, got, want)
		}
	}
	if got := g.For(protocol.OpenAIChat, "claude-x"); !reflect.DeepEqual(got, protocol.Gates{}) {
		t.Errorf("another protocol: %+v", got)
	}
	if own[0].Patterns[0] != "Claude-X.1*" {
		t.Error("the rows were changed")
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{"a", []string{"a"}, []string{"", "aa", "ba"}},
		{"*", []string{"", "a", "a/b"}, nil},
		{"a*", []string{"a", "ab"}, []string{"ba", ""}},
		{"*a", []string{"a", "ba"}, []string{"ab"}},
		{"ab*ba", []string{"abba", "ab-ba"}, []string{"aba", "ab"}},
		{"*a*b*", []string{"ab", "xaxbx"}, []string{"ba", "a"}},
		{"a[b?", []string{"a[b?"}, []string{"abc"}},
	} {
		for _, name := range c.yes {
			if !matches(strings.Split(c.pattern, "*"), name) {
				t.Errorf("%q does not match %q", c.pattern, name)
			}
		}
		for _, name := range c.no {
			if matches(strings.Split(c.pattern, "*"), name) {
				t.Errorf("%q matches %q", c.pattern, name)
			}
		}
	}
}

func BenchmarkGates(b *testing.B) {
	g := New(nil)
	b.ReportAllocs()
	for b.Loop() {
		if g.For(protocol.Anthropic, "claude-sonnet-4").MaxOutput == 0 {
			b.Fatal("no row")
		}
	}
}

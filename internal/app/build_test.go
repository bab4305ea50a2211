package app

import (
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

func TestStateForTranslation(t *testing.T) {
	const providers = "providers: {a: {preset: anthropic, api_key: k}}\nmodels: {m: {targets: [a/x]}}\n"
	for text, want := range map[string]struct {
		mode   llm.Mode
		output int64
	}{
		providers: {llm.Default, 32000},
		providers + "fidelity: strict\ngates: [{match: claude-*, protocol: anthropic, max_output: 7}]\n": {llm.Strict, 7},
	} {
		cfg, err := config.Parse("isogloss.yaml", []byte(text), noEnvironment)
		if err != nil {
			t.Fatal(err)
		}
		s := newState(cfg, discover.Snapshot{}, time.Now())
		if got := s.Gates.For(protocol.Anthropic, "claude-sonnet-4").MaxOutput; s.Fidelity != want.mode || got != want.output {
			t.Errorf("%s %d, want %+v", s.Fidelity, got, want)
		}
	}
}

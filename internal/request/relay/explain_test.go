package relay

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
)

// TestExplainLossesAndCost checks that explain names what a request would lose by the client's own field,
// and what the gateway would reserve for it.
func TestExplainLossesAndCost(t *testing.T) {
	books := newLedger(t, quota.Limit{})
	g := newGateway(t, speaking(anthropicDialect), books.use)
	body := `{"model":"m","max_tokens":7,"logit_bias":{"1":2},"messages":[{"role":"user","content":"Hi"}]}`
	e, err := g.relay.Explain(chatDialect, "m", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	target := e.Targets[0]
	if want := costOf(promptOf(body), 7).Decimal(); target.MaxCost != want || e.MaxPrompt != promptOf(body) || e.MaxOutput != 7 || e.Unlimited {
		t.Errorf("%+v costs %s, want %s", e, target.MaxCost, want)
	}
	if len(target.Losses) != 1 || target.Losses[0].Path != "logit_bias" || target.Losses[0].Note == "" {
		t.Errorf("%+v", target.Losses)
	}
	e, err = g.relay.Explain(chatDialect, "m", []byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}]}`))
	if err != nil || !e.Unlimited || e.Targets[0].Losses[0].Path != "max_completion_tokens" {
		t.Errorf("%+v %v", e, err)
	}
	if _, err = g.relay.Explain(chatDialect, "rael-chat", []byte(`{"model":"rael-chat"}`)); err == nil || !strings.Contains(err.Message, "did you mean 'real-chat'") {
		t.Errorf("an unknown model: %v", err)
	}
	e, err = g.relay.Explain(chatDialect, "m", []byte(`{"model":"m"}`))
	if err != nil || e.MaxPrompt != 0 || e.Targets[0].MaxCost != "" {
		t.Errorf("%+v %v", e, err)
	}
}

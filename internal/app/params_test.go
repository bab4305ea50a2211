package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestReloadOfParams checks that the parameters of a model come from the file, that a
// changed file changes them, and that explain shows them.
func TestReloadOfParams(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(echo)
	configuration := func(n int) string {
		return fmt.Sprintf(`
listen: 127.0.0.1:0
admin: {listen: "127.0.0.1:0"}
providers:
  up: {protocol: openai-chat, base_url: %q, api_key: k-up}
models:
  m%d: {targets: [up/x], defaults: {effort: high, max_tokens: %d}, override: {body: {service_tier: flex}}}
`, up.BaseURL(), n, n)
	}
	g := start(t, configuration(1), quick())
	for n := 1; n <= 2; n++ {
		model := fmt.Sprintf("m%d", n)
		if n > 1 {
			g.replace(t, configuration(n))
			g.waitForModels(t, model)
		}
		resp, err := g.ask(model, false)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		_ = resp.Body.Close()
		want := fmt.Sprintf(`,"max_completion_tokens":%d,"reasoning_effort":"high","service_tier":"flex"}`, n)
		if got := string(up.Last(t).Body); !strings.HasSuffix(got, want) {
			t.Errorf("%s, want …%s", got, want)
		}
		e, live, err := explain(t, configuration(n), g.adminAddress(t), "openai-chat", model)
		want = fmt.Sprintf(`{"defaults":{"effort":"high","max_tokens":%d},"override":{"body":["service_tier"]}}`, n)
		if err != nil || !live || strings.Join(strings.Fields(string(e.Params)), "") != want {
			t.Errorf("%s %t %v, want %s", e.Params, live, err, want)
		}
	}
}

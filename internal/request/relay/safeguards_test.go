package relay

import (
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// TestSafeguardsAndTags checks that Anthropic gets a request's safeguards and tags with their
// betas, in both lanes, and that other upstreams refuse safeguards by name and get no tags.
func TestSafeguardsAndTags(t *testing.T) {
	const beta = "request-tags-2026-08-21"
	send := func(t *testing.T, upstream protocol.Name, member string, change ...func(*gateway)) (*http.Response, string, *gateway) {
		t.Helper()
		g := newGateway(t, append(change, speaking(upstream))...)
		g.up.Answer(upstreamtest.JSON(http.StatusOK, sharedCase(t, "text").whole(upstream)))
		_, ask := simpleRequest(anthropicDialect, false)
		resp, body, _ := g.post(t, "/v1/messages", strings.Replace(ask, `{`, `{`+member+`,`, 1), "Anthropic-Version", oldVersion, "Anthropic-Beta", beta)
		return resp, body, g
	}
	for _, member := range []string{`"safeguards":{"policy":[1.0,"x"]}`, `"safeguard_results":[{"a":1}]`, `"tags":{"team":"search"}`} {
		name := strings.Split(member, `"`)[1]
		for lane, change := range map[string]func(*gateway){"verbatim": pinned(""), "translate": pinned(newVersion)} {
			resp, body, g := send(t, anthropicDialect, member, change)
			if sent := g.up.Last(t); resp.StatusCode != http.StatusOK || !strings.Contains(string(sent.Body), member) || sent.Header.Get("Anthropic-Beta") != beta {
				t.Errorf("%s, %s: %s %s; sent %s %v", name, lane, resp.Status, body, sent.Body, sent.Header)
			}
		}
		for _, upstream := range []protocol.Name{chatDialect, responsesDialect, geminiDialect} {
			resp, body, g := send(t, upstream, member)
			if name != "tags" {
				if resp.StatusCode != http.StatusBadRequest || !strings.Contains(readFault(t, anthropicDialect, body).message, name+": ") || len(g.up.Requests()) > 0 {
					t.Errorf("%s on %s: %s %s", name, upstream, resp.Status, body)
				}
				continue
			}
			if fidelity := resp.Header.Get("Isogloss-Fidelity"); resp.StatusCode != http.StatusOK || strings.Contains(string(g.up.Last(t).Body), "search") || fidelity != `dropped;a=0;d=1;codes="header.anthropic_beta"` {
				t.Errorf("%s on %s: %s %s, sent %s", name, upstream, resp.Status, fidelity, g.up.Last(t).Body)
			}
		}
	}
}

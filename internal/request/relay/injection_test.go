package relay

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
)

// TestLedgerRequestsUsage checks that a gateway with a ledger requests usage for every
// Chat stream, changes nothing else, and removes the usage chunk if the client did not
// request it.
func TestLedgerRequestsUsage(t *testing.T) {
	stream := textChunk + " : a comment\n\n" + textChunk + stopChunk
	const asks = `"stream_options":{"include_usage":true}`
	for name, c := range map[string]struct {
		ask, sent string
		counted   bool // with a ledger
		got       string
	}{
		"not asked for":      {streamRequest, strings.TrimSuffix(streamRequest, "}") + "," + asks + "}", true, stream + sentinel},
		"refused":            {strings.Replace(streamRequest, "}", `,"stream_options":{"include_usage":false}}`, 1), strings.Replace(streamRequest, "}", `,`+asks+`}`, 1), true, stream + sentinel},
		"asked for":          {strings.Replace(streamRequest, "}", `,`+asks+`}`, 1), strings.Replace(streamRequest, "}", `,`+asks+`}`, 1), true, stream + tokensChunk + sentinel},
		"not streamed":       {plainRequest, plainRequest, true, plainResponse},
		"without a ledger":   {streamRequest, streamRequest, false, stream + tokensChunk + sentinel},
		"plain, no ledger":   {plainRequest, plainRequest, false, plainResponse},
		"asked, no ledger":   {strings.Replace(streamRequest, "}", `,`+asks+`}`, 1), strings.Replace(streamRequest, "}", `,`+asks+`}`, 1), false, stream + tokensChunk + sentinel},
		"spaces in the body": {"{ \"stream\" : true,\n\"model\":\"real-chat\" }", "{ \"stream\" : true,\n\"model\":\"real-chat\"," + asks + " }", true, stream + sentinel},
	} {
		t.Run(name, func(t *testing.T) {
			books := newLedger(t)
			g := newGateway(t, books.use)
			if !c.counted {
				s := *g.state
				s.Books = Books{}
				g.relay.Use(&s)
			}
			for _, cut := range []int{7, 1 << 20} { // several and one read per body
				g.up.Answer(upstreamtest.Unasked(upstreamtest.StreamCut(stream+tokensChunk+sentinel, cut)))
				if !strings.Contains(c.ask, "stream\"") {
					g.up.Answer(upstreamtest.JSON(200, plainResponse))
				}
				if _, got, err := g.post(t, chatPath, c.ask); err != nil || got != c.got {
					t.Errorf("%v: the client got\n%s\nwant\n%s", err, got, c.got)
				}
				if sent := string(g.up.Last(t).Body); sent != c.sent {
					t.Errorf("the upstream got\n%s\nwant\n%s", sent, c.sent)
				}
			}
			rows := books.all(t)
			if !c.counted && len(rows) != 0 || c.counted && len(rows) != 2 {
				t.Fatalf("%d rows", len(rows))
			}
			for _, r := range rows {
				if (r.Usage != llm.Usage{Input: 3, Output: 2}) || r.Estimated {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

package relay

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
)

// With a ledger every Chat stream tells its usage, and that is all that is changed:
// a client that did not ask gets the rest as it came.
func TestLedgerAsksForUsage(t *testing.T) {
	stream := textChunk + " : a comment\n\n" + textChunk + stopChunk
	const asks = `"stream_options":{"include_usage":true}`
	for name, c := range map[string]struct {
		ask, sent string
		counted   bool // there is a ledger
		got       string
	}{
		"not asked for":      {streamAsk, strings.TrimSuffix(streamAsk, "}") + "," + asks + "}", true, stream + sentinel},
		"refused":            {strings.Replace(streamAsk, "}", `,"stream_options":{"include_usage":false}}`, 1), strings.Replace(streamAsk, "}", `,`+asks+`}`, 1), true, stream + sentinel},
		"asked for":          {strings.Replace(streamAsk, "}", `,`+asks+`}`, 1), strings.Replace(streamAsk, "}", `,`+asks+`}`, 1), true, stream + tokensChunk + sentinel},
		"not streamed":       {plainAsk, plainAsk, true, plainAnswer},
		"without a ledger":   {streamAsk, streamAsk, false, stream + tokensChunk + sentinel},
		"plain, no ledger":   {plainAsk, plainAsk, false, plainAnswer},
		"asked, no ledger":   {strings.Replace(streamAsk, "}", `,`+asks+`}`, 1), strings.Replace(streamAsk, "}", `,`+asks+`}`, 1), false, stream + tokensChunk + sentinel},
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
			for _, cut := range []int{7, 1 << 20} { // whatever the reads are
				g.up.Answer(upstreamtest.StreamCut(stream+tokensChunk+sentinel, cut))
				if !strings.Contains(c.ask, "stream\"") {
					g.up.Answer(upstreamtest.JSON(200, plainAnswer))
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

package relay

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

var (
	usageMember = regexp.MustCompile(`("usage(?:Metadata)?":)\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}`)
	number      = regexp.MustCompile(`\d+`)
)

// withoutCounts returns a response whose usage is written as form, or with zeros if form is
// "0".
func withoutCounts(response, form string) string {
	return usageMember.ReplaceAllStringFunc(response, func(m string) string {
		if form == "0" {
			return number.ReplaceAllString(m, "0")
		}
		return usageMember.ReplaceAllString(m, "${1}"+form)
	})
}

// TestUncountedUsage checks for every dialect and lane that a response is estimated if its
// upstream reports null, {} or zeros, and that zeros are believed if the response is empty.
func TestUncountedUsage(t *testing.T) {
	eachCell(t, func(t *testing.T, client, upstream protocol.Name) {
		l := newLedger(t, quota.Limit{Budget: usage.Dollar})
		g := newGateway(t, speaking(upstream), l.use)
		from := testrig.Dialect(client)
		for i, form := range []string{"null", "{}", "0", "empty"} {
			reply := testrig.Reply{Dialect: testrig.Dialect(upstream), Words: []string{"Hello", " there."}, Usage: true}
			if form == "empty" {
				reply.Words = nil
			}
			zero := strings.Replace(form, "empty", "0", 1)
			for j, streams := range [][2]bool{{false, false}, {true, true}, {true, false}, {false, true}} {
				g.up.Answer(func(c *upstreamtest.Conn) {
					if !streams[1] {
						c.Whole(http.StatusOK, "application/json", withoutCounts(reply.Body(), zero))
						return
					}
					c.BeginStream()
					c.Chunk(withoutCounts(strings.Join(reply.Stream().All(), ""), zero))
					c.EndStream()
				})
				q := testrig.Query{Model: "m", Prompt: "hi", Stream: streams[0], MaxTokens: 100}
				resp, body, err := g.post(t, from.Path(q.Model, q.Stream), from.Body(q), "Anthropic-Version", "2023-06-01")
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Fatalf("%s, streams %t: %v: %v %s", form, streams, err, resp, body)
				}
				rows := l.all(t)
				if len(rows) != 4*i+j+1 {
					t.Fatalf("%s, streams %t: %d rows", form, streams, len(rows))
				}
				row := rows[len(rows)-1]
				// Some Chat servers send zeros in every chunk, so that the decoder ignores them.
				ignored := upstream == chatDialect && streams[1] && (client != upstream || !streams[0])
				if free := row.Usage == (llm.Usage{}) && !row.Estimated; free != (form == "empty" && !ignored) || form != "empty" && min(row.Usage.Input, row.Usage.Output) == 0 {
					t.Errorf("%s, streams %t: %+v, estimated %t: %s", form, streams, row.Usage, row.Estimated, body)
				}
			}
		}
	})
}

// TestUncountedPrompt checks that a response that is not generated is estimated too.
func TestUncountedPrompt(t *testing.T) {
	for name, body := range map[string]string{
		"zero":    `{"data":[{"embedding":[1],"index":0}],"usage":{"prompt_tokens":0,"total_tokens":0}}`,
		"nothing": `{"data":[{"embedding":[1],"index":0}],"usage":{}}`,
	} {
		l := newLedger(t, quota.Limit{Budget: usage.Dollar})
		g := newGateway(t, l.use)
		g.up.Answer(upstreamtest.JSON(http.StatusOK, body))
		if _, text, err := g.post(t, "/v1/embeddings", `{"model":"real-chat","input":"some words"}`); err != nil || text != body {
			t.Fatal(err, text)
		}
		if rows := l.all(t); len(rows) != 1 || rows[0].Usage.Input == 0 || rows[0].Usage.Output != 0 || !rows[0].Estimated {
			t.Errorf("%s: %+v", name, rows)
		}
	}
}

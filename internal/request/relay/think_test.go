package relay

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// thinkTags sets how the provider treats reasoning in the text.
func thinkTags(mode provider.ThinkTags) func(*gateway) {
	return func(g *gateway) { g.provider.ThinkTags = mode }
}

const (
	taggedResponse = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"<think>\nWhy?\n</think>\n\nBecause."},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	chunkStart     = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":`
)

// taggedStream is the stream of taggedResponse in pieces of n characters.
func taggedStream(n int) string {
	var b strings.Builder
	text := `<think>~Why?~</think>~~Because.`
	for len(text) > 0 {
		piece := text[:min(n, len(text))]
		text = text[len(piece):]
		b.WriteString(chunkStart + `{"content":"` + strings.ReplaceAll(piece, "~", `\n`) + `"},"finish_reason":null}]}` + "\n\n")
	}
	b.WriteString(chunkStart + `{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}` + "\n\ndata: [DONE]\n\n")
	return b.String()
}

// TestThinkTagsBecomeReasoning checks clients of two dialects, streaming and not, also if
// the upstream streams and the client does not.
func TestThinkTagsBecomeReasoning(t *testing.T) {
	g := newGateway(t, speaking(chatDialect), thinkTags(provider.ThinkStart))
	for path, want := range map[string]string{
		chatPath:     `"message":{"role":"assistant","content":"Because.","refusal":null,"reasoning_content":"Why?"}`,
		messagesPath: `"content":[{"type":"thinking","thinking":"Why?","signature":"aXNvZ2xvc3M6e30="},{"type":"text","text":"Because."}]`,
	} {
		body := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]`
		scripts := []upstreamtest.Script{upstreamtest.JSON(200, taggedResponse)}
		for n := 1; n < 12; n++ {
			scripts = append(scripts, upstreamtest.Stream(taggedStream(n)))
		}
		for i, script := range scripts {
			g.up.Answer(script)
			resp, got, err := g.post(t, path, body+"}")
			if err != nil || !strings.Contains(got, want) || resp.Header.Get("Isogloss-Fidelity") != "exact" {
				t.Errorf("%s %d: %v %s %s", path, i, err, resp.Header.Get("Isogloss-Fidelity"), got)
			}
			_, got, err = g.post(t, path, body+`,"stream":true}`)
			if err != nil || joined(t, got, "reasoning_content", "thinking") != "Why?" || joined(t, got, "content", "text") != "Because." {
				t.Errorf("%s %d: %v %s", path, i, err, got)
			}
		}
	}
}

// joined joins the values of members with one of the names in the deltas of a stream.
func joined(t *testing.T, stream string, names ...string) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(line, "data: {")
		if !ok {
			continue
		}
		_, data, ok = strings.Cut(data, `"delta":{`)
		for _, name := range names {
			if _, value, found := strings.Cut(data, `"`+name+`":"`); ok && found {
				value, _, _ = strings.Cut(value, `"`)
				b.WriteString(value)
			}
		}
	}
	return b.String()
}

// TestThinkTagsOff checks that the text stays as it is, byte for byte, without the setting.
func TestThinkTagsOff(t *testing.T) {
	g := newGateway(t, speaking(chatDialect), thinkTags(provider.NoThinkTags))
	g.up.Answer(upstreamtest.JSON(200, taggedResponse))
	if _, got, _ := g.post(t, chatPath, `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`); got != taggedResponse {
		t.Error(got)
	}
}

package app

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// keyOf creates a key of an organisation.
func (k *Keyring) keyOf(t *testing.T, org string) secret.String {
	t.Helper()
	made, err := k.Create(t.Context(), access.Record{Name: "a key", Org: org, Team: "t", Models: []string{"*"}, Created: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return made.Text
}

// vendor answers as the vendors of all dialects, with a new id in each response.
func vendor() upstreamtest.Script {
	var n atomic.Int64
	return func(c *upstreamtest.Conn) {
		id := n.Add(1)
		c.KeepAlive()
		switch {
		case strings.HasSuffix(c.Request.Path, "/responses") && strings.Contains(string(c.Request.Body), `"stream":true`):
			c.BeginStream()
			c.Chunk(fmt.Sprintf("event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_%d\",\"status\":\"in_progress\",\"output\":[]}}\n\n", id))
			c.Chunk(fmt.Sprintf("event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_%d\",\"status\":\"completed\",\"output\":[{\"id\":\"rs_%[1]d\",\"type\":\"reasoning\"}]}}\n\n", id))
			c.EndStream()
		case strings.HasSuffix(c.Request.Path, "/responses"):
			c.Whole(http.StatusOK, "application/json", fmt.Sprintf(`{"id":"resp_%d","object":"response","status":"completed","output":[{"id":"rs_%[1]d","type":"reasoning"},{"id":"msg_%[1]d","type":"message"}]}`, id))
		case strings.HasSuffix(c.Request.Path, "/messages"):
			c.Whole(http.StatusOK, "application/json", fmt.Sprintf(`{"id":"msg_%d","type":"message","content":[],"stop_reason":"end_turn","container":{"id":"container_%[1]d"}}`, id))
		case strings.HasSuffix(c.Request.Path, "/files"):
			c.Whole(http.StatusOK, "application/json", fmt.Sprintf(`{"id":"file-%d","object":"file"}`, id))
		case strings.HasSuffix(c.Request.Path, "/cachedContents"):
			c.Whole(http.StatusOK, "application/json", fmt.Sprintf(`{"name":"cachedContents/%d"}`, id))
		case strings.Contains(c.Request.Path, ":stream"):
			c.BeginStream()
			c.Chunk("data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\"}]}}]}\n\n")
			c.Chunk(fmt.Sprintf("data: {\"candidates\":[{\"finishReason\":\"CONTINUATION\",\"continuationToken\":\"files/token?%d\"}]}\n\n", id))
			c.EndStream()
		case strings.Contains(c.Request.Path, ":") && strings.Contains(string(c.Request.Body), "long"):
			c.Whole(http.StatusOK, "application/json", fmt.Sprintf(`{"candidates":[{"finishReason":"CONTINUATION","continuationToken":"token-%d"}]}`, id))
		case strings.Contains(c.Request.Path, ":"):
			c.Whole(http.StatusOK, "application/json", `{"candidates":[{"finishReason":"STOP"}]}`)
		case strings.Contains(string(c.Request.Body), `"stream":true`):
			c.BeginStream()
			c.Chunk("data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n")
			for _, audio := range []string{`"id":"audio_%d"`, `"data":"AAAA"`, `"expires_at":1`} {
				c.Chunk("data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"audio\":{" + strings.Replace(audio, "%d", strconv.FormatInt(id, 10), 1) + "}}}]}\n\n")
			}
			c.Chunk("data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
			c.EndStream()
		case strings.Contains(string(c.Request.Body), `"audio"`):
			c.Whole(http.StatusOK, "application/json", fmt.Sprintf(`{"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":null,"audio":{"id":"audio_%d","data":"AAAA"}},"finish_reason":"stop"}]}`, id))
		default:
			c.Whole(http.StatusOK, "application/json", `{"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}`)
		}
	}
}

// TestVendorStateBelongsToItsOwner checks for each kind of state that a vendor keeps that
// its owner may refer to it, that another organisation gets the error of an id that does
// not exist, and that both hold after a restart.
func TestVendorStateBelongsToItsOwner(t *testing.T) {
	up, data := upstreamtest.New(t), t.TempDir()
	up.Answer(vendor())
	configuration := strings.Replace(everyDialect(up, data, ""), `resp: {`, `resp: { paths: ["POST /v1/files"],`, 1)
	configuration = strings.Replace(configuration, `gem: {`, `gem: { paths: ["POST /v1beta/cachedContents"],`, 1)
	keys := keyringOf(t, configuration)
	owner, colleague, stranger := keys.keyOf(t, "o1"), keys.keyOf(t, "o1"), keys.keyOf(t, "o2")
	const (
		resp   = "/v1/responses"
		claude = "/v1/messages"
		chat   = "/v1/chat/completions"
		gem    = "/v1beta/models/gem/m"
	)
	kinds := []struct {
		name, path, create string
		use, refer         string // a request with an ID in it
		id                 string // of what the nth request creates
	}{
		{"response", resp, `{"model":"resp/m","input":"hi"}`, resp, `{"model":"resp/m","input":"hi","previous_response_id":"ID"}`, "resp_%d"},
		{"streamed response", resp, `{"model":"resp/m","stream":true,"input":"hi"}`, resp, `{"model":"resp/m","input":"hi","previous_response_id":"ID"}`, "resp_%d"},
		{"item", resp, `{"model":"resp/m","input":"hi"}`, resp, `{"model":"resp/m","input":[{"type":"item_reference","id":"ID"}]}`, "msg_%d"},
		{"bare reference", resp, `{"model":"resp/m","input":"hi"}`, resp, `{"model":"resp/m","input":[{"id":"ID"}]}`, "msg_%d"},
		{"reasoning", resp, `{"model":"resp/m","stream":true,"input":"hi"}`, resp, `{"model":"resp/m","input":[{"type":"reasoning","id":"ID","summary":[]}]}`, "rs_%d"},
		{"escaped", resp, `{"model":"resp/m","input":"hi"}`, resp, `{"model":"resp/m","input":[{"type":"item\u005freference","\u0069d":"ID"}]}`, "msg_%d"},
		{"file in a response", "/v1/files", `{}`, resp, `{"model":"resp/m","input":[{"role":"user","content":[{"type":"input_file","file_id":"ID"}]}]}`, "file-%d"},
		{"file in a chat", "/v1/files", `{}`, "/v1/chat/completions", `{"model":"chat/m","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"ID"}}]}]}`, "file-%d"},
		{"file in a message", "/v1/files", `{}`, claude, `{"model":"claude/m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"ID"}}]}]}`, "file-%d"},
		{"container", claude, `{"model":"claude/m","max_tokens":1,"messages":[],"tools":[{"type":"code_execution_20260521"}]}`, claude, `{"model":"claude/m","max_tokens":1,"messages":[],"container":"ID"}`, "container_%d"},
		{"cached content", "/v1beta/cachedContents", `{}`, "/v1beta/models/gem/m:generateContent", `{"contents":[],"cachedContent":"ID"}`, "cachedContents/%d"},
		{"audio", chat, `{"model":"chat/m","modalities":["text","audio"],"audio":{"voice":"ash","format":"wav"},"messages":[]}`, chat, `{"model":"chat/m","messages":[{"role":"assistant","audio":{"id":"ID"}}]}`, "audio_%d"},
		{"streamed audio", chat, `{"model":"chat/m","stream":true,"messages":[]}`, chat, `{"model":"chat/m","messages":[{"role":"assistant","aud\u0069o":{"id":"ID"}}]}`, "audio_%d"},
		{"continuation", gem + ":generateContent", `{"contents":[{"parts":[{"text":"long"}]}]}`, gem + ":generateContent", `{"contents":[],"continuationToken":"ID"}`, "token-%d"},
		{"streamed continuation", gem + ":streamGenerateContent?alt=sse", `{"contents":[]}`, gem + ":generateContent", `{"contents":[],"continuation_token":"ID"}`, "files/token?%d"},
		{"file by its URI", "/v1beta/cachedContents", `{}`, "/v1beta/models/gem/m:generateContent", `{"contents":[{"parts":[{"file_data":{"file_uri":"https://generativelanguage.GOOGLEAPIS.com/v1beta/ID?x"}}]}]}`, "cachedContents/%d"},
	}
	ids := make([]string, len(kinds))
	check := func(g *gateway) {
		t.Helper()
		for i, k := range kinds {
			ask := func(key secret.String, id string) (int, string, int) {
				before := len(up.Requests())
				status, text := g.post(t, key, k.use, strings.ReplaceAll(k.refer, "ID", id))
				return status, strings.ReplaceAll(text, id, "ID"), len(up.Requests()) - before
			}
			for _, key := range []secret.String{owner, colleague} {
				if status, text, sent := ask(key, ids[i]); status != http.StatusOK || sent != 1 {
					t.Errorf("%s of its owner: %d %s", k.name, status, text)
				}
			}
			status, text, sent := ask(stranger, ids[i])
			unknown, unknownText, unknownSent := ask(stranger, ids[i]+"0")
			if status < 400 || status >= 500 || sent != 0 || status != unknown || text != unknownText || unknownSent != 0 {
				t.Errorf("%s of another: %d %s and %d requests; an unknown one: %d %s and %d requests", k.name, status, text, sent, unknown, unknownText, unknownSent)
			}
		}
	}
	g := start(t, configuration, pace{})
	for i, k := range kinds {
		if status, text := g.post(t, owner, k.path, k.create); status != http.StatusOK {
			t.Fatal(k.name, status, text)
		}
		ids[i] = fmt.Sprintf(k.id, len(up.Requests()))
	}
	check(g)
	g.wait(t)
	check(start(t, configuration, pace{}))
}

// TestUnknownIDs checks the setting and its default, and that an id of another
// organisation is refused in any case.
func TestUnknownIDs(t *testing.T) {
	const unknown = `{"model":"resp/m","input":"hi","previous_response_id":"resp_unknown"}`
	for _, c := range []struct {
		name, setting string
		several       bool
		want          int
	}{
		{"one organisation", "", false, http.StatusOK},
		{"several organisations", "", true, http.StatusBadRequest},
		{"forward", "unknown_ids: forward,", true, http.StatusOK},
		{"refuse", "unknown_ids: refuse,", false, http.StatusBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := upstreamtest.New(t)
			up.Answer(vendor())
			configuration := strings.Replace(everyDialect(up, t.TempDir(), ""), "resp: {", "resp: { "+c.setting, 1)
			keys := keyringOf(t, configuration)
			key, other := keys.keyOf(t, "o1"), secret.String("")
			if c.several {
				other = keys.keyOf(t, "o2")
			}
			g := start(t, configuration, pace{})
			if status, text := g.post(t, key, "/v1/responses", unknown); status != c.want {
				t.Errorf("%d %s", status, text)
			}
			if !c.several {
				return
			}
			if status, text := g.post(t, other, "/v1/responses", `{"model":"resp/m","input":"hi"}`); status != http.StatusOK {
				t.Fatal(status, text)
			}
			id := fmt.Sprintf("resp_%d", len(up.Requests()))
			if status, text := g.post(t, key, "/v1/responses", strings.Replace(unknown, "resp_unknown", id, 1)); status != http.StatusBadRequest || !strings.Contains(text, "previous_response_not_found") {
				t.Errorf("%d %s", status, text)
			}
		})
	}
}

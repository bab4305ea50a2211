package relay

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// refusedQuickly limits the processor time of a refusal: ten milliseconds, and room for
// the race detector.
const refusedQuickly = 100 * time.Millisecond

func nested(open, inner, closing string, depth int) string {
	return strings.Repeat(open, depth) + inner + strings.Repeat(closing, depth)
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"m%d":%d,`, i, i)
	}
	return b.String()
}

func TestHostileJSONIsRefused(t *testing.T) {
	g := newGateway(t, includeUsage)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	for name, body := range map[string]string{
		"twice":                   `{"model":"real-chat","model":"real-chat"}`,
		"twice, once escaped":     `{"model":"real-chat","\u006dodel":"any/x"}`,
		"twice, unknown":          `{"model":"real-chat","x":1,"x":1}`,
		"twice, empty name":       `{"model":"real-chat","":1,"":1}`,
		"twice, below":            `{"model":"real-chat","a":{"x":1,"x":2}}`,
		"twice, far below":        `{"model":"real-chat","a":[[{"b":[{"\u0078":1,"x":2}]}]]}`,
		"twice, in options":       `{"model":"real-chat","stream_options":{"include_usage":false,"include_usage":true}}`,
		"twice, in nvext":         `{"model":"real-chat","nvext":{"top_k":1,"top_k":2}}`,
		"twice, after very many":  `{"model":"real-chat","a":{` + numbered(2_000) + `"m7":1}}`,
		"case":                    `{"model":"real-chat","MODEL":"any/x"}`,
		"case, alone":             `{"Model":"real-chat"}`,
		"case, before":            `{"mODEL":"any/x","model":"real-chat"}`,
		"case, escaped":           `{"model":"real-chat","\u004dodel":"any/x"}`,
		"case, stream":            `{"model":"real-chat","Stream":true}`,
		"case, long s":            `{"model":"real-chat","ſtream":true}`,
		"case, long s escaped":    `{"model":"real-chat","\u017ftream":true}`,
		"case, long s in options": `{"model":"real-chat","ſtream_optionſ":{}}`,
		"case, Kelvin":            `{"model":"real-chat","max_toKens":1}`,
		"case, Kelvin escaped":    `{"model":"real-chat","max_completion_to\u212aens":1}`,
		"case, n":                 `{"model":"real-chat","N":2}`,
		"case, nvext":             `{"model":"real-chat","nvExt":{}}`,
		"case, include_usage":     `{"model":"real-chat","stream_options":{"include_uſage":true}}`,
		"deep lists":              `{"model":"real-chat","a":` + nested("[", "", "]", 64) + `}`,
		"deep objects":            `{"model":"real-chat","a":` + nested(`{"a":`, "1", "}", 64) + `}`,
		"bottomless":              `{"model":"real-chat","a":` + strings.Repeat("[", 100_000),
		"data after":              plainRequest + `{"model":"any/x"}`,
		"brace after":             plainRequest + `}`,
		"NUL after":               plainRequest + "\x00",
		"mark before":             "\xef\xbb\xbf" + plainRequest,
		"invalid UTF-8":           "{\"model\":\"real-chat\",\"a\":\"\xff\"}",
		"invalid UTF-8 in a name": "{\"model\":\"real-chat\",\"\xc0\xaf\":1}",
		"surrogate as UTF-8":      "{\"model\":\"real-chat\",\"a\":\"\xed\xa0\xbd\"}",
		"UTF-16":                  "\xff\xfe{\x00",
		"too many members":        `{"model":"real-chat",` + numbered(512) + `"z":1}`,
		"endless members":         `{"model":"real-chat",` + numbered(20_000) + `"z":1}`,
		"comment":                 `{"model":"real-chat"/**/}`,
		"comma":                   `{"model":"real-chat",}`,
		"single quotes":           `{'model':'real-chat'}`,
		"NaN":                     `{"model":"real-chat","a":NaN}`,
		"leading zero":            `{"model":"real-chat","a":01}`,
		"raw newline in text":     "{\"model\":\"real-chat\",\"a\":\"\n\"}",
		"cut":                     `{"model":"real-chat","a":"`,
		"list":                    `[{"model":"real-chat"}]`,
		"text":                    `"model"`,
		"nothing":                 ``,
	} {
		quickest := time.Hour
		for range 5 {
			before := testrig.ProcessorTime(t)
			resp, got, err := g.post(t, chatPath, body)
			quickest = min(quickest, testrig.ProcessorTime(t)-before)
			if err != nil {
				t.Fatal(name, err)
			}
			wantError(t, resp, got, http.StatusBadRequest, "invalid_json")
			if len(got) > 300 {
				t.Errorf("%s: the answer quotes the body: %.400s", name, got)
			}
			if quickest < refusedQuickly {
				break
			}
		}
		if quickest >= refusedQuickly {
			t.Errorf("%s: it took %v", name, quickest)
		}
	}
	if n := len(g.up.Requests()); n > 0 || g.up.Opened() > 0 {
		t.Errorf("the upstream was called %d times", n)
	}
}

// TestOddJSONPasses checks that bodies at the limits, and valid bodies that look hostile,
// are accepted.
func TestOddJSONPasses(t *testing.T) {
	g := newGateway(t)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	for name, body := range map[string]string{
		"deepest lists":         `{"model":"real-chat","a":` + nested("[", "", "]", 63) + `}`,
		"deepest objects":       `{"model":"real-chat","a":` + nested(`{"a":`, "1", "}", 63) + `}`,
		"most members":          `{"model":"real-chat",` + numbered(510) + `"z":1}`,
		"many members below":    `{"model":"real-chat","a":{` + numbered(5000) + `"z":1}}`,
		"same name, not object": `{"model":"real-chat","a":{"x":1},"b":{"x":1},"c":[{"x":1},{"x":1}]}`,
		"case of others":        `{"model":"real-chat","Temperature":1,"temperature":1,"Messages":[],"metadata":{"Model":"x","model":"y","MODEL":"z"}}`,
		"near names":            `{"model":"real-chat","models":1,"mode":1,"model ":1,"_model":1,"mod_el":1,"modèl":1,"streams":1}`,
		"half surrogates":       `{"model":"real-chat","a":"\ud800","b":"\udc00x","\ud83d":1}`,
	} {
		resp, got, err := g.post(t, chatPath, body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %v %s", name, err, got)
			continue
		}
		if sent := string(g.up.Last(t).Body); sent != body {
			t.Errorf("%s: the upstream got %s", name, sent)
		}
	}
}

func TestHalfSurrogateInTheModelIsNoModel(t *testing.T) {
	g := newGateway(t)
	resp, got, _ := g.post(t, chatPath, `{"model":"real-chat\ud83d"}`)
	wantError(t, resp, got, http.StatusNotFound, "model_not_found")
}

// TestDotSegmentsInTheModel checks that a name with a segment ".." is rejected in every
// dialect: in an upstream's path it would mean another model.
func TestDotSegmentsInTheModel(t *testing.T) {
	g := newGateway(t)
	for path, body := range map[string]string{
		chatPath:        `{"model":"any/flash/../ultra","messages":[]}`,
		"/v1/responses": `{"model":"any/%2e%2e/ultra","input":"x"}`,
		"/v1/messages":  `{"model":"any/.","max_tokens":1,"messages":[]}`,
		"/v1beta/models/any/flash%2F..%2Fultra:generateContent":     `{"contents":[]}`,
		"/v1beta/models/any/flash/%252e%252e/ultra:embedContent":    `{"content":{}}`,
		"/v1beta/models/any/flash/..%5cultra:streamGenerateContent": `{"contents":[]}`,
	} {
		resp, got, err := g.post(t, path, body)
		if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, "path segment") {
			t.Errorf("%s %s: %v %s", path, body, err, got)
		}
	}
	if n := len(g.up.Requests()); n > 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
}

func BenchmarkProject(b *testing.B) {
	dialect := all.Dialects()[0]
	at := codec.Location{Route: &dialect.Routes[0]}
	message := `{"role":"user","content":"Why is the sky blue, and why \"red\" at dusk?\n\u00e9 北京"},`
	for _, size := range []int{2 << 10, 200 << 10} {
		body := []byte(`{"model":"alias-chat","stream":true,"temperature":0.7,"messages":[` +
			strings.Repeat(message, size/len(message)) + `{"role":"user","content":"."}],"stream_options":{"include_usage":true}}`)
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if p, err := exchange.ReadBody(dialect, at, body); err != nil || p.Model != "alias-chat" {
					b.Fatal(err)
				}
			}
		})
	}
}

// readChat parses a body as the Chat route does.
func readChat(body []byte) (*exchange.Body, *llm.Error) {
	return exchange.ReadBody(all.Dialects()[0], codec.Location{Route: &all.Dialects()[0].Routes[0]}, body)
}

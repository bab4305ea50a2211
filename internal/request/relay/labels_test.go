package relay

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// labelMembers are members with labels, by dialect.
var labelMembers = map[protocol.Name]string{
	chatDialect:      `"user":"u-1","safety_identifier":"s-1","metadata":{"team":"search","private":"canary","Feature":"import"}`,
	responsesDialect: `"user":"u-1","safety_identifier":"s-1","metadata":{"team":"search","private":"canary","Feature":"import"}`,
	anthropicDialect: `"metadata":{"user_id":"s-1"},"tags":{"Team":"search","feature":"import"}`,
	geminiDialect:    `"labels":{"team":"search","feature":"import"}`,
}

// recording sets the rules of labels.
func recording(rules usage.LabelRules) func(*gateway) {
	return func(g *gateway) { g.state.Books.Labels = rules }
}

func tags(keysAndValues ...string) (list []usage.Tag) {
	for i := 0; i < len(keysAndValues); i += 2 {
		list = append(list, usage.Tag{Key: keysAndValues[i], Value: keysAndValues[i+1]})
	}
	return list
}

// TestLabels checks the labels of the row for each client dialect, in both lanes, streaming and not:
// by default, with a list of keys and end users, and with the header. The upstream gets the body as it
// is and never the header.
func TestLabels(t *testing.T) {
	for client, members := range labelMembers {
		for _, upstream := range []protocol.Name{client, map[bool]protocol.Name{false: chatDialect, true: anthropicDialect}[client == chatDialect]} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprint(client, " to ", upstream, " ", stream), func(t *testing.T) {
					path, body := simpleRequest(client, stream)
					body = strings.Replace(body, "{", "{"+members+",", 1)
					send := func(rules usage.LabelRules, headers ...string) usage.Labels {
						t.Helper()
						books := newLedger(t)
						g := newGateway(t, books.use, speaking(upstream), recording(rules))
						g.state.Fidelity = "loose"
						g.up.Answer(upstreamtest.Stream(sharedCase(t, "text").stream(upstream)))
						if !stream {
							g.up.Answer(upstreamtest.JSON(http.StatusOK, sharedCase(t, "text").whole(upstream)))
						}
						if resp, got, _ := g.post(t, path, body, headers...); resp.StatusCode != http.StatusOK {
							t.Fatal(got)
						}
						sent := g.up.Last(t)
						if len(sent.Header["Isogloss-Tags"]) > 0 || client == upstream && !strings.Contains(string(sent.Body), members) {
							t.Errorf("the upstream got %v %s", sent.Header, sent.Body)
						}
						line := g.line(t)
						if strings.Contains(line, "canary") || strings.Contains(line, "s-1") || strings.Contains(line, "import") {
							t.Errorf("the log has labels: %s", line)
						}
						return books.one(t, g).Labels
					}
					billed, hasUser := client == anthropicDialect || client == geminiDialect, client != geminiDialect
					var want usage.Labels
					if billed {
						want.Tags = tags("team", "search", "feature", "import")
					}
					if got := send(usage.LabelRules{}); !reflect.DeepEqual(got, want) {
						t.Errorf("by default: %+v, want %+v", got, want)
					}
					want = usage.Labels{Tags: tags("team", "search")}
					if hasUser {
						want.User = "s-1"
					}
					if got := send(usage.LabelRules{Keys: []string{"team"}, Users: usage.PlainUsers}); !reflect.DeepEqual(got, want) {
						t.Errorf("with rules: %+v, want %+v", got, want)
					}
					got := send(usage.LabelRules{Keys: []string{"team", "feature", "x"}, Users: usage.HashedUsers, Secret: []byte("k")}, "Isogloss-Tags", "team=ads, X = 1 ,,nothing,=,other=y")
					if user := got.User; hasUser != (len(user) == 32) || strings.Contains(user, "s-1") {
						t.Errorf("the hashed user is %q", user)
					}
					if want := tags("team", "ads", "x", "1", "feature", "import"); !reflect.DeepEqual(got.Tags, want) {
						t.Errorf("with the header: %+v, want %+v", got.Tags, want)
					}
				})
			}
		}
	}
}

// TestLabelsOfOtherRoutes checks the labels of requests that are no conversations, and of a body of another
// dialect than its path's.
func TestLabelsOfOtherRoutes(t *testing.T) {
	const labels = `"user":"u-1","metadata":{"team":"search"}`
	for path, c := range map[string]struct{ body, response string }{
		"/v1/embeddings":       {`{"model":"real-chat","input":"Hi",` + labels + `}`, `{"object":"list","model":"real-chat","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":1,"total_tokens":1}}`},
		"/v1/completions":      {`{"model":"real-chat","prompt":"Hi",` + labels + `}`, `{"id":"c","object":"text_completion","created":1,"model":"real-chat","choices":[{"index":0,"text":"Hi","finish_reason":"stop","logprobs":null}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`},
		"/v1/chat/completions": {`{"model":"real-chat","input":"Hi",` + labels + `}`, chatResponse},
	} {
		t.Run(path, func(t *testing.T) {
			books := newLedger(t)
			g := newGateway(t, books.use, recording(usage.LabelRules{Keys: []string{"team", "x"}, Users: usage.PlainUsers}))
			g.up.Answer(upstreamtest.JSON(http.StatusOK, c.response))
			if resp, got, _ := g.post(t, path, c.body, "Isogloss-Tags", "x=y"); resp.StatusCode != http.StatusOK {
				t.Fatal(got)
			}
			if got, want := books.one(t, g).Labels, (usage.Labels{User: "u-1", Tags: tags("x", "y", "team", "search")}); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// TestLabelsOfForwardedPaths checks that a forwarded path has the labels of the header alone: its body is
// not read.
func TestLabelsOfForwardedPaths(t *testing.T) {
	books := newLedger(t)
	g := newGateway(t, books.use, listSpeech, recording(usage.LabelRules{Users: usage.PlainUsers}))
	g.up.Answer(upstreamtest.JSON(http.StatusOK, `{}`))
	if resp, got, _ := g.post(t, speechPath, `{"user":"u-1","tags":{"a":"b"}}`, "Isogloss-Tags", "team=search"); resp.StatusCode != http.StatusOK {
		t.Fatal(got)
	}
	if got, want := books.one(t, g).Labels, (usage.Labels{Tags: tags("team", "search")}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestNoLedgerReadsNoLabels checks that labels are not collected without a ledger.
func TestNoLedgerReadsNoLabels(t *testing.T) {
	g := newGateway(t)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	if resp, got, _ := g.post(t, chatPath, plainRequest, "Isogloss-Tags", "malformed"); resp.StatusCode != http.StatusOK {
		t.Fatal(got)
	}
	if line := g.line(t); strings.Contains(line, "ignored_tags") {
		t.Error(line)
	}
}

// TestHostileLabels sends labels that nobody means. Each request is served, its row has bounded labels,
// and the log counts the rest without quoting it.
func TestHostileLabels(t *testing.T) {
	many := func(format string) string {
		var b strings.Builder
		for i := range 10_000 {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	eight := tags("k0", "v", "k1", "v", "k2", "v", "k3", "v", "k4", "v", "k5", "v", "k6", "v", "k7", "v")
	for name, c := range map[string]struct {
		header, members string
		want            []usage.Tag
		ignored         bool
	}{
		"10,000 tags in the header":  {header: many("k%d=v"), want: eight, ignored: true},
		"10,000 tags in the body":    {members: `"tags":{` + many(`"k%d":"v"`) + `}`, want: eight, ignored: true},
		"10,000 commas":              {header: strings.Repeat(",", 10_000), ignored: true},
		"a key without an end":       {header: strings.Repeat("k", 100_000) + "=v,team=a", want: tags("team", "a"), ignored: true},
		"a value without an end":     {header: "team=" + strings.Repeat("v", 65), ignored: true},
		"a large text in the body":   {members: `"tags":{"team":"` + strings.Repeat("v", 1<<20) + `","` + strings.Repeat("k", 1<<20) + `":"v","a":"b"}`, want: tags("a", "b"), ignored: true},
		"SQL":                        {header: `team='; DROP TABLE requests; --`, want: tags("team", `'; DROP TABLE requests; --`)},
		"control characters":         {members: `"tags":{"team":"a\u0000b","x":"a\nb","y":"\u001b[2J","z":"a\u202eb"}`, ignored: true},
		"a surrogate":                {members: `"tags":{"x\ud800":"y","team":"\ud800"}`, want: tags("team", "\ufffd"), ignored: true},
		"tags of other types":        {members: `"tags":["team"],"metadata":7`},
		"values of other types":      {members: `"tags":{"team":{"a":1},"b":[1],"c":null,"d":7,"ok":"yes"}`, want: tags("ok", "yes"), ignored: true},
		"names of the gateway's own": {header: "other=other,user=root", want: tags("other", "other", "user", "root")},
		"header bytes":               {header: "team=\xff\xfe,emoji=🙂", want: tags("emoji", "🙂"), ignored: true},
		"a member without a name":    {members: `"":{"team":"a"}`},
		"twice":                      {header: "team=a,TEAM=b,team=c", want: tags("team", "a")},
	} {
		t.Run(name, func(t *testing.T) {
			books := newLedger(t)
			g := newGateway(t, books.use, speaking(anthropicDialect), recording(usage.LabelRules{Users: usage.PlainUsers}))
			g.up.Answer(upstreamtest.JSON(http.StatusOK, messagesResponse))
			body := messagesRequest
			if c.members != "" {
				body = strings.Replace(body, "{", "{"+c.members+",", 1)
			}
			var headers []string
			if c.header != "" {
				headers = []string{"Isogloss-Tags", c.header}
			}
			if resp, got, _ := g.post(t, messagesPath, body, headers...); resp.StatusCode != http.StatusOK {
				t.Fatal(got)
			}
			line := g.line(t)
			if strings.Contains(line, `"ignored_tags":`) != c.ignored || len(line) > 2000 {
				t.Errorf("the line is %.2000s", line)
			}
			if row := books.one(t, g); !reflect.DeepEqual(row.Tags, c.want) || row.User != "" {
				t.Errorf("%.300q, %q", row.Tags, row.User)
			}
		})
	}
}

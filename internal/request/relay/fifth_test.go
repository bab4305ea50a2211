package relay

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// withTelegram adds the invented dialect to the gateway's list of dialects.
func withTelegram(g *gateway) { g.dialects = append(g.dialects, telegramDialect()) }

// eachTelegramCell runs a test for every pair of dialects that includes the invented one,
// streaming and non-streaming.
func eachTelegramCell(t *testing.T, f func(t *testing.T, g *gateway, client, upstream *codec.Dialect, stream bool)) {
	names := []protocol.Name{chatDialect, responsesDialect, anthropicDialect, geminiDialect, telegram}
	for _, client := range names {
		for _, up := range names {
			if client != telegram && up != telegram {
				continue
			}
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s on %s, streaming %t", client, up, stream), func(t *testing.T) {
					g := newGateway(t, speaking(up), withTelegram)
					f(t, g, g.relay.dialects.ByName[client], g.relay.dialects.ByName[up], stream)
				})
			}
		}
	}
}

// requestIn encodes a request in a client's dialect and returns its path and body.
func (g *gateway) requestIn(t *testing.T, d *codec.Dialect, stream bool) (path, body string) {
	t.Helper()
	e, ok := g.relay.dialects.Generate(d.Name, "m")
	if !ok {
		t.Fatal("no such dialect")
	}
	limit := int64(50)
	out, err := d.Codec.EncodeRequest(&llm.Request{Stream: stream, Output: llm.Output{MaxTokens: &limit},
		Turns: []llm.Turn{{Role: llm.System, Blocks: []llm.Block{&llm.Text{Text: "Be brief."}}}, {Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: "Hello"}}}},
	}, protocol.Target{Model: "m"}, &llm.Report{})
	if err != nil {
		t.Fatal(err)
	}
	if e.Path == "" {
		return out.Path, string(out.Body)
	}
	return e.Path, string(out.Body)
}

// wantText decodes a client's response with the client's own codec and checks its text.
func wantText(t *testing.T, d *codec.Dialect, body string, stream bool, want string) {
	t.Helper()
	var resp *llm.Response
	if stream {
		var all llm.Collector
		decoder := d.Codec.NewStreamDecoder()
		var events []llm.Event
		reader := sse.NewReader(strings.NewReader(body), sse.Options{})
		for {
			e, err := reader.Next()
			if err != nil {
				break
			}
			events = decoder.Decode(e.Name, e.Data, events)
		}
		for _, e := range decoder.Finish(events) {
			if f, failed := e.(llm.Failure); failed {
				t.Fatalf("%v in\n%s", f.Err, body)
			}
			if err := all.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if resp, err = all.Response(); err != nil {
			t.Fatalf("%v in\n%s", err, body)
		}
	} else {
		var err *llm.Error
		if resp, err = d.Codec.DecodeResponse([]byte(body)); err != nil {
			t.Fatalf("%v in\n%s", err, body)
		}
	}
	text := ""
	for _, b := range resp.Choices[0].Blocks {
		if b, ok := b.(*llm.Text); ok {
			text += b.Text
		}
	}
	if text != want || resp.Choices[0].Stop.Kind != llm.EndTurn {
		t.Errorf("%q, %+v, want %q in\n%s", text, resp.Choices[0].Stop, want, body)
	}
	if u := resp.Usage; u == nil || u.TotalInput() != 7 || u.TotalOutput() != 3 {
		t.Errorf("usage %+v in\n%s", u, body)
	}
}

func TestFifthDialect(t *testing.T) {
	answer := func() *llm.Response {
		return &llm.Response{ID: "w1", Model: "m", Created: 1, Usage: &llm.Usage{Input: 7, Output: 3}, Choices: []llm.Choice{{
			Blocks: []llm.Block{&llm.Text{Text: "Good day. STOP."}}, Stop: llm.Stop{Kind: llm.EndTurn}}}}
	}
	eachTelegramCell(t, func(t *testing.T, g *gateway, client, up *codec.Dialect, stream bool) {
		if stream {
			var b []byte
			encoder := up.Codec.NewStreamEncoder(&llm.Request{Stream: true, IncludeUsage: true})
			for _, e := range llm.Explode(answer()) {
				b = encoder.Encode(e, b)
			}
			g.up.Answer(upstreamtest.Stream(string(b)))
		} else {
			g.up.Answer(upstreamtest.JSON(http.StatusOK, string(up.Codec.EncodeResponse(answer(), &llm.Request{}, &llm.Report{}))))
		}
		path, body := g.requestIn(t, client, stream)
		if client.RequestUsage != nil && stream { // this client requests usage
			body = strings.Replace(body, "{", `{"stream_options":{"include_usage":true},`, 1)
		}
		resp, got, err := g.post(t, path, body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v %s %s", err, resp.Status, got)
		}
		wantText(t, client, got, stream, "Good day. STOP.")
		sent := g.up.Last(t)
		ask, fault := up.Codec.DecodeRequest(protocol.Incoming{Body: sent.Body, Path: strings.TrimPrefix(sent.Path, "/v1"), Stream: stream})
		if fault != nil || len(ask.Turns) != 2 || ask.Turns[1].Blocks[0].(*llm.Text).Text != "Hello" || ask.Output.MaxTokens == nil || *ask.Output.MaxTokens != 50 {
			t.Errorf("%v: the upstream was sent %s %s", fault, sent.Path, sent.Body)
		}
		g.wantLine(t, `"dialect":"`+string(client.Name)+`"`, `"input_tokens":7`)
	})
}

func TestFifthDialectErrors(t *testing.T) {
	fault := &llm.Error{Kind: llm.RateLimit, Message: "the line is busy", Code: "busy"}
	eachTelegramCell(t, func(t *testing.T, g *gateway, client, up *codec.Dialect, stream bool) {
		g.up.Answer(upstreamtest.JSON(http.StatusTooManyRequests, string(up.Codec.EncodeError(fault))))
		path, body := g.requestIn(t, client, stream)
		resp, got, err := g.post(t, path, body)
		e := client.Codec.DecodeError(resp.StatusCode, resp.Header, []byte(got))
		if err != nil || resp.StatusCode != http.StatusTooManyRequests || e.Kind != llm.RateLimit || e.Message != fault.Message {
			t.Errorf("%v %s %s: %+v", err, resp.Status, got, e)
		}
	})
}

// TestFifthDialectReadsItsOwnMembers checks that the gateway writes its own errors in the
// client's dialect.
func TestFifthDialectReadsItsOwnMembers(t *testing.T) {
	g := newGateway(t, withTelegram)
	for body, want := range map[string]string{
		`{"lines":[]}`:                       `"why":"the request has no model; write \"to\"`,
		`{"to":"m","live":"yes"}`:            `"why":"\"live\" must be true or false"`,
		`{"to":"absent","lines":[]}`:         `"kind":"not_found"`,
		`{"to":"real-chat","Live":true}`:     `"live"`,
		`{"to":"real-chat","to":"any/other"`: `"kind":"invalid_request"`,
	} {
		resp, got, _ := g.post(t, telegramPath, body)
		if resp.StatusCode < 400 || !strings.HasPrefix(got, `{"fault":{`) || !strings.Contains(strings.ReplaceAll(got, `\"live\"`, `"live"`), strings.ReplaceAll(want, `\"live\"`, `"live"`)) {
			t.Errorf("%s: %s %s, want %s", body, resp.Status, got, want)
		}
	}
	x, fault := g.relay.Explain(telegram, "real-chat", []byte(`{"to":"real-chat","lines":[{"from":"me","text":"Hello"}]}`))
	if fault != nil || len(x.Targets) != 1 || x.Targets[0].Lane != "translated" || x.Targets[0].Fidelity != exchange.Exact {
		t.Errorf("%+v %v", x, fault)
	}
}

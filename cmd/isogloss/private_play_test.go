package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/eventstream"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// scenarios lists what an upstream can do with a request. The name of the upstream's model
// chooses. Those that put a target out of service come last.
func scenarios() []string {
	return []string{"ok", "cut", "junk", "error-400", "error-200", "error-500", "page-502", "redirect", "encoding", "late-error", "error-429", "error-401"}
}

// conversation returns a request with marked texts in all of its parts.
func conversation(stream bool, prompt string) *llm.Request {
	limit := int64(50)
	return &llm.Request{
		Stream: stream, Output: llm.Output{MaxTokens: &limit},
		Identity: llm.Identity{User: "pr1vate-user@example.com"},
		Tools:    []llm.Tool{{Kind: llm.FunctionTool, Name: "lookup", Description: "pr1vate description", Schema: `{"type":"object","properties":{"q":{"type":"string","description":"pr1vate parameter"}}}`}},
		Turns: []llm.Turn{
			{Role: llm.System, Blocks: []llm.Block{&llm.Text{Text: "pr1vate system text"}}},
			{Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: prompt}}},
			{Role: llm.Assistant, Blocks: []llm.Block{&llm.ToolCall{CallID: "call_1", Kind: llm.FunctionTool, Name: "lookup", Args: `{"q":"pr1vate argument"}`}}},
			{Role: llm.ToolRole, Blocks: []llm.Block{&llm.ToolResult{CallID: "call_1", Name: "lookup", Kind: llm.FunctionTool, Blocks: []llm.Block{&llm.Text{Text: "pr1vate result"}}}}},
			{Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: "pr1vate question of pr1vate-mail@example.com"}}},
		},
	}
}

// reply returns a response with marked texts in all of its parts. The tail is at the end of its
// reasoning and of its text.
func reply(tail string) *llm.Response {
	return &llm.Response{ID: "r1", Model: "m", Created: 1770000000, Usage: &llm.Usage{Input: 7, Output: 3}, Choices: []llm.Choice{{
		Blocks: []llm.Block{
			&llm.Thought{Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: "pr1vate thought" + tail}}},
			&llm.Text{Text: "pr1vate answer" + tail},
			&llm.ToolCall{CallID: "call_2", Kind: llm.FunctionTool, Name: "lookup", Args: `{"q":"pr1vate argument of the response"}`},
		},
		Stop: llm.Stop{Kind: llm.ToolUse}}}}
}

// upstreamPath finds the model in the paths of dialects whose path has it.
var upstreamPath = regexp.MustCompile(`/models?/([^/:]+)[:/]([a-zA-Z-]+)`)

// asked returns the model and the stream flag of an upstream request.
func asked(r upstreamtest.Request) (model string, stream bool) {
	if m := upstreamPath.FindStringSubmatch(r.Path); m != nil {
		return m[1], strings.Contains(strings.ToLower(m[2]), "stream")
	}
	var body struct {
		Model  string
		Stream bool
	}
	_ = json.Unmarshal(r.Body, &body) // an invalid body has no model
	return body.Model, body.Stream
}

// script responds as an upstream of a dialect does, by the model's name.
func (g *watched) script(t *testing.T, d *codec.Dialect) upstreamtest.Script {
	return func(c *upstreamtest.Conn) {
		if c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead { // the list of models, or the way there
			c.Whole(http.StatusNotFound, testrig.JSONMedia, "{}")
			return
		}
		model, stream := asked(c.Request)
		headers := fmt.Sprint(c.Request.Header)
		if !bytes.Contains(c.Request.Body, []byte(private)) || !strings.Contains(headers, credentialOf(d.Name)) {
			t.Errorf("the upstream of %s got %s %s, and nothing private is at stake", model, c.Request.Body, headers)
		}
		if !stream || !g.sendStream(c, d, model) {
			g.sendWhole(c, d, model)
		}
		g.served.Store(fmt.Sprintf("%s %s %t", d.Name, model, stream), true)
	}
}

// fault returns an error of the upstream that quotes the prompt and the credential.
func fault(d *codec.Dialect) string {
	text := "pr1vate: the key " + credentialOf(d.Name) + " may not send the pr1vate prompt"
	return string(d.Codec.EncodeError(&llm.Error{Kind: llm.InvalidRequest, Code: text, Param: text, Message: text, Relayed: true}))
}

// sendWhole sends a response without a stream.
func (g *watched) sendWhole(c *upstreamtest.Conn, d *codec.Dialect, model string) {
	kind, number, _ := strings.Cut(model, "-")
	tail := ""
	if kind == "panic" {
		tail = panicMark
	}
	body := string(d.Codec.EncodeResponse(reply(tail), &llm.Request{}, &llm.Report{}))
	odd := []string{"X-Request-Id", "pr1vate id with blanks", "X-Ratelimit-Pr1vate", "1", "Server", "pr1vate"}
	switch kind {
	case "cut":
		c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:len(body)*2/3]))
		return
	case "junk":
		c.Whole(http.StatusOK, testrig.JSONMedia, "pr1vate "+credentialOf(d.Name)+" is not JSON", odd...)
	case "page":
		c.Whole(http.StatusBadGateway, "text/html", "<html>pr1vate "+credentialOf(d.Name)+"</html>", odd...)
	case "redirect":
		c.Whole(http.StatusFound, testrig.JSONMedia, "{}", "Location", "http://127.0.0.1:1/?pr1vate")
	case "encoding":
		c.Whole(http.StatusOK, testrig.JSONMedia, "pr1vate", "Content-Encoding", "gzip")
	case "error":
		var status int
		_, _ = fmt.Sscan(number, &status) // the test's own names
		c.Whole(status, testrig.JSONMedia, fault(d), odd...)
	default:
		c.Whole(http.StatusOK, testrig.JSONMedia, body, odd...)
	}
	c.KeepAlive()
}

// sendStream sends a stream. It reports false for a scenario that has none.
func (g *watched) sendStream(c *upstreamtest.Conn, d *codec.Dialect, model string) bool {
	tail := ""
	if model == "panic" || model == "late" && bytes.Contains(c.Request.Body, []byte("burst")) {
		tail = panicMark
	}
	switch model {
	case "ok", "cut", "late-error", "junk", "panic", "hold", "late":
	default:
		return false
	}
	if model == "late" && bytes.Contains(c.Request.Body, []byte("wait")) {
		c.Gone(patience)
		return true
	}
	media := testrig.StreamMedia
	if d.Frames != nil {
		media = "application/vnd.amazon.eventstream"
	}
	c.Send("HTTP/1.1 200 OK\r\nContent-Type: " + media + "\r\nX-Request-Id: pr1vate id with blanks\r\nTransfer-Encoding: chunked\r\n\r\n")
	if model == "junk" {
		c.Chunk("data: pr1vate " + credentialOf(d.Name) + "\n\n")
		c.EndStream()
		return true
	}
	encoder := d.Codec.NewStreamEncoder(&llm.Request{Stream: true, IncludeUsage: true})
	events := llm.Explode(reply(tail))
	for i, e := range events {
		if i == len(events)-2 && (model == "cut" || model == "late-error" || model == "hold") {
			break
		}
		if b := encoder.Encode(e, nil); len(b) > 0 { // an empty chunk would end the stream
			c.Chunk(frames(d, b))
		}
	}
	switch model {
	case "hold":
		c.Gone(patience)
		return true
	case "cut":
		return true
	case "late-error":
		message := "pr1vate: the key " + credentialOf(d.Name) + " broke the pr1vate answer"
		c.Chunk(frames(d, encoder.Encode(llm.Failure{Err: &llm.Error{Kind: llm.Upstream, Code: message, Message: message}}, nil)))
	}
	c.EndStream()
	c.KeepAlive()
	return true
}

// frames returns events in the form in which the dialect's streams carry them.
func frames(d *codec.Dialect, events []byte) string {
	if d.Frames == nil {
		return string(events)
	}
	framed, err := eventstream.NewWriter(d.Frames).Frames(events)
	if err != nil {
		panic(err)
	}
	return string(framed)
}

// exchange is a request of a client.
type exchange struct {
	client     *codec.Dialect
	model      string
	stream     bool
	prompt     string
	credential string
	query      string
}

// send sends a request with marked texts in every header and returns the response.
func (g *watched) send(t *testing.T, x exchange, headers ...string) (status int, text string, header http.Header) {
	t.Helper()
	resp := g.open(t, x, headers...)
	if resp == nil {
		return 0, "", nil
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body) // a truncated response counts too
	text = string(body)
	if strings.Contains(text+fmt.Sprint(resp.Header), secret) {
		t.Errorf("%s: the client of %s got %s %s", x.model, x.client.Name, resp.Header, text)
	}
	g.sent.Add(1)
	return resp.StatusCode, text, resp.Header
}

// open sends a request. It returns nil if the connection was closed without a response.
func (g *watched) open(t *testing.T, x exchange, headers ...string) *http.Response {
	t.Helper()
	if x.prompt == "" {
		x.prompt = "pr1vate prompt"
	}
	out, fault := x.client.Codec.EncodeRequest(conversation(x.stream, x.prompt), protocol.Target{Model: x.model}, &llm.Report{})
	if fault != nil {
		t.Error(fault)
		return nil
	}
	at := out.Path
	if e, ok := g.table.Generate(x.client.Name, x.model); ok && e.Path != "" {
		at = e.Path
	}
	address, err := url.Parse(g.url + at)
	if err != nil {
		t.Error(err)
		return nil
	}
	q := address.Query()
	q.Set("note", "pr1vate")
	address.RawQuery = strings.TrimPrefix(q.Encode()+x.query, "&")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address.String(), bytes.NewReader(out.Body))
	if err != nil {
		t.Error(err)
		return nil
	}
	req.GetBody = nil // the transport does not send it again
	for name, values := range out.Header {
		req.Header[name] = values
	}
	for _, name := range []string{"Cookie", "X-Custom", "Openai-Beta", "X-Client-Request-Id", "X-Forwarded-For", "Referer"} {
		req.Header.Set(name, "pr1vate")
	}
	req.Header.Set("User-Agent", named+"-agent/1.0")
	req.Header.Set("Isogloss-Tags", "project="+named+"-tag")
	req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	req.Header.Set("Tracestate", "vendor=pr1vate")
	req.Header.Set("Baggage", "user=pr1vate")
	req.Header.Set("Content-Type", testrig.JSONMedia)
	if x.credential == "" {
		x.credential = "s3cret-client-key-0001"
	}
	req.Header.Set("Authorization", "Bearer "+x.credential)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil && !strings.Contains(err.Error(), "EOF") {
		t.Error(err)
	}
	return resp
}

// playPairs sends a request in every dialect to an upstream of every dialect, streaming and
// not, in every scenario, from callers of every kind.
func (g *watched) playPairs(t *testing.T, scenarios []string) {
	t.Helper()
	callers := []string{"s3cret-client-key-0001", g.client, g.person}
	for _, scenario := range scenarios {
		var wg sync.WaitGroup
		n := 0
		for _, client := range g.dialects {
			for _, up := range g.dialects {
				for _, stream := range []bool{false, true} {
					n++
					caller := callers[n%3]
					wg.Go(func() {
						status, text, header := g.send(t, exchange{client: client, model: string(up.Name) + "--" + scenario, stream: stream, credential: caller})
						if good := status == http.StatusOK && strings.Contains(text, private); scenario == "ok" && !good {
							t.Errorf("%s on %s, stream %t: %d %s %s", client.Name, up.Name, stream, status, header, text)
						}
					})
				}
			}
		}
		wg.Wait()
		for _, up := range g.dialects {
			for _, stream := range []bool{false, true} {
				if _, ok := g.served.Load(fmt.Sprintf("%s %s %t", up.Name, scenario, stream)); !ok {
					t.Errorf("%s has not served %s, stream %t", up.Name, scenario, stream)
				}
			}
		}
	}
}

// playOverAgain makes the gateway fail over, hedge, replay a response, and refuse callers.
func (g *watched) playOverAgain(t *testing.T) {
	t.Helper()
	for i, client := range g.dialects {
		for _, stream := range []bool{false, true} {
			status, text, header := g.send(t, exchange{client: client, model: "failover", stream: stream})
			if first := i == 0 && !stream; status != http.StatusOK || first && !strings.HasPrefix(header.Get("Isogloss-Attempts"), "3") {
				t.Errorf("failover of %s, stream %t: %d %s %s", client.Name, stream, status, header, text)
			}
			for _, bad := range []string{"pr1vate-wrong-key", g.person[:len(g.person)-3], ""} {
				g.send(t, exchange{client: client, model: "failover", stream: stream}, "Authorization", "Bearer "+bad)
			}
		}
		for range 2 { // the second one is a replay
			g.send(t, exchange{client: client, model: string(client.Name) + "--ok", credential: g.client}, "Idempotency-Key", "pr1vate-"+string(client.Name))
		}
		g.send(t, exchange{client: client, model: string(client.Name) + "--ok", credential: "no such key"})
	}
	g.hedge(t)
}

// hedgeable returns an exchange that is hedged. It sends streams until the gateway knows how
// fast the first target is.
func (g *watched) hedgeable(t *testing.T) exchange {
	t.Helper()
	x := exchange{client: g.dialects[0], model: "hedged", stream: true}
	for range 24 { // a percentile needs 20 samples
		g.send(t, x)
	}
	return x
}

// hedge sends a stream whose first target does not respond.
func (g *watched) hedge(t *testing.T) {
	t.Helper()
	x := g.hedgeable(t)
	x.prompt = "pr1vate prompt that has to wait"
	if status, text, header := g.send(t, x); status != http.StatusOK || !strings.HasPrefix(header.Get("Isogloss-Attempts"), "2") {
		t.Errorf("the hedged request: %d %s %s", status, header, text)
	}
}

// playOddities plays the exchanges of one dialect that only certain servers or clients have.
func (g *watched) playOddities(t *testing.T) {
	t.Helper()
	for _, e := range oddExchanges() {
		g.plain.Answer(e.script)
		before := len(g.plain.Requests())
		answer := g.ask(t, fmt.Sprintf(`{"model":%q,"stream":%t,"pr1vate_field":"pr1vate","messages":[{"role":"system","content":"pr1vate prompt"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"pr1vate\":1}"}}]}]}`, e.model, e.stream))
		if strings.Contains(answer, secret) {
			t.Errorf("%s: the client got %s", e.name, answer)
		}
		for _, r := range g.plain.Requests()[before:] {
			if !bytes.Contains(r.Body, []byte(private)) || r.Header.Get("Authorization") != "Bearer s3cret-provider-key" {
				t.Errorf("%s: the upstream was sent %+v, and nothing private is at stake", e.name, r)
			}
		}
	}
	g.plain.Answer(upstreamtest.JSON(http.StatusOK, wholeReply))
	g.askBadly(t)
	stream := g.openStream(t) // and leaves it
	_ = stream.Close()
}

// openStream returns the body of a stream that does not end.
func (g *watched) openStream(t *testing.T) io.ReadCloser {
	t.Helper()
	resp := g.open(t, exchange{client: g.dialects[0], model: "anthropic--hold", stream: true})
	if resp == nil {
		t.Fatal("no response")
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	return resp.Body
}

package sdks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/e2e/gosdk"
	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"google.golang.org/genai"
)

// TestGatewayResponses checks what an SDK makes of responses that the gateway writes
// itself or has to change: its own errors, upstream errors that clients must not see as
// their own, truncated answers and disconnects. The matrix checks the rest.
func TestGatewayResponses(t *testing.T) {
	const chunk = `data: {"id":"c","object":"chat.completion.chunk","created":1763000000,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"half"},"finish_reason":null}]}` + "\n\n"
	chat := rig.DialectNamed("openai-chat")
	whole := chat.Reply(hello).Body()
	bin := rig.Build(t)
	long := strings.Repeat("x", 12<<20)
	for name, c := range map[string]struct {
		steps []rig.Step // of the upstream
		call  func(context.Context, openai.Client) (string, error)
		text  string // of a complete answer
		fails string // part of the error
	}{
		"wrong key":           {call: complete("", option.WithAPIKey("isogloss-e2e-some-other-key")), fails: `401 Unauthorized`},
		"media type":          {call: complete("", option.WithHeader("Content-Type", "text/plain")), fails: "415"},
		"body limit":          {call: complete(long), fails: "413"}, // refused while the client is still sending
		"unknown model":       {call: getModel("no-such/model"), fails: "404"},
		"slash in a name":     {call: getModel("vendor/slashed"), text: "vendor/slashed"},
		"bad request":         {steps: []rig.Step{rig.Whole(400, chat.Problem(400, "Too many stop sequences: 9."))}, call: complete(""), fails: "Too many stop sequences: 9."},
		"provider's key":      {steps: []rig.Step{rig.Whole(401, chat.Problem(401, "Incorrect API key provided."))}, call: complete(""), fails: "502"}, // ERR-15: the client's key was fine
		"not JSON":            {steps: []rig.Step{rig.Typed("text/html", 502, "<html>")}, call: complete(""), fails: "502"},                            // ERR-13
		"the SDK's own retry": {steps: []rig.Step{rig.Whole(429, chat.Problem(429, "Slow down."), "Retry-After", "0", "Retry-After-Ms", "1"), rig.Whole(200, whole)}, call: complete("", option.WithMaxRetries(1)), text: hello.Text()},
		"truncated body":      {steps: []rig.Step{rig.CutWhole(whole)}, call: complete(""), fails: "502"},
		"truncated stream":    {steps: []rig.Step{rig.Stream(chunk)}, call: stream, fails: "StreamError"}, // SSE-19: the connection ends in order, the answer does not
		"error event":         {steps: []rig.Step{rig.Stream(chunk + `data: {"error":{"message":"The engine fell over.","type":"server_error","param":null,"code":null}}` + "\n\n")}, call: stream, fails: "The engine fell over."},
		"disconnect":          {steps: []rig.Step{rig.Hang()}, call: disconnect, fails: context.DeadlineExceeded.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			up := rig.NewUpstream(t)
			up.Play(c.steps)
			g := rig.StartGateway(t, bin, "keys: [ "+rig.ClientKey+" ]\nproviders:\n  up: { protocol: openai-chat, base_url: \""+up.URL()+"/chat/v1\", api_key: "+rig.UpstreamKey+
				" }\nmodels:\n  m: { targets: [up/gpt-5.4] }\n  vendor/slashed: { targets: [up/vendor/slashed] }\nlimits: { body: 8MiB }\nretries: { attempts: 1 }\n")
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			client := gosdk.OpenAI(gosdk.Options{BaseURL: g.URL + "/v1", Key: rig.ClientKey, HTTP: &http.Client{Transport: transport}})
			text, err := c.call(t.Context(), client)
			if c.fails == "" && (err != nil || text != c.text) || c.fails != "" && (err == nil || !strings.Contains(describe(err), c.fails)) {
				t.Errorf("%q, %v; want %q or an error with %q", text, describe(err), c.text, c.fails)
			}
			got := up.Requests()
			if len(got) != len(c.steps) {
				t.Errorf("the upstream got %d requests, want %d", len(got), len(c.steps))
			}
			if name == "disconnect" {
				checkAborted(t, got)
			}
		})
	}
}

// TestGeminiCountsTokens has Google's SDK count tokens on every upstream.
func TestGeminiCountsTokens(t *testing.T) {
	bin := rig.Build(t)
	for _, d := range rig.Dialects() {
		t.Run(d.Name, func(t *testing.T) {
			up := rig.NewUpstream(t)
			g := rig.StartGateway(t, bin, fmt.Sprintf("keys: [ %s ]\nproviders:\n  up: { protocol: %s, base_url: %q, api_key: %s }\nmodels:\n  m: { targets: [up/%s] }\n",
				rig.ClientKey, d.Name, up.URL()+d.Prefix, rig.UpstreamKey, d.Target))
			client, err := genai.NewClient(t.Context(), &genai.ClientConfig{APIKey: rig.ClientKey, Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: g.URL}})
			if err != nil {
				t.Fatal(err)
			}
			up.Always(d.Counts())
			count, err := client.Models.CountTokens(t.Context(), "m", genai.Text(askHello.User[0]), nil)
			got := up.Requests()
			if d.Counted == "" {
				var refused genai.APIError
				if !errors.As(err, &refused) || refused.Code != http.StatusNotImplemented || len(got) > 0 {
					t.Errorf("%v, and the upstream got:\n%s", err, dump(got))
				}
				return
			}
			if err != nil || count.TotalTokens != rig.TokensCounted || len(got) != 1 {
				t.Fatalf("%+v %v, and the upstream got:\n%s", count, err, dump(got))
			}
			if asked := d.Asked(got[0]); asked.Model != d.Target || !slices.Equal(asked.User, askHello.User) {
				t.Errorf("the upstream counts something else:\n%s", dump(got))
			}
		})
	}
}

func complete(more string, options ...option.RequestOption) func(context.Context, openai.Client) (string, error) {
	return func(ctx context.Context, c openai.Client) (string, error) {
		r, err := c.Chat.Completions.New(ctx, question(more), options...)
		if err != nil {
			return "", err
		}
		return r.Choices[0].Message.Content, nil
	}
}

func question(more string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say hello." + more)}}
}

func getModel(name string) func(context.Context, openai.Client) (string, error) {
	return func(ctx context.Context, c openai.Client) (string, error) {
		m, err := c.Models.Get(ctx, name)
		if err != nil {
			return "", err
		}
		return m.ID, nil
	}
}

func stream(ctx context.Context, c openai.Client) (string, error) {
	_, r, err := gosdk.Accumulate(ctx, c, question(""), func(openai.ChatCompletionChunk) bool { return false })
	if err != nil || len(r.Choices) == 0 {
		return "", err
	}
	return r.Choices[0].Message.Content, nil
}

func disconnect(ctx context.Context, c openai.Client) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	return complete("")(ctx, c)
}

// describe returns an error with the message of the response, or with the data of an
// error event.
func describe(err error) string {
	var event *ssestream.StreamError
	if errors.As(err, &event) {
		return "StreamError: " + string(event.Event.Data)
	}
	var refused *openai.Error
	if errors.As(err, &refused) {
		return err.Error() + ": " + refused.Message
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

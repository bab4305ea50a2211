package sdks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	anthropic1 "github.com/anthropics/anthropic-sdk-go"
	bedrock1 "github.com/anthropics/anthropic-sdk-go/bedrock"
	option1 "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/bedrock"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/anthropics/anthropic-sdk-go/v2/vertex"
	vertex1 "github.com/anthropics/anthropic-sdk-go/vertex"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/genai"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

const (
	bedrockModel = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
	vertexModel  = "claude-sonnet-4-5@20250929"
)

// googleKey is a key of the gateway in place of Google's tokens.
func googleKey(key string) *google.Credentials {
	return &google.Credentials{TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: key})}
}

// cloudClients returns Anthropic's SDK as it is configured for a cloud, with the gateway's address and key.
func cloudClients(ctx context.Context, base, key string) map[string]anthropic.Client {
	config := aws.Config{Region: "us-east-1", BearerAuthTokenProvider: bedrock.NewStaticBearerTokenProvider(key)}
	return map[string]anthropic.Client{
		bedrockModel: anthropic.NewClient(bedrock.WithConfig(config), option.WithBaseURL(base), option.WithMaxRetries(0)),
		vertexModel:  anthropic.NewClient(vertex.WithCredentials(ctx, "us-east5", "p-1", googleKey(key)), option.WithBaseURL(base), option.WithMaxRetries(0)),
	}
}

// TestCloudClients runs Anthropic's SDK, configured for Bedrock and for Vertex, against the gateway.
func TestCloudClients(t *testing.T) {
	bin := rig.Build(t)
	for _, name := range []string{"anthropic", "openai-chat"} {
		d := rig.DialectNamed(name)
		up := rig.NewUpstream(t)
		g := rig.StartGateway(t, bin, "keys: [ "+rig.ClientKey+" ]\nretries: { attempts: 1 }\nproviders:\n  up: { protocol: "+name+", base_url: \""+up.URL()+d.Prefix+"\", api_key: "+rig.UpstreamKey+
			" }\nmodels:\n  \""+bedrockModel+"\": { targets: [up/"+d.Target+"] }\n  \""+vertexModel+"\": { targets: [up/"+d.Target+"] }\n")
		for model, client := range cloudClients(t.Context(), g.URL, rig.ClientKey) {
			ask := anthropic.MessageNewParams{Model: model, MaxTokens: 64, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hi"))}}
			t.Run(name+" "+model, func(t *testing.T) {
				up.Play([]rig.Step{rig.Whole(200, d.Reply(hello).Body())})
				message, err := client.Messages.New(t.Context(), ask)
				if err != nil || len(message.Content) != 1 || message.Content[0].Text != hello.Text() {
					t.Errorf("%+v %v", message, err)
				}
				up.Play([]rig.Step{rig.Stream(d.Reply(callOne).Stream().All()...)})
				stream := client.Messages.NewStreaming(t.Context(), ask)
				var whole anthropic.Message
				for stream.Next() {
					if err := whole.Accumulate(stream.Current()); err != nil {
						t.Error(err)
					}
				}
				if err := stream.Err(); err != nil || len(whole.Content) != 1 || whole.Content[0].Name != "get_weather" || whole.StopReason != anthropic.StopReasonToolUse {
					t.Errorf("%+v %v", whole, err)
				}
				up.Play([]rig.Step{rig.Whole(429, d.Problem(429, "Slow down."))})
				_, err = client.Messages.New(t.Context(), ask)
				var fault *anthropic.Error
				if !errors.As(err, &fault) || fault.StatusCode != http.StatusTooManyRequests || !strings.Contains(fault.RawJSON(), "Slow down.") {
					t.Errorf("%v", err)
				}
				up.Play([]rig.Step{rig.CutStream(d.Reply(hello).Stream().Head...)})
				stream = client.Messages.NewStreaming(t.Context(), ask)
				for stream.Next() {
				}
				if stream.Err() == nil {
					t.Error("a stream that breaks off has no error")
				}
			})
		}
		for model, client := range cloudClients(t.Context(), g.URL, "sk-wrong") {
			_, err := client.Messages.New(t.Context(), anthropic.MessageNewParams{Model: model, MaxTokens: 64, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hi"))}})
			var fault *anthropic.Error
			if !errors.As(err, &fault) || fault.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s: %v", model, err)
			}
		}
	}
}

// TestVertexGenAI runs Google's SDK, configured for Vertex, against the gateway.
func TestVertexGenAI(t *testing.T) {
	d, up := rig.DialectNamed("gemini"), rig.NewUpstream(t)
	g := rig.StartGateway(t, rig.Build(t), "keys: [ "+rig.ClientKey+" ]\nproviders:\n  up: { preset: vertex, region: us-east5, project: p-9, base_url: \""+up.URL()+"\", api_key: "+rig.UpstreamKey+
		" }\nmodels:\n  gemini-3-pro: { targets: [up/gemini-3-pro] }\n")
	client, err := genai.NewClient(t.Context(), &genai.ClientConfig{Backend: genai.BackendVertexAI, Project: "p-1", Location: "global", HTTPClient: oauth2.NewClient(t.Context(), googleKey(rig.ClientKey).TokenSource),
		HTTPOptions: genai.HTTPOptions{BaseURL: g.URL}})
	if err != nil {
		t.Fatal(err)
	}
	up.Play([]rig.Step{rig.Whole(200, d.Reply(hello).Body()), rig.Stream(d.Reply(hello).Stream().All()...), rig.Whole(200, d.Counted)})
	response, err := client.Models.GenerateContent(t.Context(), "gemini-3-pro", genai.Text("Hi"), nil)
	if err != nil || response.Text() != hello.Text() {
		t.Errorf("%v %v", response, err)
	}
	text := ""
	for part, err := range client.Models.GenerateContentStream(t.Context(), "gemini-3-pro", genai.Text("Hi"), nil) {
		if err != nil {
			t.Fatal(err)
		}
		text += part.Text()
	}
	if text != hello.Text() {
		t.Error(text)
	}
	count, err := client.Models.CountTokens(t.Context(), "gemini-3-pro", genai.Text("Hi"), nil)
	if err != nil || count.TotalTokens != rig.TokensCounted {
		t.Errorf("%v %v", count, err)
	}
	for i, verb := range []string{"generateContent", "streamGenerateContent", "countTokens"} {
		if got := up.Requests()[i].Path(); got != "/v1beta1/projects/p-9/locations/us-east5/publishers/google/models/gemini-3-pro:"+verb {
			t.Error(got)
		}
	}
}

// TestCloudOracle compares what the gateway sends to a cloud with what Anthropic's SDK sends there for the same request.
func TestCloudOracle(t *testing.T) {
	d, up := rig.DialectNamed("anthropic"), rig.NewUpstream(t)
	g := rig.StartGateway(t, rig.Build(t), "keys: [ "+rig.ClientKey+" ]\nproviders:\n  bedrock: { preset: bedrock, base_url: \""+up.URL()+"\", api_key: "+rig.UpstreamKey+
		" }\n  vertex: { preset: vertex-anthropic, region: us-east5, project: p-1, base_url: \""+up.URL()+"\", api_key: "+rig.UpstreamKey+
		" }\nmodels:\n  \""+bedrockModel+"\": { targets: [\"bedrock/"+bedrockModel+"\"] }\n  \""+vertexModel+"\": { targets: [\"vertex/"+vertexModel+"\"] }\n")
	gateway := anthropic1.NewClient(option1.WithoutEnvironmentDefaults(), option1.WithBaseURL(g.URL), option1.WithAPIKey(rig.ClientKey), option1.WithMaxRetries(0))
	own := map[string]anthropic1.Client{
		bedrockModel: anthropic1.NewClient(bedrock1.WithConfig(aws.Config{Region: "us-east-1", BearerAuthTokenProvider: bedrock1.NewStaticBearerTokenProvider(rig.UpstreamKey)}), option1.WithBaseURL(up.URL()), option1.WithMaxRetries(0)),
		vertexModel:  anthropic1.NewClient(vertex1.WithCredentials(t.Context(), "us-east5", "p-1", googleKey(rig.UpstreamKey)), option1.WithBaseURL(up.URL()), option1.WithMaxRetries(0)),
	}
	type request struct {
		Path, Auth string
		Body       any
	}
	read := func(r *rig.Received) request {
		q := request{Auth: r.Header.Get("Authorization")}
		q.Path, _ = url.PathUnescape(r.Path())
		if err := json.Unmarshal(r.Body, &q.Body); err != nil {
			t.Error(err)
		}
		return q
	}
	for model, oracle := range own {
		for name, params := range map[string]anthropic1.MessageNewParams{
			"plain": {MaxTokens: 9, Messages: []anthropic1.MessageParam{anthropic1.NewUserMessage(anthropic1.NewTextBlock("Hi é 😀"))}},
			"more": {MaxTokens: 9, System: []anthropic1.TextBlockParam{{Text: "Be brief."}}, Temperature: anthropic1.Float(0.5), StopSequences: []string{"x"},
				Messages: []anthropic1.MessageParam{anthropic1.NewUserMessage(anthropic1.NewTextBlock("Hi")), anthropic1.NewAssistantMessage(anthropic1.NewTextBlock("Ho")), anthropic1.NewUserMessage(anthropic1.NewTextBlock("Hi"))}},
		} {
			params.Model = model
			up.Play([]rig.Step{rig.Whole(200, d.Reply(hello).Body()), rig.Whole(200, d.Reply(hello).Body())})
			_, err := oracle.Messages.New(t.Context(), params)
			_, err2 := gateway.Messages.New(t.Context(), params)
			got := up.Requests()
			if err != nil || err2 != nil || len(got) != 2 {
				t.Fatalf("%v, %v, %d requests", err, err2, len(got))
			}
			if diff := cmp.Diff(read(got[0]), read(got[1])); diff != "" {
				t.Errorf("%s, %s: %s", model, name, diff)
			}
		}
	}
}

package relay

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/eventstream"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// inEnvelope gives the provider an envelope, and routes to the model with its name.
func inEnvelope(name string, dialect protocol.Name, models ...string) func(*gateway) {
	return func(g *gateway) {
		speaking(dialect)(g)
		p := g.provider
		p.Envelope, p.Project, p.Location = name, "p-1", "us-east5"
		p.BaseURL.Path = ""
		g.extra = append(g.extra, models...)
	}
}

const (
	vertexModel  = "claude-sonnet-4-5@20250929"
	bedrockModel = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
	bedrockARN   = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/ab1"

	vertexClaude = "/v1/projects/p-1/locations/us-east5/publishers/anthropic/models/"
	vertexGoogle = "/projects/p-1/locations/us-east5/publishers/google/models/"
)

// claudeStream is the stream of a short response.
const claudeStream = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n" +
	"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
	"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hé \\ud83d\\ude00\"}}\n\n" +
	"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
	"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":2}}\n\n" +
	"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

// bedrockFrames are written by the test itself: a chunk holds an event as base64, beside padding.
var bedrockFrames = &codec.Frames{Encode: func(name, data []byte, to []codec.Frame) []codec.Frame {
	if exception, ok := strings.CutPrefix(string(name), "!"); ok {
		return append(to, codec.Frame{Type: codec.ExceptionFrame, Name: exception, Payload: bytes.Clone(data)})
	}
	payload := `{"bytes":"` + base64.StdEncoding.EncodeToString(data) + `","p":"abcdefgh"}`
	return append(to, codec.Frame{Type: codec.EventFrame, Name: "chunk", Payload: []byte(payload)})
}}

// framed returns a stream as Bedrock sends it.
func framed(t testing.TB, events string) upstreamtest.Script {
	frames, err := eventstream.NewWriter(bedrockFrames).Frames([]byte(events))
	if err != nil {
		t.Fatal(err)
	}
	body := string(frames)
	return func(c *upstreamtest.Conn) { c.Whole(200, eventstream.MediaType, body) }
}

// TestWrappedRequests checks what clouds get for a client's request: the path, the members, and
// nothing else changed.
func TestWrappedRequests(t *testing.T) {
	const rest = `,"max_tokens":9, "messages" : [{"role":"user","content":"Hi"}]`
	for name, tt := range map[string]struct {
		envelope, model string
		path, body      string // of the client; the model is M in the body
		headers         []string
		script          upstreamtest.Script
		wantPath        string
		want            string
		got             string // the client's response; empty: messagesResponse
		fidelity        string // empty: exact
	}{
		"vertex": {"vertex", vertexModel, messagesPath, `{"model":"M"` + rest + `}`, nil, nil,
			vertexClaude + "claude-sonnet-4-5@20250929:rawPredict", `{"anthropic_version":"vertex-2023-10-16"` + rest + `}`, "", ""},
		"vertex stream": {"vertex", vertexModel, messagesPath, `{"stream":true,"model": "M"` + rest + `}`, []string{"Anthropic-Beta", "a-1, b-2"}, upstreamtest.Stream(claudeStream),
			vertexClaude + "claude-sonnet-4-5@20250929:streamRawPredict", `{"stream":true,"anthropic_version": "vertex-2023-10-16","anthropic_beta":["a-1","b-2"]` + rest + `}`, claudeStream, ""},
		"vertex, newer version": {"vertex", vertexModel, messagesPath, `{"model":"M"` + rest + `}`, []string{"Anthropic-Version", newVersion}, nil,
			vertexClaude + "claude-sonnet-4-5@20250929:rawPredict", `{"anthropic_version":"2026-10-21"` + rest + `}`, "", ""},
		"vertex count": {"vertex", vertexModel, messagesPath + "/count_tokens", `{"model":"M","messages":[]}`, nil, upstreamtest.JSON(200, `{"input_tokens":7}`),
			vertexClaude + "count-tokens:rawPredict", `{"model":"claude-sonnet-4-5@20250929","anthropic_version":"vertex-2023-10-16","messages":[]}`, `{"input_tokens":7}`, ""},
		"bedrock": {"bedrock", bedrockModel, messagesPath, `{"stream":false,"tags":{"a":"b"},"model":"M"` + rest + `}`, []string{"Anthropic-Beta", "tags-2026-09-01,c-3"}, nil,
			"/model/us.anthropic.claude-sonnet-4-5-20250929-v1:0/invoke", `{"anthropic_version":"bedrock-2023-05-31","anthropic_beta":["c-3"]` + rest + `}`, "", `dropped;a=0;d=1;codes="tags.unsupported"`},
		"bedrock ARN": {"bedrock", bedrockARN, messagesPath, `{"model":"M"` + rest + `}`, nil, nil,
			"/model/arn:aws:bedrock:us-east-1:123456789012:application-inference-profile%2Fab1/invoke", `{"anthropic_version":"bedrock-2023-05-31"` + rest + `}`, "", ""},
		"bedrock stream": {"bedrock", bedrockModel, messagesPath, `{"model":"M"` + rest + `,"stream":true}`, nil, framed(t, claudeStream),
			"/model/us.anthropic.claude-sonnet-4-5-20250929-v1:0/invoke-with-response-stream", `{"anthropic_version":"bedrock-2023-05-31"` + rest + `}`, claudeStream, ""},
		"bedrock count": {"bedrock", bedrockModel, messagesPath + "/count_tokens", `{"model":"M","messages":[]}`, nil, upstreamtest.JSON(200, `{"inputTokens":7}`),
			"/model/anthropic.claude-sonnet-4-5-20250929-v1:0/count-tokens", `{"input":{"invokeModel":{"body":"` + base64.StdEncoding.EncodeToString([]byte(`{"anthropic_version":"bedrock-2023-05-31","messages":[],"max_tokens":1}`)) + `"}}}`, `{"input_tokens":7}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, inEnvelope(tt.envelope, anthropicDialect, tt.model))
			if tt.script == nil {
				tt.script = upstreamtest.JSON(200, messagesResponse)
			}
			g.up.Answer(tt.script)
			resp, body, err := g.post(t, tt.path, strings.Replace(tt.body, "M", tt.model, 1), tt.headers...)
			sent := g.up.Last(t)
			if err != nil || resp.StatusCode != http.StatusOK || body != either(tt.got, messagesResponse) {
				t.Errorf("%s %q %v", resp.Status, body, err)
			}
			if sent.Path != tt.wantPath || string(sent.Body) != tt.want {
				t.Errorf("sent %s\n%s\nwant %s\n%s", sent.Path, sent.Body, tt.wantPath, tt.want)
			}
			if sent.Header.Get("Anthropic-Version") != "" || sent.Header.Get("Anthropic-Beta") != "" {
				t.Errorf("headers %v", sent.Header)
			}
			if f := resp.Header.Get("Isogloss-Fidelity"); !strings.HasPrefix(f, either(tt.fidelity, "exact")) {
				t.Errorf("fidelity %s", f)
			}
			if tt.fidelity != "" {
				if resp, body, _ := g.post(t, tt.path, strings.Replace(tt.body, "M", tt.model, 1), exchange.ModeHeader, "strict"); resp.StatusCode != http.StatusBadRequest {
					t.Errorf("strict: %s %s", resp.Status, body)
				}
			}
		})
	}
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// TestVertexGemini checks the paths of Gemini on Vertex, and the body of a token count.
func TestVertexGemini(t *testing.T) {
	const wrapped = `{"generateContentRequest":{"model":"models/gemini-3-pro","contents":[]}}`
	for _, tt := range []struct{ asked, body, version, sent, want string }{
		{"/v1beta/models/gemini-3-pro:generateContent", geminiRequest, "", "/v1beta1" + vertexGoogle + "gemini-3-pro:generateContent", geminiRequest},
		{"/v1/models/gemini-3-pro:generateContent", geminiRequest, "v1", "/v1" + vertexGoogle + "gemini-3-pro:generateContent", geminiRequest},
		{"/v1beta1/projects/x/locations/y/publishers/google/models/gemini-3-pro:generateContent", geminiRequest, "", "/v1beta1" + vertexGoogle + "gemini-3-pro:generateContent", geminiRequest},
		{"/v1beta/models/gemini-3-pro:countTokens", wrapped, "", "/v1beta1" + vertexGoogle + "gemini-3-pro:countTokens", `{"contents":[]}`},
		{"/v1beta/models/gemini-3-pro:countTokens", geminiRequest, "", "/v1beta1" + vertexGoogle + "gemini-3-pro:countTokens", geminiRequest},
	} {
		g := newGateway(t, inEnvelope("vertex", geminiDialect, "gemini-3-pro"), pinned(tt.version))
		answer := geminiResponse
		if strings.Contains(tt.asked, "count") {
			answer = `{"totalTokens":7}`
		}
		g.up.Answer(upstreamtest.JSON(200, answer))
		resp, body, _ := g.post(t, tt.asked, tt.body)
		if sent := g.up.Last(t); resp.StatusCode != http.StatusOK || body != answer || sent.Path != tt.sent || string(sent.Body) != tt.want {
			t.Errorf("%s: %s %s; sent %s %s", tt.asked, resp.Status, body, sent.Path, sent.Body)
		}
	}
	g := newGateway(t, inEnvelope("vertex", geminiDialect, "gemini-3-pro"))
	stream := "data: " + geminiResponse + "\n\n"
	g.up.Answer(upstreamtest.Stream(stream))
	resp, body, _ := g.post(t, "/v1/projects/x/locations/y/publishers/google/models/gemini-3-pro:streamGenerateContent?alt=sse", geminiRequest)
	if sent := g.up.Last(t); resp.StatusCode != http.StatusOK || body != stream || sent.Path != "/v1"+vertexGoogle+"gemini-3-pro:streamGenerateContent?alt=sse" {
		t.Errorf("%s %s; sent %s", resp.Status, body, sent.Path)
	}
}

// TestWrappedTranslations checks that clients of another dialect reach clouds.
func TestWrappedTranslations(t *testing.T) {
	const ask = `{"model":"M","stream":S,"messages":[{"role":"user","content":"Hi"}]}`
	for _, envelope := range []string{"vertex", "bedrock"} {
		g := newGateway(t, inEnvelope(envelope, anthropicDialect, "claude-x"))
		body := strings.NewReplacer("M", "claude-x", "S", "false").Replace(ask)
		g.up.Answer(upstreamtest.JSON(200, messagesResponse))
		resp, got, _ := g.post(t, "/v1/chat/completions", body)
		sent := g.up.Last(t)
		if resp.StatusCode != http.StatusOK || !strings.Contains(got, `"content":"Hi"`) || !strings.Contains(string(sent.Body), `"anthropic_version":"`+envelope+`-`) || strings.Contains(string(sent.Body), `"model"`) {
			t.Errorf("%s: %s %s; sent %s", envelope, resp.Status, got, sent.Body)
		}
		g.up.Answer(upstreamtest.Stream(claudeStream))
		if envelope == "bedrock" {
			g.up.Answer(framed(t, claudeStream))
		}
		resp, got, _ = g.post(t, "/v1/chat/completions", strings.NewReplacer("M", "claude-x", "S", "true").Replace(ask))
		sent = g.up.Last(t)
		if resp.StatusCode != http.StatusOK || !strings.Contains(got, "Hé 😀") || !strings.Contains(got, "[DONE]") || strings.Contains(string(sent.Body), `"stream"`) != (envelope == "vertex") {
			t.Errorf("%s: %s %s; sent %s", envelope, resp.Status, got, sent.Body)
		}
	}
}

// TestModelsOfCloudsAreSegments checks that a model from a client stays one segment of the path.
func TestModelsOfCloudsAreSegments(t *testing.T) {
	for _, tt := range []struct{ envelope, model, sent string }{
		{"bedrock", "a/b", "/model/a%2Fb/invoke"},
		{"bedrock", "arn:aws:x:1:2:y/z", "/model/arn:aws:x:1:2:y%2Fz/invoke"},
		{"bedrock", "a b", ""},
		{"bedrock", "a?b", ""},
		{"bedrock", "a%2fb", ""},
		{"bedrock", "a#b", ""},
		{"bedrock", "a@evil.example.com", ""},
		{"bedrock", "...", ""},
		{"vertex", "a@1", vertexClaude + "a@1:rawPredict"},
		{"vertex", "a/b", ""},
		{"vertex", "a:b", ""},
		{"vertex", "é", ""},
	} {
		g := newGateway(t, inEnvelope(tt.envelope, anthropicDialect))
		g.up.Answer(upstreamtest.JSON(200, messagesResponse))
		model, _ := json.Marshal("any/" + tt.model)
		resp, body, _ := g.post(t, messagesPath, strings.Replace(messagesRequest, `"m"`, string(model), 1))
		if tt.sent == "" {
			if resp.StatusCode != http.StatusBadRequest || len(g.up.Requests()) > 0 || !strings.Contains(body, "invalid_model") {
				t.Errorf("%s: %s %s", tt.model, resp.Status, body)
			}
			continue
		}
		if sent := g.up.Last(t); resp.StatusCode != http.StatusOK || sent.Path != tt.sent {
			t.Errorf("%s: %s %s; sent %s", tt.model, resp.Status, body, sent.Path)
		}
	}
}

// TestUnwrappedErrors checks that clients read errors of clouds in the form of their dialect, without names of accounts.
func TestUnwrappedErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		envelope string
		status   int
		body     string
		want     int
		word     string
		message  string
	}{
		"too long":   {"bedrock", 400, `{"message":"Input is too long."}`, 400, "invalid_request_error", "prompt is too long: Input is too long."},
		"throttled":  {"bedrock", 429, `{"message":"Too many tokens, please wait before trying again."}`, 429, "rate_limit_error", "Too many tokens, please wait before trying again."},
		"validation": {"bedrock", 400, `{"message":"The provided model identifier arn:aws:bedrock:us-east-1:123456789012:x/y is invalid."}`, 400, "invalid_request_error", "The provided model identifier … is invalid."},
		"denied":     {"bedrock", 403, `{"Message":"User: arn:aws:iam::123456789012:user/x is not authorized"}`, 502, "api_error", "the provider 'up' rejected the gateway's own credential; its api_key must be fixed"},
		"model":      {"bedrock", 424, `{"message":"The model failed"}`, 502, "api_error", "The model failed"},
		"no quota":   {"vertex", 429, `[{"error":{"code":429,"message":"Quota exceeded for projects/p-1/x","status":"RESOURCE_EXHAUSTED"}}]`, 429, "rate_limit_error", "Quota exceeded for …/x"},
		"own":        {"vertex", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: required"},"request_id":"r"}`, 400, "invalid_request_error", "max_tokens: required"},
	} {
		g := newGateway(t, inEnvelope(tt.envelope, anthropicDialect, "m"))
		g.up.Answer(upstreamtest.JSON(tt.status, tt.body))
		for _, stream := range []string{"", `"stream":true,`} {
			resp, body, _ := g.post(t, messagesPath, strings.Replace(messagesRequest, "{", "{"+stream, 1))
			f := readFault(t, anthropicDialect, body)
			if resp.StatusCode != tt.want || f.word != tt.word || f.message != tt.message {
				t.Errorf("%s: %s %s", name, resp.Status, body)
			}
			if name == "own" && body != tt.body {
				t.Errorf("%s: %s", name, body)
			}
		}
	}
}

// TestFramesThatFail checks streams of Bedrock that end with an exception, or break off.
func TestFramesThatFail(t *testing.T) {
	begun, _, _ := strings.Cut(claudeStream, "event: content_block_stop")
	ask := strings.Replace(messagesRequest, "{", `{"stream":true,`, 1)
	for name, tt := range map[string]struct{ events, want string }{
		"throttled":  {begun + "event: !throttlingException\ndata: {\"message\":\"slow down\"}\n\n", `"rate_limit_error","message":"slow down"`},
		"model":      {begun + "event: !modelStreamErrorException\ndata: {\"message\":\"broken\",\"originalStatusCode\":500}\n\n", `"api_error","message":"broken"`},
		"validation": {begun + "event: !validationException\ndata: {\"message\":\"no\"}\n\n", `"invalid_request_error","message":"no"`},
		"truncated":  {begun, "upstream_truncated"},
	} {
		g := newGateway(t, inEnvelope("bedrock", anthropicDialect, "m"))
		g.up.Answer(framed(t, tt.events))
		resp, body, _ := g.post(t, messagesPath, ask)
		if resp.StatusCode != http.StatusOK || !strings.HasPrefix(body, begun) || !strings.Contains(body, tt.want) || strings.Count(body, "event: error") != 1 {
			t.Errorf("%s: %s %s", name, resp.Status, body)
		}
	}
	g := newGateway(t, inEnvelope("bedrock", anthropicDialect, "m"))
	g.up.Answer(framed(t, "event: !serviceUnavailableException\ndata: {\"message\":\"later\"}\n\n"))
	if resp, body, _ := g.post(t, messagesPath, ask); resp.StatusCode != 529 || !strings.Contains(body, "later") {
		t.Errorf("before the first event: %s %s", resp.Status, body)
	}
	g.up.Answer(func(c *upstreamtest.Conn) { c.Whole(200, eventstream.MediaType, "these are no frames at all") })
	if resp, body, _ := g.post(t, messagesPath, ask); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("no frames: %s %s", resp.Status, body)
	}
}

// TestClientsOfClouds sends requests as clients do that are configured for a cloud, to an upstream without an envelope.
func TestClientsOfClouds(t *testing.T) {
	const rest = `,"max_tokens":9, "messages" : [{"role":"user","content":"Hi"}]`
	vertexAt := func(verb string) string {
		return "/v1/projects/any/locations/global/publishers/anthropic/models/claude-sonnet-4-5@20250929:" + verb
	}
	bedrockAt := "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/"
	for name, tt := range map[string]struct{ path, body, want, version, beta string }{
		"vertex":               {vertexAt("rawPredict"), `{"anthropic_version":"vertex-2023-10-16"` + rest + `}`, `{"model":"` + vertexModel + `"` + rest + `}`, oldVersion, ""},
		"vertex, newer":        {vertexAt("rawPredict"), `{"anthropic_version":"2026-10-21"` + rest + `}`, `{"model":"` + vertexModel + `"` + rest + `}`, newVersion, ""},
		"vertex, escaped":      {strings.Replace(vertexAt("rawPredict"), "@", "%40", 1), `{"max_tokens":9,"anthropic_beta":["a","b"],"messages":[]}`, `{"max_tokens":9,"messages":[],"model":"` + vertexModel + `"}`, oldVersion, "a,b"},
		"vertex stream":        {vertexAt("streamRawPredict"), `{"stream":true,"anthropic_version":"vertex-2023-10-16"` + rest + `}`, `{"model":"` + vertexModel + `","stream":true` + rest + `}`, oldVersion, ""},
		"bedrock":              {bedrockAt + "invoke", `{"anthropic_beta":["a"],"anthropic_version":"bedrock-2023-05-31"` + rest + `}`, `{"model":"` + bedrockModel + `"` + rest + `}`, oldVersion, "a"},
		"bedrock stream":       {bedrockAt + "invoke-with-response-stream", `{"anthropic_version":"bedrock-2023-05-31"` + rest + `}`, `{"model":"` + bedrockModel + `","stream":true` + rest + `}`, oldVersion, ""},
		"bedrock count":        {bedrockAt + "count-tokens", `{"input":{"invokeModel":{"body":"` + base64.StdEncoding.EncodeToString([]byte(`{"anthropic_version":"bedrock-2023-05-31","messages":[]}`)) + `"}}}`, `{"model":"` + bedrockModel + `","messages":[]}`, oldVersion, ""},
		"vertex count":         {strings.Replace(vertexAt("rawPredict"), vertexModel, "count-tokens", 1), `{"model":"` + vertexModel + `","anthropic_version":"vertex-2023-10-16","messages":[]}`, `{"model":"` + vertexModel + `","messages":[]}`, oldVersion, ""},
		"header of the client": {bedrockAt + "invoke", `{"anthropic_version":"2026-10-21"` + rest + `}`, `{"model":"` + bedrockModel + `"` + rest + `}`, newVersion, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, speaking(anthropicDialect), func(g *gateway) { g.extra = []string{vertexModel, bedrockModel} })
			stream, count := strings.Contains(name, "stream"), strings.Contains(name, "count")
			switch {
			case stream:
				g.up.Answer(upstreamtest.Stream("event: ping\ndata: {\"type\":\"ping\"}\n\n" + claudeStream))
			case count:
				g.up.Answer(upstreamtest.JSON(200, `{"input_tokens":7}`))
			default:
				g.up.Answer(upstreamtest.JSON(200, messagesResponse))
			}
			resp, body, _ := g.post(t, tt.path, tt.body, "Anthropic-Version", oldVersion)
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("%s %s", resp.Status, body)
			}
			sent := g.up.Last(t)
			wantPath := messagesPath
			if count {
				wantPath += "/count_tokens"
			}
			if string(sent.Body) != tt.want || sent.Path != wantPath || sent.Header.Get("Anthropic-Version") != tt.version || sent.Header.Get("Anthropic-Beta") != tt.beta {
				t.Errorf("sent %s %v\n%s\nwant\n%s", sent.Path, sent.Header, sent.Body, tt.want)
			}
			bedrock := strings.HasPrefix(tt.path, "/model/")
			switch {
			case stream && bedrock:
				if media := resp.Header.Get("Content-Type"); media != eventstream.MediaType || readFrames(t, body) != claudeStream {
					t.Errorf("%s %q", media, readFrames(t, body))
				}
			case stream:
				if !strings.HasSuffix(body, claudeStream) {
					t.Errorf("%q", body)
				}
			case count && bedrock:
				if body != `{"inputTokens":7}` {
					t.Error(body)
				}
			case count:
				if body != `{"input_tokens":7}` {
					t.Error(body)
				}
			default:
				if body != messagesResponse {
					t.Error(body)
				}
			}
		})
	}
}

// readFrames returns the events of Bedrock's frames, with exceptions as events.
func readFrames(t testing.TB, body string) string {
	t.Helper()
	frames := &codec.Frames{Decode: func(f codec.Frame, to []byte) []byte {
		if f.Type != codec.EventFrame {
			return sse.AppendEvent(to, "!"+f.Name, f.Payload)
		}
		var chunk struct{ Bytes []byte }
		var event struct{ Type string }
		if json.Unmarshal(f.Payload, &chunk) != nil || json.Unmarshal(chunk.Bytes, &event) != nil {
			t.Errorf("a frame with %s", f.Payload)
		}
		return sse.AppendEvent(to, event.Type, chunk.Bytes)
	}}
	events, err := io.ReadAll(eventstream.NewReader(io.NopCloser(strings.NewReader(body)), frames))
	if err != nil {
		t.Error(err)
	}
	return string(events)
}

// TestErrorsForClientsOfBedrock checks the form of errors, with a status and inside of a stream.
func TestErrorsForClientsOfBedrock(t *testing.T) {
	g := newGateway(t, speaking(anthropicDialect), func(g *gateway) { g.extra = []string{bedrockModel} })
	const ask = `{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`
	for _, tt := range []struct {
		status           int
		body, typ, words string
	}{
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}`, "ValidationException", "Input is too long. prompt is too long: 9 tokens > 8 maximum"},
		{429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`, "ThrottlingException", "slow"},
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`, "ServiceUnavailableException", "busy"},
		{500, `{"type":"error","error":{"type":"api_error","message":"oops"}}`, "InternalServerException", "oops"},
	} {
		g.up.Answer(upstreamtest.JSON(tt.status, tt.body))
		for _, verb := range []string{"invoke", "invoke-with-response-stream"} {
			resp, body, err := g.post(t, "/model/"+bedrockModel+"/"+verb, ask)
			if err != nil || resp.StatusCode != tt.status || resp.Header.Get("X-Amzn-Errortype") != tt.typ || body != strings.TrimSuffix(tt.body, "}")+`,"message":"`+tt.words+`"}` {
				t.Errorf("%s: %s %v %s", verb, resp.Status, resp.Header, body)
			}
		}
	}
	begun, _, _ := strings.Cut(claudeStream, "event: content_block_stop")
	g.up.Answer(upstreamtest.Stream(begun + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n"))
	_, body, _ := g.post(t, "/model/"+bedrockModel+"/invoke-with-response-stream", ask)
	if got := readFrames(t, body); got != begun+"event: !serviceUnavailableException\ndata: {\"message\":\"busy\"}\n\n" {
		t.Errorf("%q", got)
	}
	resp, body, _ := g.post(t, "/model/unknown/invoke", ask)
	if resp.StatusCode != http.StatusNotFound || resp.Header.Get("X-Amzn-Errortype") != "ResourceNotFoundException" {
		t.Errorf("%s %s", resp.Status, body)
	}
	resp, body, _ = g.post(t, "/model/"+bedrockModel+"/count-tokens", `{"input":{}}`)
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "invokeModel") {
		t.Errorf("%s %s", resp.Status, body)
	}
}

// TestOverflowFromCloudToCloud checks that Bedrock's words for a prompt that is too long reach a client of Bedrock.
func TestOverflowFromCloudToCloud(t *testing.T) {
	g := newGateway(t, inEnvelope("bedrock", anthropicDialect, bedrockModel))
	g.up.Answer(upstreamtest.JSON(400, `{"message":"Input is too long."}`))
	resp, body, _ := g.post(t, "/model/"+bedrockModel+"/invoke", `{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`)
	if resp.StatusCode != http.StatusBadRequest || !strings.HasSuffix(body, `,"message":"Input is too long."}`) {
		t.Errorf("%s %s", resp.Status, body)
	}
}

// TestSignaturesAreRefused checks that a client that signs its requests reads which setting to use instead.
func TestSignaturesAreRefused(t *testing.T) {
	g := newGateway(t, speaking(anthropicDialect), func(g *gateway) {
		g.extra = []string{bedrockModel}
		g.state.Keys = access.NewKeys([]access.Key{{Secret: "sk-1"}})
	})
	resp, body, _ := g.post(t, "/model/"+bedrockModel+"/invoke", messagesRequest, "Authorization", "AWS4-HMAC-SHA256 Credential=AKIA/20261117/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=0")
	if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(body, "AWS_BEARER_TOKEN_BEDROCK") || !strings.Contains(body, "CLAUDE_CODE_SKIP_BEDROCK_AUTH") || resp.Header.Get("X-Amzn-Errortype") != "AccessDeniedException" {
		t.Errorf("%s %v %s", resp.Status, resp.Header, body)
	}
	for _, verb := range []string{"invoke-with-response-stream", "count-tokens", "converse", "converse-stream"} {
		resp, body, _ := g.post(t, "/model/"+url.PathEscape(bedrockARN)+"/"+verb, `{}`, "Authorization", "AWS4-HMAC-SHA256 Credential=AKIA/20261117/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=0")
		if resp.StatusCode/100 != 4 || !strings.Contains(body, "AWS_BEARER_TOKEN_BEDROCK") || !strings.HasSuffix(resp.Header.Get("X-Amzn-Errortype")+errorType(body), "Exception") {
			t.Errorf("%s: %s %v %s", verb, resp.Status, resp.Header, body)
		}
	}
	g.up.Answer(upstreamtest.JSON(200, messagesResponse))
	if resp, body, _ := g.post(t, "/model/"+bedrockModel+"/invoke", messagesRequest, "Authorization", "Bearer sk-1"); resp.StatusCode != http.StatusOK {
		t.Errorf("%s %s", resp.Status, body)
	}
}

// errorType returns the name of an exception in a body, or "".
func errorType(body string) string {
	var o struct {
		Type string `json:"__type"`
	}
	_ = json.Unmarshal([]byte(body), &o) // the test reports another body
	return o.Type
}

// TestClientsOfBedrockNameARNs checks that the ARN of a profile is one escaped segment of a client's path, for every form of
// request, with a key of the gateway as bearer.
func TestClientsOfBedrockNameARNs(t *testing.T) {
	for verb, body := range map[string]string{
		"invoke":                      `{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`,
		"invoke-with-response-stream": `{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`,
		"converse":                    `{"messages":[{"role":"user","content":[{"text":"Hi"}]}]}`,
		"converse-stream":             `{"messages":[{"role":"user","content":[{"text":"Hi"}]}]}`,
		"count-tokens":                `{"input":{"converse":{"messages":[{"role":"user","content":[{"text":"Hi"}]}]}}}`,
	} {
		g := newGateway(t, speaking(anthropicDialect), func(g *gateway) {
			g.extra = []string{bedrockARN}
			g.state.Keys = access.NewKeys([]access.Key{{Secret: "sk-1"}})
		})
		switch {
		case strings.HasSuffix(verb, "stream"):
			g.up.Answer(upstreamtest.Stream(claudeStream))
		case verb == "count-tokens":
			g.up.Answer(upstreamtest.JSON(200, `{"input_tokens":7}`))
		default:
			g.up.Answer(upstreamtest.JSON(200, messagesResponse))
		}
		resp, answer, err := g.post(t, "/model/"+url.QueryEscape(bedrockARN)+"/"+verb, body, "Authorization", "Bearer sk-1")
		if err != nil || resp.StatusCode != http.StatusOK || strings.HasSuffix(verb, "stream") != (resp.Header.Get("Content-Type") == eventstream.MediaType) {
			t.Errorf("%s: %s %v %q %v", verb, resp.Status, resp.Header, answer, err)
			continue
		}
		if sent := g.up.Last(t); !bytes.Contains(sent.Body, []byte(`"model":"`+bedrockARN+`"`)) {
			t.Errorf("%s: sent %s %s", verb, sent.Path, sent.Body)
		}
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// cloudNames are names of the operator's accounts, as errors of the clouds have them.
var cloudNames = map[string]string{
	"aws": "User: arn:aws:sts::417290158836:assumed-role/redteam-role/i-0abc1234def567890 is not authorized to perform: bedrock:InvokeModel on resource: " +
		"arn:aws:bedrock:eu-central-1:417290158836:inference-profile/redteam-profile (account 417290158836, key AKIAREDTEAMEXAMPLE)",
	"google": "Permission denied on resource projects/redteam-project-77/locations/eu for redteam-gw@redteam-project-77.iam.gserviceaccount.com: quota of project redteam-project-77, project number 417290158837",
	"azure": "The identity 7a1c0000-5e5e-4d4d-8b8b-417290158838 has no access to /subscriptions/7a1c0000-6f6f-4d4d-8b8b-417290158839/resourceGroups/redteam-group/providers/Microsoft.CognitiveServices/accounts/redteam-account " +
		"at https://redteam-resource.openai.azure.com",
}

// privateNames are the parts of cloudNames that no client may see.
var privateNames = []string{
	"417290158836", "redteam-role", "i-0abc1234def567890", "redteam-profile", "AKIAREDTEAMEXAMPLE",
	"redteam-project-77", "redteam-gw", "417290158837", "417290158838", "417290158839", "redteam-group", "redteam-account", "redteam-resource",
}

// cloudUpstreams are providers of the clouds, one for each dialect and envelope.
var cloudUpstreams = map[string]struct{ cloud, settings string }{
	"invoke":   {"aws", "protocol: anthropic, base_url: %q, preset: bedrock, region: eu-central-1"},
	"converse": {"aws", "protocol: converse, base_url: %q, preset: bedrock-converse, region: eu-central-1"},
	"vertex":   {"google", "protocol: gemini, base_url: %q, preset: vertex, region: eu, project: redteam-project-77"},
	"claude":   {"google", "protocol: anthropic, base_url: %q, preset: vertex-anthropic, region: eu, project: redteam-project-77"},
	"azure":    {"azure", "protocol: openai-chat, base_url: %q, preset: azure"},
	"azurev1":  {"azure", "protocol: openai-responses, base_url: %q, preset: azure"},
}

// cloudForms are the forms in which a cloud writes a name.
var cloudForms = map[string]func(string) string{
	"plain":   func(s string) string { return s },
	"escaped": func(s string) string { return strings.NewReplacer(":", `\u003a`, "-", `\u002D`, "/", `\/`).Replace(s) },
	"percent": func(s string) string { return strings.NewReplacer(":", "%3A", "/", "%2f").Replace(s) },
}

// cloudPlaces are the places in which a cloud writes a name.
var cloudPlaces = []string{"error-400", "error-403", "error-404", "error-429", "error-500", "header", "plain", "event"}

// cloudRig is the server of the scripted clouds.
type cloudRig struct {
	server *httptest.Server

	mu    sync.Mutex
	place string
	text  string // that names the account
}

// cloudAttacks has every cloud name the operator's account to clients of every dialect.
func cloudAttacks() (all []attack) {
	for up, u := range cloudUpstreams {
		for form, write := range cloudForms {
			for _, place := range cloudPlaces {
				for _, client := range append(dialects(), "converse") {
					for _, stream := range []bool{false, true} {
						if place == "event" && !stream || place == "header" && form == "escaped" {
							continue
						}
						name := fmt.Sprintf("clouds/%s/%s/%s/%s", place, up, form, client)
						if stream {
							name += "-stream"
						}
						do := func(ctx context.Context, r *rig) *evidence {
							r.clouds.set(place, write(cloudNames[u.cloud]))
							return r.send(ctx, cloudRequest(client, up, stream))
						}
						all = append(all, attack{name: name, do: do, holds: []oracle{serves(200, 400, 401, 403, 404, 413, 424, 429, 500, 502, 503), hidesAccount}})
					}
				}
			}
		}
	}
	return all
}

// cloudRequest is a request of a client for the model of a provider.
func cloudRequest(client testrig.Dialect, up string, stream bool) request {
	if client == "converse" {
		path := "/model/" + up + "-m/converse"
		if stream {
			path += "-stream"
		}
		return request{path: path, body: `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`, key: "full"}
	}
	q := testrig.Query{Model: up + "/m", Prompt: "hi", Stream: stream}
	return request{path: client.Path(q.Model, stream), body: client.Body(q), key: "full", headers: []string{"Anthropic-Version", "2023-06-01"}}
}

var (
	unicodeEscape = regexp.MustCompile(`\\+u00([0-9a-fA-F]{2})`)
	percentEscape = regexp.MustCompile(`%([0-9a-fA-F]{2})`)
)

// hidesAccount fails if the response names the operator's account in any form, or has no error
// where the upstream had one.
func hidesAccount(_ *rig, e *evidence) string {
	text := e.got + "\n" + e.body
	for _, escape := range []*regexp.Regexp{unicodeEscape, percentEscape} {
		text = escape.ReplaceAllStringFunc(text, func(s string) string {
			n, err := strconv.ParseUint(s[len(s)-2:], 16, 8)
			if err != nil {
				return s
			}
			return string(rune(n))
		})
	}
	for _, name := range privateNames {
		if i := strings.Index(text, name); i >= 0 {
			return fmt.Sprintf("the response names the operator's account: %q", testrig.Clip(text[max(0, i-40):], 160))
		}
	}
	return ""
}

func (c *cloudRig) set(place, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.place, c.text = place, text
}

// startClouds starts the clouds and a gateway on them.
func startClouds(ctx context.Context, o options) (*rig, error) {
	return controlled(start(func(r *rig) *config {
		r.clouds = &cloudRig{}
		r.clouds.server = httptest.NewServer(r.clouds)
		c := &config{keys: standardKeys(), top: []string{"store: sqlite", "data: data"}}
		for name, u := range cloudUpstreams {
			c.providers = append(c.providers, "  "+name+": { "+fmt.Sprintf(u.settings, r.clouds.server.URL+"/"+name)+", api_key: "+providerKey+" }")
			c.models = append(c.models, fmt.Sprintf("  %s-m: { targets: [%s/m] }\n  %s/m: { targets: [%s/m] }", name, name, name, name))
		}
		return c.standard(r.up) // after the clouds: a weak gateway uses the first provider
	}))(ctx, o)
}

// ServeHTTP plays the clouds. The first part of the path is the provider.
func (c *cloudRig) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	place, text := c.place, c.text
	c.mu.Unlock()
	up := strings.Split(r.URL.Path, "/")[1]
	status, body := http.StatusInternalServerError, cloudError(cloudUpstreams[up].cloud, text)
	switch place {
	case "event":
		media, stream := cloudStream(up, text)
		w.Header().Set("Content-Type", media)
		_, _ = w.Write(stream) // a gateway that has gone
		return
	case "plain":
		w.Header().Set("Content-Type", "text/plain")
		body = text
	case "header":
		for _, name := range []string{"X-Amzn-Requestid", "X-Amzn-Errormessage", "X-Goog-Request-Id", "X-Ms-Region", "X-Ms-Deployment-Name", "Apim-Request-Id", "Request-Id", "X-Request-Id", "X-Ratelimit-Limit-Requests", "Openai-Organization"} {
			w.Header().Set(name, text)
		}
	default:
		status, _ = strconv.Atoi(strings.TrimPrefix(place, "error-")) // all of them have a number
	}
	if place != "plain" {
		w.Header().Set("Content-Type", testrig.JSONMedia)
		w.Header().Set("X-Amzn-Errortype", "AccessDeniedException:http://internal.amazon.com/"+strings.ReplaceAll(text, `\`, ""))
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// cloudError is an error body of a cloud.
func cloudError(cloud, text string) string {
	switch cloud {
	case "aws":
		return `{"message":"` + text + `","Resource":"` + text + `"}`
	case "google":
		return `{"error":{"code":403,"message":"` + text + `","status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"X","metadata":{"consumer":"` + text + `"}}]}}`
	}
	return `{"error":{"code":"403","message":"` + text + `","param":"` + text + `","innererror":{"code":"X","message":"` + text + `"}}}`
}

// cloudStream is a stream that ends in an error.
func cloudStream(up, text string) (media string, stream []byte) {
	const (
		start = `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}`
		block = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
		delta = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"up"}}`
	)
	events := func(list ...string) []byte { return []byte("data: " + strings.Join(list, "\n\ndata: ") + "\n\n") }
	switch up {
	case "invoke":
		chunk := func(data string) [2]string {
			return [2]string{"chunk", `{"bytes":"` + base64.StdEncoding.EncodeToString([]byte(data)) + `"}`}
		}
		return "application/vnd.amazon.eventstream", frames(chunk(start), chunk(block), chunk(delta), [2]string{"modelStreamErrorException", cloudError("aws", text)})
	case "converse":
		return "application/vnd.amazon.eventstream", frames([2]string{"messageStart", `{"role":"assistant"}`}, [2]string{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"up"}}`},
			[2]string{"internalServerException", cloudError("aws", text)})
	case "claude":
		return "text/event-stream", events(start, block, delta, `{"type":"error","error":{"type":"api_error","message":"`+text+`"}}`)
	case "vertex":
		return "text/event-stream", events(`{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"up"}]}}]}`, cloudError("google", text))
	case "azure":
		return "text/event-stream", events(`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"up"},"finish_reason":null}]}`, cloudError("azure", text))
	}
	return "text/event-stream", events(`{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","created_at":1,"status":"in_progress","model":"m","output":[]}}`,
		`{"type":"response.failed","sequence_number":1,"response":{"id":"resp_1","object":"response","created_at":1,"status":"failed","model":"m","output":[],"error":{"code":"server_error","message":"`+text+`"}}}`)
}

// frames encodes events, each given by its name and its JSON. An event whose name ends in
// Exception is encoded as an exception.
func frames(list ...[2]string) []byte {
	var out bytes.Buffer
	for _, e := range list {
		kind := "event"
		if strings.HasSuffix(e[0], "Exception") {
			kind = "exception"
		}
		m := eventstream.Message{Payload: []byte(e[1])}
		m.Headers.Set(":message-type", eventstream.StringValue(kind))
		m.Headers.Set(":"+kind+"-type", eventstream.StringValue(e[0]))
		m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
		testrig.NoError(eventstream.NewEncoder().Encode(&out, m))
	}
	return out.Bytes()
}

package record

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/isogloss-gateway/isogloss/conform"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// FuzzMask checks that masked fragments form the mask of the text, that lengths stay, and
// that only the characters of the mask remain.
func FuzzMask(f *testing.F) {
	for _, s := range []string{"", "Hello, World 42!", "Grüße aus 東京 😀", "a\x00b\n\"c\\", "naïve\u2028x"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, at int) {
		if !utf8.ValidString(s) {
			return
		}
		runes := []rune(s)
		cut := 0
		if len(runes) > 0 {
			cut = len(string(runes[:uint(at)%uint(len(runes))]))
		}
		all := conform.Mask(s)
		if got := conform.Mask(s[:cut]) + conform.Mask(s[cut:]); got != all {
			t.Errorf("pieces %q, whole %q", got, all)
		}
		if len(all) != len(s) || utf8.RuneCountInString(all) != len(runes) || conform.Mask(all) != all {
			t.Errorf("%q becomes %q", s, all)
		}
		if strings.ContainsAny(all, "abcdefghijklmnopqrstuvwyzABCDEFGHIJKLMNOPQRSTUVWYZ023456789") {
			t.Errorf("something is left of %q: %q", s, all)
		}
		raw := wire.Quote(s)
		var back string
		if err := json.Unmarshal([]byte(`"`+maskRaw(raw[1:len(raw)-1])+`"`), &back); err != nil || back != all {
			t.Errorf("escaped %s becomes %q, want %q: %v", raw, back, all, err)
		}
	})
}

// FuzzPieces splits a response into fragments and checks that the redacted fragments form
// the redacted response.
func FuzzPieces(f *testing.F) {
	for _, s := range []string{`{"city":"Paris","n":12.50,"deep":{"é":[true,null,"\n"]}}`, `{"a`, "plain text", `{"x":"\ud83d\ude00"}`} {
		f.Add(s, uint64(1))
	}
	f.Fuzz(func(t *testing.T, s string, seed uint64) {
		if !utf8.ValidString(s) || s == "" {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		var stream strings.Builder
		for rest := []rune(s); len(rest) > 0; {
			n := 1 + rng.IntN(len(rest))
			fmt.Fprintf(&stream, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%s}}]}\n\n", wire.Quote(string(rest[:n])))
			rest = rest[n:]
		}
		r := newRedactor()
		want, _ := r.text(s)
		got := ""
		for _, b := range split(r.stream(stream.String())) {
			var chunk struct {
				Choices []struct{ Delta struct{ Content string } }
			}
			if err := json.Unmarshal([]byte(b.data), &chunk); err != nil {
				t.Fatal(err)
			}
			got += chunk.Choices[0].Delta.Content
		}
		if got != want {
			t.Errorf("%q in pieces becomes %q, as a whole %q", s, got, want)
		}
	})
}

// JSON in a text stays JSON of the same shape.
func TestTextThatIsJSON(t *testing.T) {
	r := newRedactor()
	r.declare(`{"tools":[{"function":{"name":"f","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]}`)
	for in, want := range map[string]string{
		`{"city":"Paris"}`:                           `{"city":"Xxxxx"}`,
		`{"city" : "A\u00e9\n\"q\"" }`:               `{"city" : "X\u00f1\n\"x\"" }`,
		`{"secret name":12.50,"secret name 2":null}`: `{"k1":11.11,"k2":null}`,
		`{"secret name":[true,-1e-7,"x"]}`:           `{"k1":[true,-1e-1,"x"]}`,
		`no JSON: {`:                                 `xx XXXX: {`,
	} {
		if got, _ := r.text(in); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

func TestIDs(t *testing.T) {
	r := newRedactor()
	a, b, c := r.id("call_Ab3xY"), r.id("call_Zz9qQ"), r.id("fc_call_Ab3xY")
	if a == b || c != "fc_"+a || a != r.id("call_Ab3xY") {
		t.Errorf("got %s, %s, %s", a, b, c)
	}
	if conform.Mask(a) != conform.Mask("call_Ab3xY") {
		t.Errorf("%s has another shape", a)
	}
	seen := map[string]bool{}
	for i := range 2000 {
		id := r.id("x" + fmt.Sprint(i))
		if seen[id] {
			t.Fatalf("%s twice", id)
		}
		seen[id] = true
	}
}

const (
	canary = "Zebra Quagga 73@okapi.numbat"
	word1  = "ZebraQuagga73okapi" // could be a keyword of a dialect
)

// skeletons has requests and responses of Chat, Responses, Messages and Gemini, with § for each text.
var skeletons = map[conform.Dialect]struct{ requestBody, whole, stream string }{
	conform.Chat: {
		requestBody: `{"model":"m","§":"§","user":"§","safety_identifier":"§","metadata":{"§":"§"},"prompt_cache_key":"§","logit_bias":{"§":1},"unknown":"§","unknown_list":["§",{"§":"§"}],"stop":["§"],"type":"§",
			"prediction":{"type":"content","content":"§"},"response_format":{"type":"json_schema","json_schema":{"name":"n","description":"§","schema":{"type":"object","title":"§","description":"§","properties":{"p":{"type":"string","enum":["§"],"const":"§","default":"§","examples":["§"],"pattern":"§"},"§":{"type":"§"}},"required":["p","§"]}}},
			"messages":[{"role":"system","content":"§"},{"role":"user","name":"§","content":[{"type":"text","text":"§","§":"§"},{"type":"image_url","image_url":{"url":"https://§/§.png?§=§","detail":"§"}},{"type":"image_url","image_url":{"url":"data:image/png;base64,§"}},{"type":"input_audio","input_audio":{"data":"§","format":"wav"}},{"type":"file","file":{"filename":"§","file_data":"data:application/pdf;base64,§","file_id":"§"}}]},
			{"role":"assistant","content":"§","refusal":"§","reasoning_content":"§","reasoning":"§","reasoning_details":[{"type":"reasoning.encrypted","data":"§","id":"§"},{"type":"reasoning.text","text":"§","signature":"§"}],"tool_calls":[{"id":"§","type":"function","function":{"name":"f","arguments":"{\"§\":\"§\",\"p\":[\"§\"]}"},"extra_content":{"google":{"thought_signature":"§"}}}]},{"role":"tool","tool_call_id":"§","content":"§"},{"role":"tool","tool_call_id":"§","content":"{\"§\":{\"a\":\"§\"}}"}],
			"tools":[{"type":"function","function":{"name":"f","description":"§","parameters":{"type":"object","properties":{"p":{"type":"array","description":"§","items":{"type":"string"}}}}}},{"type":"custom","custom":{"name":"g","description":"§","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"§"}}}}],"web_search_options":{"user_location":{"approximate":{"city":"§"}}}}`,
		whole: `{"id":"§","object":"chat.completion","model":"m","system_fingerprint":"§","§":"§","choices":[{"index":0,"finish_reason":"stop","§":"§","logprobs":{"content":[{"token":"§","bytes":[1],"logprob":-1,"top_logprobs":[{"token":"§"}]}]},"message":{"role":"assistant","content":"§","refusal":"§","reasoning_content":"§","§":"§","annotations":[{"type":"url_citation","url_citation":{"title":"§","url":"https://§"}}],"tool_calls":[{"id":"§","type":"function","function":{"name":"f","arguments":"{\"p\":\"§\"}"}}]}}],"usage":{"prompt_tokens":1,"§":"§"},"error":{"message":"§","type":"§","param":"§","code":"§"}}`,
		stream: `: §
event: §
id: §
data: {"id":"§","choices":[{"index":0,"delta":{"role":"assistant","content":"§","§":"§"}}]}

data: {"choices":[{"index":0,"delta":{"reasoning_content":"§","refusal":"§","tool_calls":[{"index":0,"id":"§","function":{"name":"f","arguments":"{\"§\":\"§\"}"}}]}}]}

data: §

§
{"error":{"message":"§"}}
data: {"error":"§"}
`},
	conform.Responses: {
		requestBody: `{"model":"m","instructions":"§","previous_response_id":"§","conversation":"§","metadata":{"§":"§"},"user":"§","prompt":{"id":"§","variables":{"§":"§"}},"text":{"format":{"type":"json_schema","name":"n","schema":{"description":"§"}}},"reasoning":{"summary":"§"},
			"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"§"},{"type":"input_image","image_url":"data:image/png;base64,§"},{"type":"input_image","image_url":"https://§/§"},{"type":"input_file","filename":"§","file_data":"§","file_url":"https://§"}]},{"type":"reasoning","id":"§","summary":[{"type":"summary_text","text":"§"}],"encrypted_content":"§","content":[{"type":"reasoning_text","text":"§"}]},{"type":"function_call","id":"§","call_id":"§","name":"f","arguments":"{\"§\":\"§\"}"},{"type":"function_call_output","call_id":"§","output":"§"},{"type":"custom_tool_call","call_id":"§","name":"g","input":"§"},{"type":"web_search_call","id":"§","action":{"type":"search","query":"§","sources":[{"url":"https://§"}]}},{"type":"§","§":{"§":"§"}}],
			"tools":[{"type":"function","name":"f","description":"§","parameters":{"type":"object","properties":{"p":{"description":"§"}}}},{"type":"mcp","server_label":"§","server_url":"https://§/§","headers":{"Authorization":"§"},"authorization":"§"},{"type":"file_search","vector_store_ids":["§"]}]}`,
		whole: `{"id":"§","object":"response","model":"m","instructions":"§","output":[{"type":"message","id":"§","role":"assistant","content":[{"type":"output_text","text":"§","annotations":[{"type":"url_citation","title":"§","url":"https://§"}]},{"type":"refusal","refusal":"§"}]},{"type":"function_call","id":"§","call_id":"§","name":"f","arguments":"{\"§\":1}"}],"error":{"code":"§","message":"§"},"incomplete_details":{"reason":"§"}}`,
		stream: `event: response.output_text.delta
data: {"type":"response.output_text.delta","item_id":"§","output_index":0,"content_index":0,"delta":"§","obfuscation":"§","logprobs":[{"token":"§"}]}

event: response.output_text.done
data: {"type":"response.output_text.done","item_id":"§","text":"§"}

data: {"type":"response.function_call_arguments.delta","item_id":"§","delta":"{\"§\":\"§\"}"}

data: {"type":"response.failed","response":{"id":"§","error":{"code":"§","message":"§"}}}

`},
	conform.Anthropic: {
		requestBody: `{"model":"m","max_tokens":1,"system":[{"type":"text","text":"§","cache_control":{"type":"ephemeral","ttl":"§"}}],"metadata":{"user_id":"§"},"stop_sequences":["§"],"container":"§","mcp_servers":[{"type":"url","url":"https://§","name":"§","authorization_token":"§"}],
			"messages":[{"role":"user","content":"§"},{"role":"user","content":[{"type":"text","text":"§","citations":[{"type":"char_location","cited_text":"§","document_title":"§"}]},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"§"}},{"type":"image","source":{"type":"url","url":"https://§"}},{"type":"document","title":"§","context":"§","source":{"type":"text","media_type":"text/plain","data":"§"}},{"type":"tool_result","tool_use_id":"§","content":[{"type":"text","text":"§"}]},{"type":"tool_result","tool_use_id":"§","content":"§"},{"type":"search_result","source":"https://§","title":"§","content":[{"type":"text","text":"§"}]}]},
			{"role":"assistant","content":[{"type":"thinking","thinking":"§","signature":"§"},{"type":"redacted_thinking","data":"§"},{"type":"tool_use","id":"§","name":"f","input":{"§":"§","p":{"§":["§"]}}},{"type":"server_tool_use","id":"§","name":"web_search","input":{"query":"§"}},{"type":"web_search_tool_result","tool_use_id":"§","content":[{"type":"web_search_result","title":"§","url":"https://§","encrypted_content":"§","page_age":"§"}]}]}],
			"tools":[{"name":"f","description":"§","input_schema":{"type":"object","properties":{"p":{"description":"§"}}},"input_examples":[{"§":"§"}]}],"§":"§"}`,
		whole: `{"id":"§","type":"message","role":"assistant","model":"m","stop_reason":"§","stop_sequence":"§","content":[{"type":"thinking","thinking":"§","signature":"§"},{"type":"text","text":"§"},{"type":"tool_use","id":"§","name":"f","input":{"§":"§"}}],"usage":{"input_tokens":1},"error":{"type":"§","message":"§","details":{"§":"§"}},"request_id":"§"}`,
		stream: `event: message_start
data: {"type":"message_start","message":{"id":"§","content":[],"usage":{"input_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"§","name":"f","input":{"§":"§"}}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"§"}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"§"}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"signature_delta","signature":"§"}}

data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"§\":\"§\"}"}}

data: {"type":"content_block_delta","index":3,"delta":{"type":"citations_delta","citation":{"cited_text":"§","url":"https://§"}}}

event: error
data: {"type":"error","error":{"type":"§","message":"§"}}

`},
	conform.Gemini: {
		requestBody: `{"systemInstruction":{"parts":[{"text":"§"}]},"cachedContent":"§","labels":{"§":"§"},"contents":[{"role":"user","parts":[{"text":"§"},{"inlineData":{"mimeType":"image/png","data":"§","displayName":"§"}},{"fileData":{"mimeType":"image/png","fileUri":"https://§/§"}},{"functionResponse":{"id":"§","name":"f","response":{"result":"§","§":"§"}}}]},{"role":"model","parts":[{"text":"§","thought":true,"thoughtSignature":"§"},{"functionCall":{"id":"§","name":"f","args":{"§":"§","p":{"§":"§"}}}},{"executableCode":{"language":"PYTHON","code":"§"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"§"}}]}],
			"generationConfig":{"stopSequences":["§"],"responseSchema":{"type":"OBJECT","description":"§","properties":{"p":{"type":"STRING","enum":["§"]}}},"§":"§"},"tools":[{"functionDeclarations":[{"name":"f","description":"§","parameters":{"type":"OBJECT","properties":{"p":{"description":"§"}}}}]}],"§":{"§":"§"}}`,
		whole: `{"responseId":"§","modelVersion":"m","candidates":[{"index":0,"finishReason":"STOP","finishMessage":"§","content":{"role":"model","parts":[{"text":"§"},{"functionCall":{"name":"f","args":{"§":"§"}}}]},"groundingMetadata":{"webSearchQueries":["§"],"searchEntryPoint":{"renderedContent":"§"},"groundingChunks":[{"web":{"uri":"https://§","title":"§"}}],"groundingSupports":[{"segment":{"text":"§"}}]},"citationMetadata":{"citationSources":[{"uri":"https://§"}]}}],"promptFeedback":{"blockReason":"§","blockReasonMessage":"§"},"error":{"code":400,"status":"§","message":"§","details":[{"@type":"§","reason":"§","metadata":{"§":"§"}}]}}`,
		stream: `data: {"candidates":[{"index":0,"content":{"parts":[{"text":"§","thoughtSignature":"§"},{"text":"§","thought":true}]}}]}

data: {"candidates":[{"index":0,"content":{"parts":[{"functionCall":{"name":"f","args":{"§":"§"}}}]}}]}

`},
}

// TestNothingReadableIsLeft puts a canary into every text, header and URL of all dialects and
// checks that no file contains it.
func TestNothingReadableIsLeft(t *testing.T) {
	planted := 0
	for client := range skeletons {
		for upstream := range skeletons {
			for _, stream := range []bool{true, false} {
				x := plant(client, upstream, stream, canary)
				planted += strings.Count(string(x.Request)+string(x.UpstreamRequest)+string(x.UpstreamResponse.Body)+string(x.ClientResponse.Body), canary)
				for name, b := range map[string][]byte{"ask": x.Request, "heard": x.UpstreamRequest} {
					if !json.Valid(b) {
						t.Fatalf("the test's own %s of %s is no JSON", name, client)
					}
				}
				text, err := Write(x, Masked)
				if err != nil {
					t.Fatal(err)
				}
				for _, word := range strings.FieldsFunc(canary, func(r rune) bool { return r == ' ' || r == '@' || r == '.' }) {
					if at := strings.Index(string(text), word); at >= 0 {
						t.Errorf("%s on %s has %q: …%s…", client, upstream, word, text[max(0, at-120):min(len(text), at+60)])
					}
				}
			}
		}
	}
	if planted < 1000 {
		t.Errorf("only %d were planted", planted)
	}
}

// TestWordsAreLeftOnlyInTheirPlaces checks that a single word is kept only as a keyword, a
// name of a member or a name of a tool's parameter.
func TestWordsAreLeftOnlyInTheirPlaces(t *testing.T) {
	place := regexp.MustCompile(`"([^"\\]*)"\s*:\s*"` + word1)
	allowed := set(`type status code param reason blockReason stop_reason ttl @type`)
	for client := range skeletons {
		for upstream := range skeletons {
			text, err := Write(plant(client, upstream, false, word1), Masked)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range place.FindAllStringSubmatch(string(text), -1) {
				if !allowed[m[1]] {
					t.Errorf("%s on %s: a word is left in %s", client, upstream, m[1])
				}
			}
		}
	}
}

func plant(client, upstream conform.Dialect, stream bool, what string) Exchange {
	put := func(s string) []byte { return []byte(strings.ReplaceAll(s, "§", what)) }
	from, to := skeletons[client], skeletons[upstream]
	x := Exchange{Client: client, Upstream: upstream, Stream: stream, ClientModel: "m", UpstreamModel: "m", Path: "/v1/" + what + "/models?key=" + what,
		Request: put(from.requestBody), UpstreamRequest: put(to.requestBody), Header: http.Header{},
		UpstreamResponse: Response{Status: 200, Header: http.Header{"Content-Type": {"application/json"}, "X-Canary": {what}, "Retry-After": {"1"}}, Body: put(to.whole)},
		ClientResponse:   Response{Status: 200, Header: http.Header{"Content-Type": {"application/json"}, "X-Canary": {what}}, Body: put(from.whole)}}
	for name := range headerForms {
		x.Header.Set(name, what)
	}
	if stream {
		x.UpstreamResponse.Header.Set("Content-Type", "text/event-stream")
		x.ClientResponse.Header.Set("Content-Type", "text/event-stream")
		x.UpstreamResponse.Body, x.ClientResponse.Body = put(to.stream), put(from.stream)
	}
	return x
}

// FuzzRedact checks that redacted JSON is JSON and that a stream keeps its number of lines.
func FuzzRedact(f *testing.F) {
	for _, s := range skeletons {
		f.Add(s.requestBody)
		f.Add(s.whole)
		f.Add(s.stream)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r := newRedactor()
		r.declare(s)
		if out := r.document(s); json.Valid([]byte(s)) && !json.Valid([]byte(out)) {
			t.Errorf("%s becomes %s", s, out)
		}
		out := r.stream(s)
		if got, want := lineEnds(out), lineEnds(s); got != want {
			t.Errorf("%d lines become %d: %q, %q", want, got, s, out)
		}
		withoutOwn(s, out)
		ownIDs(s, out, true)
	})
}

func lineEnds(s string) int {
	return strings.Count(strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n"), "\n")
}

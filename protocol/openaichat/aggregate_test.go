package openaichat

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

var update = flag.Bool("update", false, "rewrite the expected sections of the cases")

// streamCase is a case of testdata/aggregate: a stream, and the body that it adds
// up to or the error that it ends in.
type streamCase struct {
	path    string
	archive *txtar.Archive
}

func streamCases(tb testing.TB) map[string]*streamCase {
	tb.Helper()
	paths, err := filepath.Glob("testdata/aggregate/*.txtar")
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no cases: %v", err)
	}
	cases := make(map[string]*streamCase)
	for _, p := range paths {
		a, err := txtar.ParseFile(p)
		if err != nil {
			tb.Fatal(err)
		}
		cases[strings.TrimSuffix(filepath.Base(p), ".txtar")] = &streamCase{path: p, archive: a}
	}
	return cases
}

func (c *streamCase) section(name string) string {
	for _, f := range c.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// expect compares the outcome with what the case expects, or rewrites it.
func (c *streamCase) expect(t *testing.T, got txtar.File) {
	t.Helper()
	if *update {
		c.archive.Files = slices.DeleteFunc(c.archive.Files, func(f txtar.File) bool { return f.Name != "upstream.sse" })
		c.archive.Files = append(c.archive.Files, got)
		if err := os.WriteFile(c.path, txtar.Format(c.archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := c.section(got.Name); want != string(got.Data) {
		t.Errorf("%s:\n got %s\nwant %s", got.Name, got.Data, want)
	}
}

// aggregate decodes a stream, collects its events and encodes the response, as the
// gateway does for a client that does not stream.
func aggregate(stream []byte) ([]byte, error) {
	events, err := protocoltest.ReadStream(Codec{}, bytes.NewReader(stream))
	if err != nil {
		return nil, err
	}
	if err := protocoltest.ValidateEvents(events); err != nil {
		return nil, err
	}
	resp, err := protocoltest.Collect(events)
	if err != nil {
		return nil, err
	}
	return Codec{}.EncodeResponse(resp, &llm.Request{}, &llm.Report{}), nil
}

// explode decodes a body and encodes it as a stream, as the gateway does for a
// client that streams.
func explode(body []byte) ([]byte, error) {
	resp, err := Codec{}.DecodeResponse(body)
	if err != nil {
		return nil, err
	}
	return protocoltest.WriteStream(Codec{}, &llm.Request{IncludeUsage: true}, llm.Explode(resp)), nil
}

// A response that is collected from a stream of this protocol is the one that the
// upstream would have sent whole: members that the codec does not know and the text
// of numbers are kept, and broken tool calls are set right.
func TestAggregate(t *testing.T) {
	for name, c := range streamCases(t) {
		t.Run(name, func(t *testing.T) {
			body, err := aggregate([]byte(c.section("upstream.sse")))
			outcome := txtar.File{Name: "body.json", Data: append(body, '\n')}
			if err != nil {
				outcome = txtar.File{Name: "error", Data: fmt.Appendln(nil, err)}
			}
			c.expect(t, outcome)
		})
	}
}

// A body that is streamed and collected again is the same body, except that the
// stream says tool_calls where the body says stop beside a call (INV-12).
func TestExplodeOfAggregate(t *testing.T) {
	for name, c := range streamCases(t) {
		body := []byte(strings.TrimSpace(c.section("body.json")))
		if len(body) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			stream, err := explode(body)
			if err != nil {
				t.Fatal(err)
			}
			if ending, err := protocoltest.Check(protocol.OpenAIChat, stream); err != nil || ending != protocoltest.Completed {
				t.Errorf("the stream ends %s: %v\n%s", ending, err, stream)
			}
			again, err := aggregate(stream)
			same := bytes.Equal(again, body)
			if name == "deltas_after_finish" || name == "finish_stop_with_tools" {
				same = bytes.Equal(anyFinish(again), anyFinish(body))
			}
			if err != nil || !same {
				t.Errorf("%v\n got %s\nwant %s\nfrom %s", err, again, body, stream)
			}
		})
	}
}

// anyFinish returns a body with one finish reason in the place of those that a
// stream may exchange for another.
func anyFinish(body []byte) []byte {
	return regexp.MustCompile(`"finish_reason":"[^"]*"`).ReplaceAll(body, []byte(`"finish_reason":"any"`))
}

// Bodies as providers send them, members in the providers' own order.
func TestExplode(t *testing.T) {
	bodies := map[string]string{
		"text":     `{"id":"chatcmpl-1","object":"chat.completion","created":1770000000,"model":"gpt-5.4","choices":[{"index":0,"message":{"role":"assistant","content":"Hello <b>","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":2,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0}},"service_tier":"default","system_fingerprint":null}`,
		"tools":    `{"usage":{"total_tokens":5},"choices":[{"finish_reason":"tool_calls","logprobs":null,"message":{"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{ \"b\" : 1 }"}},{"id":"b","type":"custom","custom":{"name":"c","input":"x"}}],"content":null,"refusal":null,"role":"assistant"},"index":0}],"model":"m","created":1,"object":"chat.completion","id":"1","prompt_logprobs":null,"kv_transfer_params":{"a":1.10}}`,
		"several":  `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a","refusal":null},"logprobs":{"content":[{"token":"a","logprob":-0.10,"bytes":[97],"top_logprobs":[]}],"refusal":null},"finish_reason":"length"},{"index":1,"message":{"role":"assistant","content":null,"refusal":"no"},"logprobs":null,"finish_reason":"stop","stop_reason":7}]}`,
		"thinking": `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a","refusal":null,"reasoning_content":"because","reasoning":null},"logprobs":null,"finish_reason":"stop"}]}`,
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			stream, err := explode([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			again, err := aggregate(stream)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := reordered(t, again), reordered(t, []byte(body)); !bytes.Equal(got, want) {
				t.Errorf("\n got %s\nwant %s\nfrom %s", got, want, stream)
			}
		})
	}
}

// reordered returns the body with sorted members and nothing else changed.
func reordered(t *testing.T, body []byte) []byte {
	t.Helper()
	v := jsontext.Value(bytes.Clone(body))
	if err := v.Format(jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		t.Fatal(err)
	}
	return v
}

// A flood of choices, calls or members ends in an error.
func TestAggregateLimits(t *testing.T) {
	for name, format := range map[string]string{
		"choices": `{"id":"1","choices":[{"index":%d,"delta":{}}]}`,
		"calls":   `{"id":"1","choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"id":"%[1]d"}]}}]}`,
		"members": `{"id":"1","choices":[],"m%d":""}`,
		"parts":   `{"id":"1","choices":[{"index":0,"delta":{"content":[{"n":%d}]}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			d := Codec{}.NewStreamDecoder()
			c := llm.Collector{Limit: 1 << 12}
			for i := range 10_000 {
				for _, e := range d.Decode(nil, fmt.Appendf(nil, format, i), nil) {
					if _, failed := e.(llm.Failure); failed || c.Add(e) != nil {
						return
					}
				}
			}
			t.Fatal("no limit was met")
		})
	}
}

func FuzzAggregate(f *testing.F) {
	for _, c := range streamCases(f) {
		f.Add([]byte(c.section("upstream.sse")))
	}
	f.Fuzz(func(t *testing.T, upstream []byte) {
		body, err := aggregate(bytes.ToValidUTF8(upstream, nil))
		if err != nil {
			return
		}
		stream, err := explode(body)
		if err != nil {
			t.Fatalf("explode %s: %v", body, err)
		}
		again, err := aggregate(stream)
		// In any order: a member without a field may have one in a whole response.
		if err != nil || !bytes.Equal(reordered(t, anyFinish(again)), reordered(t, anyFinish(body))) {
			t.Fatalf("%v\n got %s\nwant %s\nfrom %s", err, again, body, stream)
		}
	})
}

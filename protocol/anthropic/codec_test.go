package anthropic

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
	"github.com/isogloss-gateway/isogloss/sse"
)

var update = flag.Bool("update", false, "rewrite the expected sections of testdata")

func TestLaws(t *testing.T) { protocoltest.Run(t, Codec{}, "testdata") }

// sections gives the named section of all cases that have it.
func sections(t testing.TB, name string) map[string][]byte {
	found := map[string][]byte{}
	for _, c := range protocoltest.Cases(t, "testdata") {
		if data, ok := c.Section(name); ok {
			found[c.Name] = data
		}
	}
	if len(found) == 0 {
		t.Fatalf("no case has a section %s", name)
	}
	return found
}

// eachEvent reads a stream's events.
func eachEvent(t testing.TB, stream []byte, do func(name, data []byte)) {
	r := sse.NewReader(bytes.NewReader(stream), sse.Options{})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		do(e.Name, e.Data)
	}
}

// collected is the whole response of a stream, or the error that it ends in.
func collected(t testing.TB, stream []byte) ([]byte, error) {
	t.Helper()
	events, err := protocoltest.ReadStream(Codec{}, bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := protocoltest.Collect(events)
	if err != nil {
		return nil, err
	}
	return Codec{}.EncodeResponse(resp, nil, &llm.Report{}), nil
}

func pretty(t testing.TB, body []byte) string {
	out, err := jsontext.AppendFormat(nil, body, jsontext.Multiline(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return string(out) + "\n"
}

func sameJSON(t testing.TB, a, b []byte) bool {
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

func TestArgumentsKeepTheirText(t *testing.T) {
	req, bad := Codec{}.DecodeRequest(protocol.Incoming{Body: sections(t, "request.json")["request_everything"]})
	if bad != nil {
		t.Fatal(bad)
	}
	out, bad := Codec{}.EncodeRequest(req, protocol.Target{}, &llm.Report{})
	if bad != nil {
		t.Fatal(bad)
	}
	if !bytes.Contains(out.Body, []byte(`{ "b" : 1.10, "a":12345678901234567890 }`)) {
		t.Errorf("the arguments of a call have changed: %s", out.Body)
	}
}

func TestResponseSurvivesItsOwnProtocol(t *testing.T) {
	body := sections(t, "upstream.json")["response_everything"]
	resp, bad := Codec{}.DecodeResponse(body)
	if bad != nil {
		t.Fatal(bad)
	}
	if out := (Codec{}).EncodeResponse(resp, nil, &llm.Report{}); !sameJSON(t, out, body) {
		t.Errorf("the answer has become\n%s", pretty(t, out))
	}
}

func TestStreamCollectedAndExploded(t *testing.T) {
	for name, stream := range sections(t, "upstream.sse") {
		body, err := collected(t, stream)
		if err != nil {
			if !strings.Contains(name, "error") && !strings.Contains(name, "cut") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		resp, bad := Codec{}.DecodeResponse(body)
		if bad != nil {
			t.Fatal(bad)
		}
		again := protocoltest.WriteStream(Codec{}, nil, llm.Explode(resp))
		if got, err := collected(t, again); err != nil || !sameJSON(t, got, body) {
			t.Errorf("%s: %v: after a round through a stream\n%s\nwant\n%s", name, err, got, body)
		}
	}
}

func TestDecodeResponseRefusesErrors(t *testing.T) {
	for _, body := range []string{`{"type":"error","error":{"type":"api_error","message":"no"}}`, `{"id":"x"}`, `[`} {
		if resp, err := (Codec{}).DecodeResponse([]byte(body)); err == nil {
			t.Errorf("%s gives %+v", body, resp)
		}
	}
}

func TestTapSeesWhatTheDecoderSees(t *testing.T) {
	for name, stream := range sections(t, "upstream.sse") {
		tap := Codec{}.NewTap(1)
		var last protocol.Mark
		eachEvent(t, stream, func(_, data []byte) {
			if last != protocol.Failed {
				last = tap.Event(data)
			}
		})
		events, err := protocoltest.ReadStream(Codec{}, bytes.NewReader(stream))
		if err != nil {
			t.Fatal(err)
		}
		s := tap.Summary()
		resp, err := protocoltest.Collect(events)
		if complete := err == nil; s.Complete != complete || complete != (last == protocol.Done) {
			t.Errorf("%s: complete %v, last mark %v, want %v", name, s.Complete, last, complete)
			continue
		}
		if err == nil && (s.ID != resp.ID || s.Model != resp.Model || s.Finish != resp.Choices[0].Stop.Raw || !reflect.DeepEqual(s.Usage, resp.Usage)) {
			t.Errorf("%s: %+v, want %+v", name, s, resp)
		}
	}
}

func TestTapReadsBodies(t *testing.T) {
	for name, body := range sections(t, "upstream.json") {
		tap := Codec{}.NewTap(1)
		err := tap.Body(body)
		if failed := strings.Contains(name, "error"); (err != nil) != failed || tap.Summary().Complete == failed {
			t.Errorf("%s: %v, %+v", name, err, tap.Summary())
		}
	}
	if err := (Codec{}).NewTap(1).Body([]byte(`{"id":`)); err == nil {
		t.Error("half a body is taken for an answer")
	}
}

func TestCount(t *testing.T) {
	in := protocol.Incoming{Body: []byte(`{"model":"m","system":"s","messages":[{"role":"user","content":"q"}],"tools":[{"name":"f","input_schema":{"type":"object"}}]}`)}
	req, bad := Codec{}.DecodeCountRequest(in)
	if bad != nil {
		t.Fatal(bad)
	}
	req.Sampling.Temperature = "0.5"
	out, bad := Codec{}.EncodeCountRequest(req, protocol.Target{Model: "m"}, &llm.Report{})
	if bad != nil || out.Path != "/v1/messages/count_tokens" || !sameJSON(t, out.Body, in.Body) {
		t.Errorf("%v %s %s", bad, out.Path, out.Body)
	}
	if n, bad := (Codec{}).DecodeCount((Codec{}).EncodeCount(2095)); bad != nil || n != 2095 {
		t.Errorf("%d %v", n, bad)
	}
	if _, bad := (Codec{}).DecodeCount([]byte(`{"type":"error"}`)); bad == nil {
		t.Error("an error is taken for a count")
	}
}

// TestForeignRequests holds what is sent for requests of other protocols to
// testdata/foreign.
func TestForeignRequests(t *testing.T) {
	for name, c := range foreignCases {
		t.Run(name, func(t *testing.T) {
			c.to.Model = "up"
			var report llm.Report
			out, bad := Codec{}.EncodeRequest(&c.req, c.to, &report)
			a := &txtar.Archive{Comment: []byte(c.about + "\n")}
			add := func(name, text string) {
				if text != "" {
					a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(text)})
				}
			}
			if bad != nil {
				add("invalid", protocoltest.DumpError(bad))
			} else {
				add("sent.json", pretty(t, out.Body))
				add("version", out.Header.Get(VersionHeader)+"\n")
				add("names", dumpNames(out.Names))
				if _, bad := (Codec{}).DecodeRequest(protocol.Incoming{Body: out.Body}); bad != nil {
					t.Errorf("what was sent cannot be read: %v", bad)
				}
			}
			add("report", protocoltest.DumpReport(&report))
			file := filepath.Join("testdata", "foreign", name+".txtar")
			if *update {
				if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if got := string(txtar.Format(a)); err != nil || got != string(want) {
				t.Errorf("%v\ngot\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}

func dumpNames(names map[string]llm.ToolRef) string {
	var b strings.Builder
	for _, sent := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&b, "%s: %+v\n", sent, names[sent])
	}
	return b.String()
}

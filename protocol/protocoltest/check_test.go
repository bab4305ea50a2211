package protocoltest

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// Each case violates the invariant that its name begins with.
func TestCheck(t *testing.T) {
	for _, tc := range Cases(t, "testdata/check") {
		t.Run(tc.Name, func(t *testing.T) {
			name, _, _ := strings.Cut(tc.Name, "_")
			for _, f := range tc.archive.Files {
				want, kind, _ := strings.Cut(f.Name, " ") // such as "INV-4 failed": the violated invariant and the ending
				ending, err := Check(map[string]protocol.Name{"chat": protocol.OpenAIChat, "responses": protocol.OpenAIResponses,
					"anthropic": protocol.Anthropic, "gemini": protocol.Gemini}[name], f.Data)
				if kind, _, _ = strings.Cut(kind, " "); want == "good" && kind != string(ending) {
					t.Errorf("%s: ends %s: %v", f.Name, ending, err)
				}
				if (want == "good") != (err == nil) {
					t.Errorf("%s: %v", f.Name, err)
				}
			}
		})
	}
	if _, err := Check("other", nil); err == nil {
		t.Error("an unknown protocol has no invariants")
	}
}

func TestDiffJSON(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{`{"a":1,"b":[1,{"c":null}]}`, ` {"b": [1, {"c":null}], "a": 1}`, ""},
		{`"\u00e9\/"`, `"é/"`, ""},
		{`{"a":1.0}`, `{"a":1}`, "$.a: 1.0 became 1"},
		{`{"a":null}`, `{}`, "$.a: lost null"},
		{`{}`, `{"a":{}}`, "$.a: new {}"},
		{`[1,2]`, `[1]`, "$: [2] became [1]|$[1]: lost 2"},
		{`{"a":[]}`, `{"a":{}}`, "$.a: [0] became {}"},
		{`{"a":"1"}`, `{"a":1}`, `$.a: "1" became 1`},
	} {
		if got := strings.Join(DiffJSON([]byte(c.a), []byte(c.b)), "|"); got != c.want {
			t.Errorf("%s, %s: %q, want %q", c.a, c.b, got, c.want)
		}
	}
}

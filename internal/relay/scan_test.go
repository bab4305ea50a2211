package relay

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// What real bodies look like is taken without the library.
func TestPlainBodiesAreScanned(t *testing.T) {
	for _, body := range []string{
		plainAsk, streamAsk, `{}`, " {\n\t\"a\" : [ ] ,\r\n \"b\" : { } } \n",
		`{"model":"m","messages":[{"role":"user","content":"\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00 北京"},{"role":"user","content":[]}]}`,
		`{"a":[0,-0,1.5,-12.25e+10,1E-2,0e0,true,false,null,"",[[]],[{}],{"a":{"a":[1,2,{"a":1}]}}]}`,
		`{"a":{"x":1},"b":{"x":1},"x":[{"x":1},{"x":1}]}`,
		`{"a":` + nested("[", "", "]", maxDepth-1) + `}`, `{"a":` + nested(`{"a":`, "1", "}", maxDepth-1) + `}`,
		`{` + strings.TrimSuffix(numbered(maxQuickNames), ",") + `}`,
	} {
		got, ok := quickIndex([]byte(body), span{0, len(body)}, actedOn)
		if !ok {
			t.Errorf("given up: %.200s", body)
			continue
		}
		sameIndex(t, got, []byte(body))
	}
}

// sameIndex wants the library to have taken the body, with the same members.
func sameIndex(t *testing.T, got object, body []byte) {
	t.Helper()
	want, err := slowIndex(body, span{0, len(body)}, actedOn)
	if err != nil {
		t.Fatalf("taken, though %v: %q", err, body)
	}
	if got.end != want.end || !slices.Equal(got.members, want.members) {
		t.Fatalf("%q\nhas  %v %d\nwant %v %d", body, got.members, got.end, want.members, want.end)
	}
}

// FuzzScan wants the scanner to take nothing that the library does not, and to
// see the same in it.
func FuzzScan(f *testing.F) {
	addBodies(f)
	for _, body := range []string{
		`{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":1e}`, `{"a":.5}`, `{"a":+1}`, `{"a":1e+}`, `{"a":tru}`, `{"a":nulll}`, `{"a":"\u12g4"}`, `{"a":"\x"}`, `{"a":"\`,
		`{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{"a" 1}`, `{"a":[1,]}`, `{"a":[,]}`, `{"a":[1 2]}`, `{"a":[1}`, `{"a":{"b":1]}`, `{"a":1}}`, `{"a":1}x`, `{"a":1`, `[]`, `{`,
		`{"a":{"b":1,"c":{"b":1},"b":2}}`, `{"a":[{"b":1,"\u0062":2}]}`, "{\"a\":\"\x01\"}", "{\"a\":\"12345678\x1f\"}", "{\"\x80\":1,\"\x81\":1}", "{\"a\":\"\x80\"}", `{"Stream":1}`,
	} {
		f.Add([]byte(body), "")
	}
	f.Fuzz(func(t *testing.T, body []byte, _ string) {
		before := bytes.Clone(body)
		if got, ok := quickIndex(body, span{0, len(body)}, actedOn); ok {
			sameIndex(t, got, body)
		}
		if !bytes.Equal(body, before) {
			t.Fatal("the body itself was written to")
		}
		// The other way round it may give up only on names that are escaped, broken,
		// or far too many.
		if _, err := slowIndex(body, span{0, len(body)}, actedOn); err == nil && !bytes.ContainsRune(body, '\\') && jsontext.Value(body).IsValid() && bytes.Count(body, []byte(":")) <= maxQuickNames {
			if _, ok := quickIndex(body, span{0, len(body)}, actedOn); !ok {
				t.Fatalf("given up: %q", body)
			}
		}
	})
}

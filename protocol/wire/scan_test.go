package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var testNames = []string{"model", "stream", "max_tokens"}

func nested(open, inner, closing string, depth int) string {
	return strings.Repeat(open, depth) + inner + strings.Repeat(closing, depth)
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"m%d":%d,`, i, i)
	}
	return b.String()
}

func scanWhole(text []byte) (Index, bool) {
	return scanIndex(text, span{0, len(text)}, testNames)
}

// decodeWhole builds the index with the JSON library.
func decodeWhole(text []byte) (Index, error) {
	x := Index{text: text}
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadToken(); err != nil {
		return x, err
	}
	for x.end = int(d.InputOffset()); d.PeekKind() != '}'; {
		name, err := d.ReadToken()
		if err != nil {
			return x, err
		}
		m := location{name: name.String(), key: span{end: int(d.InputOffset())}}
		m.key.start = x.end + bytes.IndexByte(text[x.end:], '"')
		value, err := d.ReadValue()
		if err != nil {
			return x, err
		}
		x.end = int(d.InputOffset())
		m.value = span{x.end - len(value), x.end}
		x.members = append(x.members, m)
	}
	if _, err := d.ReadToken(); err != nil {
		return x, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return x, errors.New("more text")
	}
	return x, nil
}

// The scanner finds the same members as the JSON library.
func TestScanIndex(t *testing.T) {
	for _, text := range []string{
		`{"model":"m","messages":[]}`, `{"model":"m","stream":true}`, `{}`, " {\n\t\"a\" : [ ] ,\r\n \"b\" : { } } \n",
		`{"model":"m","messages":[{"role":"user","content":"\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00 北京"},{"role":"user","content":[]}]}`,
		`{"a":[0,-0,1.5,-12.25e+10,1E-2,0e0,true,false,null,"",[[]],[{}],{"a":{"a":[1,2,{"a":1}]}}]}`,
		`{"a":{"x":1},"b":{"x":1},"x":[{"x":1},{"x":1}]}`,
		`{"a":` + nested("[", "", "]", MaxDepth-1) + `}`, `{"a":` + nested(`{"a":`, "1", "}", MaxDepth-1) + `}`,
		`{` + strings.TrimSuffix(numbered(MaxMembers), ",") + `}`, `{"a":{` + numbered(5000) + `"z":0},"b":1}`, `{"\u0061":1,"b":{"\u0061":1,"\ud800":2}}`,
	} {
		got, ok := scanWhole([]byte(text))
		if !ok {
			t.Errorf("the scanner rejects %.200s", text)
			continue
		}
		wantSameIndex(t, got, []byte(text))
	}
}

// wantSameIndex checks that the JSON library accepts the text and finds the same
// members.
func wantSameIndex(t *testing.T, got Index, text []byte) {
	t.Helper()
	want, err := decodeWhole(text)
	if err != nil {
		t.Fatalf("the scanner accepts %q, the library says %v", text, err)
	}
	if got.end != want.end || !slices.Equal(got.members, want.members) {
		t.Fatalf("%q\ngot  %v %d\nwant %v %d", text, got.members, got.end, want.members, want.end)
	}
}

// FuzzScan checks that the scanner accepts the objects that the JSON library accepts, and
// finds the same members.
func FuzzScan(f *testing.F) {
	for _, text := range []string{
		`{"model":"m","messages":[{"role":"user","content":"Hi"}],"temperature":0.70,"big":12345678901234567890,"nothing":null}`,
		`{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":1e}`, `{"a":.5}`, `{"a":+1}`, `{"a":1e+}`, `{"a":tru}`, `{"a":nulll}`, `{"a":"\u12g4"}`, `{"a":"\x"}`, `{"a":"\`,
		`{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{"a" 1}`, `{"a":[1,]}`, `{"a":[,]}`, `{"a":[1 2]}`, `{"a":[1}`, `{"a":{"b":1]}`, `{"a":1}}`, `{"a":1}x`, `{"a":1`, `[]`, `{`,
		`{"a":{"b":1,"c":{"b":1},"b":2}}`, `{"a":[{"b":1,"\u0062":2}]}`, "{\"a\":\"\x01\"}", "{\"a\":\"12345678\x1f\"}", "{\"\x80\":1,\"\x81\":1}", "{\"a\":\"\x80\"}", `{"Stream":1}`,
		`{"model":"m","Model":"x"}`, `{"model":"m","\u017ftream":true}`, `{"model":"m","mod\u0065l":"x"}`, `{"":{"":[]},"model":"m"}`, `{"model":"\ud800"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !utf8.Valid(text) {
			return // IndexObject rejects it
		}
		before := bytes.Clone(text)
		got, ok := scanWhole(text)
		if ok {
			wantSameIndex(t, got, text)
		}
		if !bytes.Equal(text, before) {
			t.Fatal("the scanner changes the text")
		}
		if _, err := decodeWhole(text); !ok && err == nil && errors.Is(explainIndex(text, span{0, len(text)}, testNames), errNoReason) {
			t.Fatalf("the scanner rejects %q", text)
		}
	})
}

// FuzzUnmarshal checks that Unmarshal accepts the objects that the JSON library accepts.
func FuzzUnmarshal(f *testing.F) {
	for _, text := range []string{
		`{"a":{"b":[{"c":"\ud800"}]},"\u0062":-0.5e3}`, `{"a":1,"\u0061":2}`, `{"a":{"b":1,"b":2}}`, `{"a":[1,]}`, `{"a":"\x"}`, ` {} x`, `{"a":tru}`, `[`, ``,
		`{"a":{` + numbered(100) + `"m7":0}}`, `{"a":{` + numbered(100) + `"z":0}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var members Object
		var want Raw
		err := UnmarshalPart(text, &members)
		library := json.Unmarshal(text, &want, jsontext.AllowInvalidUTF8(true))
		if valid := library == nil && utf8.Valid(text) && want.Kind() == '{'; valid != (err == nil) {
			t.Fatalf("%q: %v, the library says %v", text, err, library)
		}
		if errors.Is(err, errNoReason) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

func TestCheckElements(t *testing.T) {
	for text, valid := range map[string]bool{
		`[` + strings.Repeat(`{},`, 5000) + `0]`:                     false,
		`{"a":{"b":[` + strings.Repeat(`{},`, 5000) + `0]}}`:         false,
		`[` + strings.Repeat(`[{}],`, 5000) + `0]`:                   false,
		`[` + strings.Repeat(`{"text":"hello"},`, 5000) + `0]`:       true,
		`[` + strings.Repeat(`0,`, 50000) + `0]`:                     true,
		`["` + strings.Repeat(`[{},{\"`, 50000) + `"]`:               true,
		`{` + strings.Repeat(`"a":{},`, 50000) + `"b":0}`:            true,
		`[` + strings.Repeat(`{},`, 900) + strings.Repeat(" ", 9000): true,
		strings.Repeat(`]}`, 5000) + strings.Repeat(`[[{`, 5000):     false,
	} {
		if err := CheckElements([]byte(text)); (err == nil) != valid {
			t.Errorf("%.40s: got %v, want valid %t", text, err, valid)
		}
	}
}

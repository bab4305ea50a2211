package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func ExampleScanner() {
	s := wire.NewScanner([]byte(`{"id":"c\u0031", "skipped":[{}], "choices":[1.10, {"a":null}]}`))
	for name := range s.Members() {
		switch string(name) {
		case "id":
			fmt.Println(wire.Unquote(s.Value()))
		case "choices":
			for i := range s.Items() {
				fmt.Println(i, s.Value())
			}
		}
	}
	fmt.Println(s.End())
	// Output:
	// c1
	// 0 1.10
	// 1 {"a":null}
	// <nil>
}

func TestScannerSkipsOtherKinds(t *testing.T) {
	s := wire.NewScanner([]byte(` ["text", {"a":1}, 2] `))
	for range s.Items() {
		for name := range s.Members() {
			if s.Kind() != '0' || string(name) != "a" {
				t.Errorf("member %s of kind %v", name, s.Kind())
			}
		}
	}
	if err := s.End(); err != nil {
		t.Error(err)
	}
}

func TestScannerStopsAtErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                       "not valid JSON at byte 0",
		`{"a":1`:                 "not valid JSON at byte 6",
		`{"a":1} x`:              "not valid JSON at byte 8",
		`{"a":tru,"b":1}`:        "not valid JSON at byte 5",
		`{"a":[1 2],"b":1}`:      "not valid JSON at byte 8",
		strings.Repeat("[", 1e6): "not valid JSON at byte 10001",
	} {
		s := wire.NewScanner([]byte(text))
		for name := range s.Members() {
			if string(name) == "b" {
				t.Errorf("%.20q: a member after the error", text)
			}
			s.Value()
		}
		if err := s.End(); err == nil || err.Error() != want {
			t.Errorf("%.20q: got %v, want %s", text, err, want)
		}
		if s.Kind() != 0 && text != `{"a":1} x` || s.Value() != nil {
			t.Errorf("%.20q: a value after the error", text)
		}
	}
}

// FuzzScanner checks that the scanner accepts the same texts as the JSON library.
func FuzzScanner(f *testing.F) {
	for _, text := range []string{`{"a":1,"a":[true,false,null,-1.5e+3,"\ud800\n"]}`, `[[],{}]`, `"\x"`, `01`, `{"a":1,}`, ` 1 `, `[1]]`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want := jsontext.Value(text).IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
		whole := wire.NewScanner(text)
		raw := whole.Value()
		if ok := whole.End() == nil; ok != want {
			t.Fatalf("Value: %v, the library: %v: %q", ok, want, text)
		}
		if want && string(raw) != strings.Trim(string(text), " \t\r\n") {
			t.Fatalf("Value returns %q of %q", raw, text)
		}
		parts := wire.NewScanner(text)
		walk(&parts)
		if ok := parts.End() == nil; ok != want {
			t.Fatalf("Members and Items: %v, the library: %v: %q", ok, want, text)
		}
	})
}

// walk reads the next value by its members and items.
func walk(s *wire.Scanner) {
	switch s.Kind() {
	case '{':
		for range s.Members() {
			walk(s)
		}
	case '[':
		for range s.Items() {
			walk(s)
		}
	default:
		s.Value()
	}
}

func TestTokens(t *testing.T) {
	const text = `{"a" : [1,"b\"\\",true],"c":{"d":"e"}}`
	want := []string{"{", `:"a"`, "[", `""b\"\\"`, "]", `:"c"`, "{", `:"d"`, `""e"`, "}", "}"}
	var got []string
	tokens := wire.NewTokens([]byte(text))
	for kind, quoted := tokens.Next(); kind != wire.NoToken; kind, quoted = tokens.Next() {
		got = append(got, string(kind)+string(quoted))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// Text may be cut off at any byte. The last token is then the part of a string
	// before the cut.
	for n := range len(text) {
		cut := wire.NewTokens([]byte(text[:n]))
		last := ""
		for kind, quoted := cut.Next(); kind != wire.NoToken; kind, quoted = cut.Next() {
			last = string(quoted)
		}
		if text[:n] == `{"a" : [1,"b\"` && last != `"b\"` {
			t.Errorf("the string that is cut off is %s", last)
		}
	}
}

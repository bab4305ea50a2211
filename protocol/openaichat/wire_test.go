package openaichat

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// wireTypes is one value of each wire type.
func wireTypes() []any {
	return []any{
		&Request{}, &Stop{}, &StreamOptions{}, &ResponseFormat{}, &JSONSchema{},
		&Tool{}, &Function{}, &CustomTool{}, &ToolChoice{},
		&NamedChoice{}, &Named{}, &AllowedTools{}, &FunctionCallChoice{}, &ToolCall{},
		&FunctionCall{}, &CustomCall{}, &Arguments{}, &Message{}, &Content{}, &Part{}, &CacheBreakpoint{}, &Image{},
		&ImageURL{}, &InputAudio{}, &File{}, &Annotation{}, &URLCitation{}, &Audio{},
		&Response{}, &Choice{}, &Logprobs{}, &ToolCallDelta{},
	}
}

// Every struct of the wire files is in wireTypes, so that TestRoundTrip tests it.
func TestWireTypesAreListed(t *testing.T) {
	listed := make(map[string]bool)
	for _, v := range wireTypes() {
		listed[reflect.TypeOf(v).Elem().Name()] = true
	}
	for _, file := range []string{"wire_request.go", "wire_response.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if _, isStruct := spec.Type.(*ast.StructType); isStruct && !listed[spec.Name.Name] {
				t.Errorf("%s: %s is not listed", file, spec.Name.Name)
			}
			return false
		})
	}
}

// Random objects of every type, with members in any order and unknown ones at
// every level, come out as they went in, byte for byte.
func TestRoundTrip(t *testing.T) {
	for _, v := range wireTypes() {
		typ := reflect.TypeOf(v).Elem()
		t.Run(typ.Name(), func(t *testing.T) {
			for seed := range uint64(150) {
				g := generator{rand.New(rand.NewPCG(seed, 1))}
				in := g.value(nil, typ, 0)
				target := reflect.New(typ).Interface()
				if err := wire.Unmarshal(in, target); err != nil {
					t.Fatalf("%s: %v", in, err)
				}
				out, err := wire.Marshal(target)
				if err != nil || !bytes.Equal(in, out) {
					t.Fatalf("%v\n in %s\nout %s", err, in, out)
				}
				again, err := wire.Marshal(target)
				if err != nil || !bytes.Equal(out, again) {
					t.Fatalf("encoding twice: %v\n%s\n%s", err, out, again)
				}
			}
		})
	}
}

// generator writes random compact JSON that fits a Go type.
type generator struct{ *rand.Rand }

func (g generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g generator) value(dst []byte, typ reflect.Type, depth int) []byte {
	switch typ {
	case reflect.TypeFor[wire.Number]():
		return append(dst, g.pick("0", "-0", "1.10", "1e2", "1E+2", "12345678901234567890", "0.1000", `"12"`, "-1.5e-7")...)
	case reflect.TypeFor[wire.Text]():
		return append(dst, g.pick(`""`, `"a"`, `"\u003cb\u003e<&>"`, `"北京"`, `"\u5317"`, `"\ud83d"`, `"\/\n\u000a"`, "\"\u2028\"", `"\u0000"`)...)
	case reflect.TypeFor[wire.Raw]():
		return g.json(dst, depth)
	case reflect.TypeFor[wire.Object]():
		return g.object(dst, nil, depth)
	}
	switch typ.Kind() {
	case reflect.String:
		return append(dst, g.pick(`""`, `"auto"`, `"<x>&"`, `"北京"`, `"a\"b\\c\n"`)...)
	case reflect.Bool:
		return append(dst, g.pick("true", "false")...)
	case reflect.Slice:
		return g.list(dst, typ.Elem(), depth)
	case reflect.Struct:
		return g.structure(dst, typ, depth)
	default:
		panic("no JSON for " + typ.String())
	}
}

func (g generator) structure(dst []byte, typ reflect.Type, depth int) []byte {
	if method, ok := typ.MethodByName("IsAbsent"); ok && method.Type.NumIn() == 1 { // an Opt
		if g.IntN(5) == 0 {
			return append(dst, "null"...)
		}
		value, _ := typ.MethodByName("Value")
		return g.value(dst, value.Type.Out(0), depth)
	}
	if elems, ok := typ.MethodByName("Slice"); ok { // a List
		return g.list(dst, elems.Type.Out(0).Elem(), depth)
	}
	if typ.Field(0).Tag.Get("wire") != "" {
		f := typ.Field(g.IntN(typ.NumField()))
		if f.Tag.Get("wire") == "any" {
			return append(dst, "true"...) // a kind that no other form takes
		}
		value, _ := f.Type.MethodByName("Value")
		if f.Tag.Get("wire") == "number" {
			return append(dst, "1.10"...)
		}
		return g.value(dst, value.Type.Out(0), depth)
	}
	var members []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		if name := f.Tag.Get("json"); name != "-" && g.IntN(3) > 0 && depth < 8 {
			members = append(members, fmt.Sprintf("%q:%s", name, g.value(nil, f.Type, depth+1)))
		}
	}
	return g.object(dst, members, depth)
}

// object adds unknown members and shuffles.
func (g generator) object(dst []byte, members []string, depth int) []byte {
	for i := range g.IntN(3) {
		name := g.pick("x", "Model", "ROLE", "北", "a/b~", "") + fmt.Sprint(i)
		members = append(members, fmt.Sprintf("%q:%s", name, g.json(nil, depth+1)))
	}
	g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return append(append(append(dst, '{'), strings.Join(members, ",")...), '}')
}

func (g generator) list(dst []byte, elem reflect.Type, depth int) []byte {
	dst = append(dst, '[')
	n := g.IntN(3)
	if depth > 8 {
		n = 0
	}
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = g.value(dst, elem, depth+1)
	}
	return append(dst, ']')
}

func (g generator) json(dst []byte, depth int) []byte {
	switch g.IntN(6) {
	case 0:
		return append(dst, "null"...)
	case 1:
		return g.value(dst, reflect.TypeFor[wire.Number](), depth)
	case 2:
		return g.value(dst, reflect.TypeFor[wire.Text](), depth)
	case 3:
		return g.list(dst, reflect.TypeFor[wire.Number](), depth)
	case 4:
		if depth < 6 {
			return g.object(dst, nil, depth+1)
		}
	}
	return append(dst, "true"...)
}

// Edited members keep their place, and all others stay unchanged.
func TestRequestEdits(t *testing.T) {
	const in = `{"model":"gpt-5.4","vendor":1,"stream":true,"messages":[{"role":"user","content":"北京今天适合跑步吗?","k":0}],"user":"u"}`
	var r Request
	if err := wire.Unmarshal([]byte(in), &r); err != nil {
		t.Fatal(err)
	}
	r.Model = wire.Some("other")
	r.User = wire.Opt[string]{}
	r.StreamOptions = wire.Some(StreamOptions{IncludeUsage: wire.Some(true)})
	messages := r.Messages.Value().Slice()
	messages[0].Content = wire.Some(NewContent("<好>"))
	r.Messages = wire.Some(wire.ListOf(messages...))
	out, err := wire.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"model":"other","vendor":1,"stream":true,"messages":[{"role":"user","content":"<好>","k":0}],"stream_options":{"include_usage":true}}`
	if string(out) != want {
		t.Errorf("\n got %s\nwant %s", out, want)
	}
}

func TestUnions(t *testing.T) {
	var r Request
	for _, choice := range []string{
		`"none"`, `"auto"`, `"required"`,
		`{"type":"function","function":{"name":"f"}}`,
		`{"type":"custom","custom":{"name":"c"}}`,
		`{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}`,
	} {
		in := `{"tool_choice":` + choice + `}`
		if err := wire.Unmarshal([]byte(in), &r); err != nil {
			t.Fatal(err)
		}
		c := r.ToolChoice.Value()
		if c.Mode.IsSet() == c.Object.IsSet() {
			t.Errorf("%s: mode %+v, object %+v", choice, c.Mode, c.Object)
		}
		if out, err := wire.Marshal(&r); err != nil || string(out) != in {
			t.Errorf("%v: got %s, want %s", err, out, in)
		}
	}
	for in, want := range map[string]int{`"a"`: 1, `["a","b"]`: 2, `[]`: 0} {
		var s Stop
		if err := wire.Unmarshal([]byte(in), &s); err != nil || len(s.Sequences()) != want {
			t.Errorf("stop %s: %v %v", in, s.Sequences(), err)
		}
	}
	for in, want := range map[string]string{`"{\"a\":1}"`: `{"a":1}`, `{"b": 1.10, "a": 2}`: `{"b":1.10,"a":2}`} {
		var a Arguments
		if err := wire.Unmarshal([]byte(in), &a); err != nil || a.String() != want {
			t.Errorf("arguments %s: %s %v", in, a, err)
		}
	}
}

func FuzzRequest(f *testing.F) {
	f.Add(request4K())
	for seed := range uint64(20) {
		g := generator{rand.New(rand.NewPCG(seed, 2))}
		f.Add(g.value(nil, reflect.TypeFor[Request](), 0))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var r, s Request
		if wire.Unmarshal(in, &r) != nil {
			return
		}
		out, err := wire.Marshal(&r)
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		if err := wire.Unmarshal(out, &s); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if !reflect.DeepEqual(r, s) {
			t.Fatalf("%s became %s", in, out)
		}
		a, b := jsontext.Value(bytes.Clone(in)), jsontext.Value(out)
		if a.Canonicalize(jsontext.AllowInvalidUTF8(true)) == nil && b.Canonicalize(jsontext.AllowInvalidUTF8(true)) == nil && !bytes.Equal(a, b) {
			t.Fatalf("%s became %s", a, b)
		}
	})
}

// request4K is a request of about 4 KB: tools with schemas and some history.
func request4K() []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"gpt-5.4","stream":true,"temperature":0.70,"stream_options":{"include_usage":true},"tools":[`)
	for i := range 4 {
		fmt.Fprintf(&b, `{"type":"function","function":{"name":"tool_%d","description":"Reads a file and returns its lines.","parameters":{"type":"object","properties":{"path":{"type":"string","description":"where the file is"},"limit":{"type":"integer","minimum":0}},"required":["path"],"additionalProperties":false},"strict":true}},`, i)
	}
	b.Truncate(b.Len() - 1)
	b.WriteString(`],"messages":[{"role":"system","content":"You are terse."}`)
	for i := range 6 {
		fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"text","text":"Look at line %d.\nThen tell me \"what\" it does."}]}`, i)
		fmt.Fprintf(&b, `,{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"tool_0","arguments":"{\"path\":\"main.go\",\"limit\":%[1]d}"}}]}`, i)
		fmt.Fprintf(&b, `,{"role":"tool","tool_call_id":"call_%d","content":"package main\n\nfunc main() { println(\"hi\") }"}`, i)
	}
	b.WriteString(`],"metadata":{"team":"a"},"x_vendor":{"keep":1.10}}`)
	return b.Bytes()
}

// callDelta is what one chunk adds to a tool call.
func callDelta() []byte {
	return []byte(`{"index":0,"id":"call_CZ0aBcDeFgHiJkLmNoPqRsTuVwXyZ","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Par"}}`)
}

func BenchmarkDecode(b *testing.B) {
	b.Run("request", func(b *testing.B) { benchmarkDecode[Request](b, request4K()) })
	b.Run("delta", func(b *testing.B) { benchmarkDecode[ToolCallDelta](b, callDelta()) })
}

func benchmarkDecode[T any](b *testing.B, data []byte) {
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		var v T
		if err := wire.Unmarshal(data, &v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	b.Run("request", func(b *testing.B) { benchmarkEncode[Request](b, request4K()) })
	b.Run("delta", func(b *testing.B) { benchmarkEncode[ToolCallDelta](b, callDelta()) })
}

func benchmarkEncode[T any](b *testing.B, data []byte) {
	var v T
	if err := wire.Unmarshal(data, &v); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		var err error
		if buf, err = wire.Append(buf[:0], &v); err != nil {
			b.Fatal(err)
		}
	}
}

package wire_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

type order struct {
	Name   wire.Opt[string]           `json:"name"`
	Count  wire.Opt[wire.Number]      `json:"count"`
	Open   wire.Opt[bool]             `json:"open"`
	Note   wire.Opt[wire.Text]        `json:"note"`
	Items  wire.Opt[wire.List[item]]  `json:"items"`
	Labels wire.Opt[wire.Object]      `json:"labels"`
	Schema wire.Raw                   `json:"schema"`
	Stop   wire.Opt[stop]             `json:"stop"`
	Parent wire.Opt[wire.List[order]] `json:"parent"`
	Extra  wire.Extra                 `json:"-"`
}

type item struct {
	ID    wire.Opt[string] `json:"id"`
	Extra wire.Extra       `json:"-"`
}

type stop struct {
	One   wire.Opt[string]   `wire:"string"`
	Many  wire.Opt[[]string] `wire:"array"`
	Flag  wire.Opt[bool]     `wire:"bool"`
	Other wire.Raw           `wire:"any"`
}

func (o *order) UnmarshalJSON(b []byte) error { return wire.Unmarshal(b, o) }
func (o order) MarshalJSON() ([]byte, error)  { return wire.Marshal(&o) }

func decoded(t *testing.T, in string) order {
	t.Helper()
	var o order
	if err := wire.Unmarshal([]byte(in), &o); err != nil {
		t.Fatalf("%s: %v", in, err)
	}
	return o
}

func encoded(t *testing.T, o order) string {
	t.Helper()
	out, err := wire.Marshal(&o)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestRoundTrip(t *testing.T) {
	for _, in := range []string{
		`{}`,
		`{"open":false,"name":"","count":0,"items":[]}`,
		`{"name":null,"count":null,"open":null,"note":null,"items":null,"labels":null,"schema":null,"stop":null}`,
		`{"z":1,"count":1.10,"y":{"b":[1e2,-0],"a":12345678901234567890},"name":"n","x":null}`,
		`{"items":[{"q":1,"id":"a","r":"\u003c"},{"id":null},{}]}`,
		`{"labels":{"b":1,"a":2,"":{}}}`,
		`{"NAME":"x","Name":"y","name":"z"}`,
		`{"note":"\u0041\/\ud83d\u2028<>&` + "\u2028" + `"}`,
		`{"count":"12"}`,
		// Brackets in a string do not count as nesting.
		`{"q":"\"` + strings.Repeat("[", 2*wire.MaxDepth) + `","r":"\\"}`,
		`{"stop":"a"}`, `{"stop":["a"]}`, `{"stop":true}`, `{"stop":{"k":1.0}}`, `{"stop":7}`,
		`{"parent":[{"parent":[{"w":1,"name":"deep"}],"v":2}]}`,
		`{"schema":{"type":"object","properties":{"z":{},"a":{}}}}`,
	} {
		if out := encoded(t, decoded(t, in)); out != in {
			t.Errorf("\n in %s\nout %s", in, out)
		}
	}
}

// A name with escapes is equal to the name without them.
func TestEscapedName(t *testing.T) {
	o := decoded(t, `{"n\u0061me":"x","\u0071":1}`)
	if out := encoded(t, o); out != `{"name":"x","q":1}` {
		t.Error(out)
	}
}

func TestEdits(t *testing.T) {
	const in = `{"x":1,"open":true,"name":"a","y":2}`
	for name, c := range map[string]struct {
		edit func(*order)
		want string
	}{
		"changed":     {func(o *order) { o.Name = wire.Some("b") }, `{"x":1,"open":true,"name":"b","y":2}`},
		"made null":   {func(o *order) { o.Name = wire.Null[string]() }, `{"x":1,"open":true,"name":null,"y":2}`},
		"made absent": {func(o *order) { o.Open = wire.Opt[bool]{} }, `{"x":1,"name":"a","y":2}`},
		"newly set": {func(o *order) {
			o.Schema = wire.Raw(`{}`)
			o.Count = wire.Some(wire.Int(3))
		}, `{"x":1,"open":true,"name":"a","y":2,"count":3,"schema":{}}`},
		"unknown changed": {func(o *order) { o.Extra.Set("x", wire.Raw(`[]`)) }, `{"x":[],"open":true,"name":"a","y":2}`},
		"unknown added": {func(o *order) {
			o.Extra.Set("new", wire.Raw(`0`))
			o.Count = wire.Some(wire.Int(3))
		}, `{"x":1,"open":true,"name":"a","y":2,"count":3,"new":0}`},
		"unknown deleted":     {func(o *order) { o.Extra.Delete("x") }, `{"open":true,"name":"a","y":2}`},
		"last deleted":        {func(o *order) { o.Extra.Delete("y") }, `{"x":1,"open":true,"name":"a"}`},
		"deleted after added": {func(o *order) { o.Extra.Set("n", wire.Raw(`0`)); o.Extra.Delete("x") }, `{"open":true,"name":"a","y":2,"n":0}`},
		"nothing to delete":   {func(o *order) { o.Extra.Delete("nobody") }, in},
		"field goes first":    {func(o *order) { o.Extra.Set("name", wire.Raw(`7`)) }, in},
		"field absent": {func(o *order) {
			o.Name = wire.Opt[string]{}
			o.Extra.Set("name", wire.Raw(`7`))
		}, `{"x":1,"open":true,"y":2,"name":7}`},
	} {
		t.Run(name, func(t *testing.T) {
			original := decoded(t, in)
			o := original
			c.edit(&o)
			if out := encoded(t, o); out != c.want {
				t.Errorf("\n got %s\nwant %s", out, c.want)
			}
			if out := encoded(t, original); out != in {
				t.Errorf("the copy's edit has changed the original: %s", out)
			}
		})
	}
}

// Responses may be nested deeper than requests.
func TestDepthOfResponses(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat(`{"x":`, n) + `1` + strings.Repeat(`}`, n)) }
	for name, decode := range map[string]func([]byte, any) error{"lenient": wire.UnmarshalLenient, "part": wire.UnmarshalPart} {
		if err := decode(nested(5_000), &order{}); err != nil {
			t.Errorf("%s, 5,000 levels: %.80s", name, err)
		}
		if err := decode(nested(10_001), &order{}); err == nil {
			t.Errorf("%s: 10,001 levels are accepted", name)
		}
	}
}

func TestErrors(t *testing.T) {
	deep := strings.Repeat(`{"x":`, wire.MaxDepth) + `1` + strings.Repeat(`}`, wire.MaxDepth)
	if err := json.Unmarshal([]byte(deep), &order{}); err != nil {
		t.Errorf("%d levels: %v", wire.MaxDepth, err)
	}
	for in, want := range map[string]string{
		`{"q":"\\","x":` + deep + `}`:     "/x" + strings.Repeat("/x", wire.MaxDepth-1) + ": arrays",
		`{"items":[{"id":"a"},{"id":5}]}`: "/items/1/id: want a string, got a number",
		`{"items":{}}`:                    "/items: want an array, got an object",
		`{"items":[null]}`:                "/items/0: want an object, got null",
		`{"open":"yes"}`:                  "/open: want true or false, got a string",
		`{"count":"many"}`:                "/count: want a number, got a string",
		`{"count":" 1"}`:                  "/count: want a number, got a string",
		`{"count":[1]}`:                   "/count: want a number, got an array",
		`{"labels":[]}`:                   "/labels: want an object, got an array",
		`{"name":"a","name":"b"}`:         "/name: duplicate object member name",
		`{"x":{"a":1,"a":2}}`:             "/x/a: duplicate object member name",
		`{"n\u0061me":"a","name":"b"}`:    "/name: duplicate object member name",
		`[]`:                              "want an object, got an array",
		`null`:                            "want an object, got null",
		`{} {}`:                           "invalid character '{' after top-level value",
		`{"items":[{"id":"a`:              "/items/0/id: the JSON text ends too early",
		``:                                "the JSON text ends too early",
		"{\"items\":[{\"id\":\"\xff\"}]}": "/items/0/id: the text is not valid UTF-8",
		`{"a/b~":{"y":` + deep + `}}`:     "/a~1b~0/y" + strings.Repeat("/x", wire.MaxDepth-2) + ": arrays and objects are nested too deeply",
		`{"q":"[[[","x":` + deep[:5] + deep + `}`: "/x" + strings.Repeat("/x", wire.MaxDepth-1) + ": ",
	} {
		err := wire.Unmarshal([]byte(in), &order{})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60s:\n got %v\nwant %s", in, err, want)
		}
		if _, ok := errors.AsType[*wire.Error](err); !ok {
			t.Errorf("%.60s: %T", in, err)
		}
	}
	if err := wire.Unmarshal([]byte(`{"a":1,"a":2}`), &order{}); !errors.Is(err, jsontext.ErrDuplicateName) {
		t.Errorf("the cause is lost: %v", err)
	}
}

// Unmarshal overwrites the target even if it fails.
func TestUnmarshalTarget(t *testing.T) {
	o := decoded(t, `{"name":"a","x":1}`)
	if err := wire.Unmarshal([]byte(`{"open":true}`), &o); err != nil {
		t.Fatal(err)
	}
	if out := encoded(t, o); out != `{"open":true}` {
		t.Error(out)
	}
	if wire.Unmarshal([]byte(`{"count":1,"y":2,"name":1}`), &o) == nil {
		t.Fatal("no error")
	}
	if out := encoded(t, o); out != `{}` {
		t.Error(out)
	}
}

func TestLenient(t *testing.T) {
	const in = `{"name":7,"open":"yes","items":"none","count":1,"stop":["a"]}`
	var o order
	if err := wire.UnmarshalLenient([]byte(in), &o); err != nil {
		t.Fatal(err)
	}
	if !o.Name.IsAbsent() || !o.Open.IsAbsent() || o.Count.Value() != "1" {
		t.Errorf("name %+v, open %+v, count %+v", o.Name, o.Open, o.Count)
	}
	if raw, ok := o.Extra.Get("open"); !ok || string(raw) != `"yes"` {
		t.Errorf("open: %s", raw)
	}
	if out := encoded(t, o); out != in {
		t.Errorf("\n in %s\nout %s", in, out)
	}
	// An item of an array cannot be kept as a member.
	if err := wire.UnmarshalLenient([]byte(`{"items":[1]}`), &o); err == nil {
		t.Error("an element that does not fit was taken")
	}
	if err := wire.UnmarshalLenient([]byte(`{"items":[{"id":1}]}`), &o); err != nil {
		t.Errorf("a member of an element: %v", err)
	}
}

func TestMarshalErrors(t *testing.T) {
	for want, o := range map[string]order{
		`count: "abc" is not a number`:               {Count: wire.Some(wire.Number("abc"))},
		`count: "" is not a number`:                  {Count: wire.Some(wire.Number(""))},
		`count: "01" is not a number`:                {Count: wire.Some(wire.Number("01"))},
		`stop: wire_test.stop holds no value`:        {Stop: wire.Some(stop{})},
		`stop: wire_test.stop holds two forms`:       {Stop: wire.Some(stop{One: wire.Some("a"), Flag: wire.Some(true)})},
		`member "x" has no value`:                    {Extra: wire.NewExtra(wire.Object{{Name: "x"}})},
		`parent: 0: count: "x" is not a number`:      {Parent: wire.Some(wire.ListOf(order{Count: wire.Some(wire.Number("x"))}))},
		`labels: member "l" has no value; delete it`: {Labels: wire.Some(wire.Object{{Name: "l"}})},
	} {
		if _, err := wire.Marshal(&o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A struct may define JSON methods with Marshal and Unmarshal, which both JSON packages
// use, and any struct can contain an Opt.
func TestJSONPackages(t *testing.T) {
	type outer struct {
		Order order              `json:"order"`
		Maybe wire.Opt[string]   `json:"maybe,omitzero"`
		Null  wire.Opt[string]   `json:"null"`
		List  wire.Opt[[]string] `json:"list"`
		Obj   wire.Object        `json:"obj"`
		Text  wire.Text          `json:"text"`
		Num   wire.Number        `json:"num"`
	}
	const in = `{"order":{"q":1.10,"name":"a"},"null":null,"list":["x"],"obj":{"b":1,"a":2},"text":"t","num":1e2}`
	type marshal = func(any) ([]byte, error)
	type unmarshal = func([]byte, any) error
	for name, c := range map[string]struct {
		marshal   marshal
		unmarshal unmarshal
	}{
		"encoding/json": {json.Marshal, json.Unmarshal},
		"experiment": {
			func(v any) ([]byte, error) { return jsonv2.Marshal(v) },
			func(b []byte, v any) error { return jsonv2.Unmarshal(b, v) },
		},
	} {
		var o outer
		if err := c.unmarshal([]byte(in), &o); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if out, err := c.marshal(o); err != nil || string(out) != in {
			t.Errorf("%s: %v\n in %s\nout %s", name, err, in, out)
		}
		if !o.Maybe.IsAbsent() || !o.Null.IsNull() || o.List.Value()[0] != "x" {
			t.Errorf("%s: %+v", name, o)
		}
	}
	var o outer
	for _, bad := range []string{`{"num":"x"}`, `{"text":1}`, `{"obj":[]}`, `{"order":[]}`} {
		if json.Unmarshal([]byte(bad), &o) == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[wire.Number]int64{
		"0": 0, "-7": -7, "1e2": 100, "1.0": 1, `"12"`: 12, "9223372036854775807": 9223372036854775807,
	} {
		if n, err := text.Int64(); err != nil || n != want {
			t.Errorf("%s: %d %v", text, n, err)
		}
	}
	for _, text := range []wire.Number{"1.5", "12345678901234567890", "1e30", "x", ""} {
		if n, err := text.Int64(); err == nil {
			t.Errorf("%s: %d", text, n)
		}
	}
	if f, err := wire.Number("1.10").Float64(); err != nil || f != 1.1 {
		t.Errorf("%v %v", f, err)
	}
	if _, err := wire.Number("1e999").Float64(); err == nil {
		t.Error("1e999 has no float")
	}
	if wire.Int(-3) != "-3" {
		t.Error(wire.Int(-3))
	}
}

func TestText(t *testing.T) {
	var a, b wire.Text
	if a.UnmarshalJSON([]byte(`"x\ud83d"`)) != nil || b.UnmarshalJSON([]byte(`"\ude00y"`)) != nil {
		t.Fatal("fragments were refused")
	}
	if s := a.String(); s != "x\ufffd" {
		t.Errorf("half: %q", s)
	}
	if s := a.Whole().String(); s != "x\ufffd" {
		t.Errorf("whole half: %q", s)
	}
	both := wire.JoinedText(b.AppendBody(a.AppendBody(nil)))
	if s := both.Whole().String(); s != "x😀y" {
		t.Errorf("joined: %q", s)
	}
	if both.Whole() != both {
		t.Error("whole text was spelled anew")
	}
	s := "<\"\\\n\u2028\x00北>"
	if got := wire.NewText(s).String(); got != s {
		t.Errorf("%q became %q", s, got)
	}
}

func TestOpt(t *testing.T) {
	o := wire.Some(3)
	if v, ok := o.Get(); !ok || v != 3 || o.Or(4) != 3 {
		t.Error(v, ok)
	}
	*o.Ptr() = 5
	if o.Value() != 5 {
		t.Error(o)
	}
	n := wire.Null[int]()
	if n.IsSet() || !n.IsNull() || n.IsAbsent() || n.Or(4) != 4 || n.Ptr() != nil {
		t.Error(n)
	}
	var none wire.Opt[int]
	if none.IsSet() || none.IsNull() || !none.IsAbsent() {
		t.Error(none)
	}
}

func TestObject(t *testing.T) {
	o := wire.Object{{Name: "b", Value: wire.Raw(`1`)}}
	p := o.With("a", wire.Raw(`2`)).With("b", wire.Raw(`3`))
	if out, err := p.MarshalJSON(); err != nil || string(out) != `{"b":3,"a":2}` {
		t.Errorf("%s %v", out, err)
	}
	if v, ok := o.Get("b"); !ok || string(v) != "1" {
		t.Errorf("With changed its receiver: %s", v)
	}
}

func TestCompact(t *testing.T) {
	for in, want := range map[string]string{
		`{ "b" : 1.10, "a":[ 1e2 ,"x y"] }`: `{"b":1.10,"a":[1e2,"x y"]}`,
		`{"a":"b c"}`:                       `{"a":"b c"}`,
		`{ not json`:                        `{ not json`,
	} {
		if got := string(wire.Compact(wire.Raw(in))); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}

// Marshal panics if the type is not supported.
func TestUnsupportedTypePanics(t *testing.T) {
	for name, marshal := range map[string]func(){
		"plain field": func() { use[struct{ A int }]() },
		"plain type": func() {
			use[struct {
				A wire.Opt[int] `json:"a"`
			}]()
		},
		"not optional": func() {
			use[struct {
				A string `json:"a"`
			}]()
		},
		"no such form": func() {
			use[struct {
				A wire.Opt[string] `wire:"text"`
			}]()
		},
		"map": func() { use[map[string]string]() },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			marshal()
		}()
	}
}

func use[T any]() {
	var v T
	_, _ = wire.Marshal(&v)
}

func FuzzRoundTrip(f *testing.F) {
	for _, in := range []string{
		`{"z":1,"count":1.10,"y":{"b":[1e2,-0]},"name":"n","items":[{"q":1}],"stop":["a"],"labels":{"a":1}}`,
		`{"note":"\ud83d","name":"\u003c","parent":[{}]}`, `{"open":"yes"}`,
	} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var o, p order
		if wire.UnmarshalLenient(in, &o) != nil {
			return
		}
		out, err := wire.Marshal(&o)
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		if err := wire.UnmarshalLenient(out, &p); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if !reflect.DeepEqual(o, p) {
			t.Fatalf("%s became %s", in, out)
		}
	})
}

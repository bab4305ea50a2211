package wire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func ExamplePatch() {
	body := []byte(`{ "model": "alias", "temperature": 0.70, "n": 1 }`)
	x, err := wire.IndexObject(body, "model")
	if err != nil {
		fmt.Println(err)
		return
	}
	rename, _ := x.Rename("temperature", "temp")
	remove, _ := x.Remove("n")
	fmt.Printf("%s\n", wire.Patch(body, []wire.Edit{rename, remove, x.Set("model", `"real"`)}))
	// Output: { "model": "real", "temp": 0.70 }
}

func TestIndexFindsMembers(t *testing.T) {
	x, err := wire.IndexObject([]byte(`{"a":1.10,"\u0062": null,"c":{"d":[{}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for name, value := range x.All() {
		all = append(all, name+"="+string(value))
	}
	if got := strings.Join(all, " "); got != `a=1.10 b=null c={"d":[{}]}` || x.Len() != 3 {
		t.Error(got, x.Len())
	}
	if x.Raw("b") != nil || !x.Has("b") || x.Raw("x") != nil || x.Has("x") {
		t.Error("null and absent members")
	}
	c, err := x.Object("c")
	if err != nil || string(c.Raw("d")) != `[{}]` {
		t.Error(err, c)
	}
	for _, name := range []string{"a", "b", "x"} {
		if _, err := x.Object(name); err == nil {
			t.Error(name, "is not an object")
		}
	}
}

func TestIndexRejects(t *testing.T) {
	for text, want := range map[string]string{
		``:                              "not a JSON object",
		`[]`:                            "not a JSON object",
		`{"a":`:                         "not valid JSON at byte 5",
		`{"a":1}2`:                      "data after the JSON object",
		`{"a":{"secret":1,"secret":2}}`: "duplicate name in a JSON object at byte 17",
		`{"a":1,"model":1,"model":2}`:   `/model: duplicate name "model" at byte 17`,
		`{"MODEL":1}`:                   `/model: a name differs from "model" only in case; write "model"`,
		"{\"a\":\"\xff\"}":              "not valid UTF-8",
		`{"a":` + strings.Repeat("[", wire.MaxDepth) + strings.Repeat("]", wire.MaxDepth) + `}`: "the JSON is nested more than 64 levels deep",
	} {
		_, err := wire.IndexObject([]byte(text), "model")
		if err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
		if _, ok := errors.AsType[*wire.Error](err); !ok {
			t.Errorf("%q: got a %T", text, err)
		}
	}
	// Offsets count from the start of the whole text.
	x, err := wire.IndexObject([]byte(`{"a":{"Model":1}}`), "model")
	if err != nil {
		t.Fatal("names apply to the top level only:", err)
	}
	if _, err := x.Object("a", "model"); err == nil {
		t.Error("a nested case variant")
	}
}

func TestPatchEdits(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"remove the first", `{"x" : 1 , "b":2}`, `{"b":2}`},
		{"remove the last", `{"b":2 , "x":1 }`, `{"b":2 }`},
		{"remove one between", `{"b":2,"x":1,"c":3}`, `{"b":2,"c":3}`},
		{"remove the only one", `{ "x":1 }`, `{  }`},
		{"nothing to remove", `{"b":2}`, `{"b":2}`},
	} {
		x, err := wire.IndexObject([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		var edits []wire.Edit
		if e, ok := x.Remove("x"); ok {
			edits = append(edits, e)
		}
		if got := string(wire.Patch([]byte(c.text), edits)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	for text, want := range map[string]string{
		`{}`: `{"x":true}`, `{ }`: `{"x":true }`, `{"a":1 }`: `{"a":1,"x":true }`, `{"x" : null}`: `{"x" : true}`,
	} {
		x, err := wire.IndexObject([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(wire.Patch([]byte(text), []wire.Edit{x.Set("x", "true")})); got != want {
			t.Errorf("set in %s: got %s, want %s", text, got, want)
		}
		if _, ok := x.Rename("a", "x"); ok != (text == `{"a":1 }`) {
			t.Errorf("rename in %s: %v", text, ok)
		}
	}
}

// TestRemoveAll checks that the rest of an object stays as it is, wherever the removed members are.
func TestRemoveAll(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1, "x":2 ,"b":3}`:            `{"a":1 ,"b":3}`,
		`{"x":1,"y":2, "a":3}`:             `{"a":3}`,
		`{ "a" : 1 , "x":2,"y":3 }`:        `{ "a" : 1 }`,
		`{"x":1,"a":2,"y":3,"b":4,"x2":5}`: `{"a":2,"b":4,"x2":5}`,
		`{"x":1,"y":2}`:                    `{}`,
		`{"a":1}`:                          `{"a":1}`,
		`{}`:                               `{}`,
	} {
		x, err := wire.IndexObject([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(wire.Patch([]byte(text), x.RemoveAll("x", "y"))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

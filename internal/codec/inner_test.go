package codec_test

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func TestFindModels(t *testing.T) {
	for body, want := range map[string]string{
		`{"models":["a","b"]}`:                             "a b",
		`{"models":{"model":"a","stop":["x"]}}`:            "a",
		`{"models":[{"a":["b","c"]}]}`:                     "b c",
		`{"models":[1,null,true,{"model":2},"a"]}`:         "a",
		`{"MO_DELS":"\u0061"}`:                             "a",
		`{"tools":[{"model":"a"},{"x":{"model":"b"}}]}`:    "a",
		`{"tools":{"model":"a"}}`:                          "a",
		`{"tools":[{"text":"odel"},{"model":"a"}]}`:        "a",
		`{"tools":[{"text":"model"}]}`:                     "",
		`{"tools":[{"\u006dodel":"a","model\u005f":"b"}]}`: "a b",
		`{"deepInside":{"each":[{"model":"a"}]}}`:          "a",
		`{"deep_inside":{"EACH":{"model":"a"}}}`:           "a",
		`{"deepinside":{"each":[["model"]],"model":"b"}}`:  "",
		`{"model":"a","other":{"models":["b"]}}`:           "",
		`{}`:                                               "",
	} {
		x, err := wire.IndexObject([]byte(body))
		if err != nil {
			t.Fatal(body, err)
		}
		var names []string
		for _, m := range codec.FindModels(&x, "models", "tools[].model", "deep_inside.each[].model") {
			names = append(names, m.Name)
			if v := wire.Raw(body[m.Start:m.End]); wire.Unquote(v) != m.Name {
				t.Errorf("%s: %q is at %s", body, m.Name, v)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

// TestFindModelsIsFree checks that a request that names one model only costs no
// allocation, whatever its tools are.
func TestFindModelsIsFree(t *testing.T) {
	tool := `{"type":"function","function":{"name":"f","description":"about the model of things","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}`
	x, err := wire.IndexObject([]byte(`{"model":"m","max_completion_tokens":5,"messages":[{"role":"user","content":"hi"}],"tools":[` + tool + strings.Repeat(","+tool, 99) + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { codec.FindModels(&x, "models", "fallbacks", "tools[].model", "max.model") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

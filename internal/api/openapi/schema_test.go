package openapi

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// TestSchema validates values against every keyword that tags can set.
func TestSchema(t *testing.T) {
	type inner struct {
		Flag bool `json:"flag"`
	}
	type outer struct {
		Text  string    `json:"text,omitempty" minLength:"2" maxLength:"3" pattern:"^[a-zé]*$"`
		Kind  *string   `json:"kind,omitempty" enum:"a,b"`
		Count int64     `json:"count,omitzero" minimum:"-1" maximum:"5"`
		Size  uint64    `json:"size,omitzero"`
		Ratio float64   `json:"ratio,omitzero"`
		List  []string  `json:"list,omitempty" maxItems:"2" enum:"x,y"`
		Inner *inner    `json:"inner,omitempty"`
		Time  time.Time `json:"time,omitzero"`
	}
	s := schemas{}.of(reflect.TypeFor[outer]())
	for text, location := range map[string]string{
		`{}`: "", `[]`: "body", `1`: "body", `"x"`: "body", `true`: "body",
		`{"text":"ab"}`: "", `{"text":"éé"}`: "", `{"text":"a"}`: "body.text", `{"text":"abcd"}`: "body.text", `{"text":"AB"}`: "body.text", `{"text":1}`: "body.text",
		`{"kind":"b"}`: "", `{"kind":"c"}`: "body.kind",
		`{"count":-1}`: "", `{"count":5}`: "", `{"count":6}`: "body.count", `{"count":-2}`: "body.count", `{"count":0.5}`: "body.count", `{"count":1e30}`: "body.count",
		`{"size":0}`: "", `{"size":-1}`: "body.size",
		`{"ratio":0.5}`: "", `{"ratio":1}`: "", `{"ratio":"1"}`: "body.ratio",
		`{"list":["x","y"]}`: "", `{"list":["x","y","x"]}`: "body.list", `{"list":["x","z"]}`: "body.list[1]", `{"list":"x"}`: "body.list",
		`{"inner":{"flag":true}}`: "", `{"inner":{}}`: "body.inner.flag", `{"inner":{"flag":0}}`: "body.inner.flag", `{"inner":{"flag":true,"Flag":true}}`: "body.inner.Flag",
		`{"time":"2030-01-31T00:00:00Z"}`: "", `{"unknown":1}`: "body.unknown",
	} {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		mistakes := s.validate(value, "body")
		if location == "" && len(mistakes) > 0 || location != "" && (len(mistakes) != 1 || mistakes[0].Location != location) {
			t.Errorf("%s: %v, want a mistake at %q", text, mistakes, location)
		}
	}
}

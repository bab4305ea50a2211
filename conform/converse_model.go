package conform

import (
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// converseModel has the shapes of a Converse request, as the service model of the AWS SDKs
// describes them (bedrock-runtime, 2023-09-30).
//
//go:embed converse_model.json
var converseModel []byte

// converseShapes returns the shapes of the service model by name.
var converseShapes = sync.OnceValue(func() (shapes map[string]shape) {
	if err := json.Unmarshal(converseModel, &shapes); err != nil {
		panic(err) // the file is a part of the package
	}
	return shapes
})

// shape describes a value of the service model.
type shape struct {
	Type     string            `json:"type"`
	Members  map[string]string `json:"members"`
	Required []string          `json:"required"`
	Member   string            `json:"member"`
	Key      string            `json:"key"`
	Value    string            `json:"value"`
	Min      *float64          `json:"min"`
	Max      *float64          `json:"max"`
	Pattern  string            `json:"pattern"`
	Enum     []string          `json:"enum"`
	Union    bool              `json:"union"`
	Document bool              `json:"document"`
}

// checkShape adds a problem if a value has a member that its shape does not have, lacks a
// required one, or is out of bounds.
func checkShape(at, name string, v value, bad *problemList) {
	s := converseShapes()[name]
	switch {
	case s.Document:
	case s.Type == "structure":
		s.checkMembers(at, v, bad)
	case s.Type == "list":
		bad.addIf(!v.isList(), "%s is no list", at)
		for i, item := range v.list() {
			checkShape(fmt.Sprintf("%s[%d]", at, i), s.Member, item, bad)
		}
		s.checkBounds(at, float64(len(v.list())), bad)
	case s.Type == "map":
		bad.addIf(!v.isObject(), "%s is no object", at)
		for _, k := range v.names() {
			checkShape(at+"."+k, s.Key, value{k, true}, bad)
			checkShape(at+"."+k, s.Value, v.at(k), bad)
		}
		s.checkBounds(at, float64(len(v.names())), bad)
	default:
		s.checkScalar(at, v, bad)
	}
}

func (s shape) checkMembers(at string, v value, bad *problemList) {
	bad.addIf(!v.isObject(), "%s is no object", at)
	bad.addIf(s.Union && len(v.names()) != 1, "%s is a union with %d members", at, len(v.names()))
	for _, name := range s.Required {
		bad.addIf(!v.at(name).here, "%s has no %s", at, name)
	}
	for _, name := range v.names() {
		kind, ok := s.Members[name]
		bad.addIf(!ok, "%s has the unknown member %s", at, name)
		if ok {
			checkShape(at+"."+name, kind, v.at(name), bad)
		}
	}
}

func (s shape) checkScalar(at string, v value, bad *problemList) {
	switch s.Type {
	case "boolean":
		_, ok := v.v.(bool)
		bad.addIf(!ok, "%s is no boolean", at)
	case "integer", "long", "float", "double":
		var n float64
		err := json.Unmarshal([]byte(v.number()), &n)
		bad.addIf(err != nil || s.Type[0] == 'i' && n != float64(int64(n)), "%s is %s, not a number of the type %s", at, v, s.Type)
		s.checkBounds(at, n, bad)
	case "blob":
		data, err := base64.StdEncoding.DecodeString(v.str())
		bad.addIf(!v.isString() || err != nil, "%s is not base64", at)
		s.checkBounds(at, float64(len(data)), bad)
	case "string":
		text := v.str()
		bad.addIf(!v.isString(), "%s is no string", at)
		bad.addIf(len(s.Enum) > 0 && !slices.Contains(s.Enum, text), "%s: %q is not one of %v", at, text, s.Enum)
		bad.addIf(s.Pattern != "" && !regexp.MustCompile(`^(?:`+s.Pattern+`)$`).MatchString(text), "%s: %q does not match %s", at, text, s.Pattern)
		s.checkBounds(at, float64(strings.Count(text, "")-1), bad)
	}
}

func (s shape) checkBounds(at string, n float64, bad *problemList) {
	bad.addIf(s.Min != nil && n < *s.Min || s.Max != nil && n > *s.Max, "%s: %v is out of bounds", at, n)
}

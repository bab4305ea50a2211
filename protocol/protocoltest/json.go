package protocoltest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// lenient are the options for reading JSON that does not follow the standard.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// DiffJSON lists the differences between two JSON texts. It ignores the order of members,
// white space and the form of escapes. Numbers must have the same text.
func DiffJSON(want, got []byte) []string {
	a, b := flatten(want), flatten(got)
	var diff []string
	for _, path := range slices.Sorted(maps.Keys(a)) {
		if have, ok := b[path]; !ok {
			diff = append(diff, fmt.Sprintf("%s: lost %s", path, a[path]))
		} else if have != a[path] {
			diff = append(diff, fmt.Sprintf("%s: %s became %s", path, a[path], have))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[path]; !ok {
			diff = append(diff, fmt.Sprintf("%s: new %s", path, b[path]))
		}
	}
	return diff
}

// flatten returns the scalar values of a JSON text by path.
func flatten(raw []byte) map[string]string {
	out := map[string]string{}
	walk(out, "$", raw)
	return out
}

func walk(out map[string]string, path string, raw jsontext.Value) {
	switch raw.Kind() {
	case '{':
		out[path] = "{}"
		var m map[string]jsontext.Value
		if json.Unmarshal(raw, &m, lenient) == nil {
			for name, v := range m {
				walk(out, path+"."+name, v)
			}
		}
	case '[':
		var list []jsontext.Value
		if json.Unmarshal(raw, &list, lenient) == nil {
			out[path] = "[" + strconv.Itoa(len(list)) + "]"
			for i, v := range list {
				walk(out, path+"["+strconv.Itoa(i)+"]", v)
			}
		}
	case '"':
		var s string
		_ = json.Unmarshal(raw, &s, lenient) // a string is a string
		out[path] = strconv.Quote(s)
	default:
		out[path] = string(raw)
	}
}

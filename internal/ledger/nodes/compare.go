package nodes

import (
	"fmt"
	"slices"
	"strings"
)

// Difference is a setting that two configurations do not have in common.
type Difference struct {
	Setting string `json:"setting" doc:"Such as model fast, or retries."`
	Here    string `json:"here,omitempty" doc:"On the node that responds. Absent: it does not have the setting."`
	There   string `json:"there,omitempty" doc:"On the other node. Absent: it does not have the setting."`
}

// Compare returns the differences of two configurations, in their order.
func Compare(here, there string) []Difference {
	a, b := facts(here), facts(there)
	values := make(map[string]string, len(b))
	for _, f := range b {
		values[f.Setting] = f.There
	}
	var out []Difference
	for _, f := range a {
		f.Here = f.There
		f.There = values[f.Setting]
		delete(values, f.Setting)
		if f.Here != f.There {
			out = append(out, f)
		}
	}
	for _, f := range b {
		if _, only := values[f.Setting]; only {
			out = append(out, f)
		}
	}
	return out
}

// named are the first words of lines whose second word is a name.
var named = []string{"provider", "model", "price", "identity"}

// facts splits a configuration into its settings, with their values in There. An indented line belongs
// to the line before that is not, and is known by its place there.
func facts(text string) (out []Difference) {
	seen := map[string]int{}
	parent := ""
	for line := range strings.Lines(text) {
		words := strings.TrimRight(line, "\n")
		inner := strings.TrimLeft(words, " ")
		name, value, _ := strings.Cut(inner, " ")
		if slices.Contains(named, name) {
			second, rest, _ := strings.Cut(value, " ")
			name, value = name+" "+second, rest
		}
		if inner != words {
			name = parent + ", " + name
		}
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s %d", name, seen[name])
		}
		if inner == words {
			parent = name
		}
		if value == "" { // a setting without a value is not an absent one
			value = "set"
		}
		out = append(out, Difference{Setting: name, There: value})
	}
	return out
}

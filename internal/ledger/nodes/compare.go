package nodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Difference is a setting that two configurations do not have in common.
type Difference struct {
	Setting string `json:"setting" doc:"Such as retries.attempts, or providers.main.base_url."`
	Here    string `json:"here,omitempty" doc:"On the node that responds. Absent: it does not have the setting."`
	There   string `json:"there,omitempty" doc:"On the other node. Absent: it does not have the setting."`
}

// ErrOtherForm is the error for a configuration that another version of the gateway has encoded.
var ErrOtherForm = errors.New("nodes: another version has written the configuration")

// Encode returns the settings of a configuration, by key, as the store has them and nodes compare them: a JSON list
// of pairs of key and value, a pair on each line. The setting node is left out, because every node has its own.
func Encode(settings iter.Seq2[string, string]) string {
	var lines []string
	for key, value := range settings {
		if key != "node" {
			pair, _ := json.Marshal([]string{key, value}) // texts always have a form in JSON
			lines = append(lines, string(pair))
		}
	}
	slices.Sort(lines)
	return "[\n" + strings.Join(lines, ",\n") + "\n]"
}

func decode(config string) (pairs [][2]string, err error) {
	if err := json.Unmarshal([]byte(config), &pairs); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOtherForm, err)
	}
	return pairs, nil
}

// Text returns an encoded configuration for people, a setting on each line. That of another version is returned as
// it is.
func Text(config string) string {
	pairs, err := decode(config)
	if err != nil {
		return config
	}
	var b strings.Builder
	for _, p := range pairs {
		b.WriteString(p[0] + ": " + strings.ReplaceAll(p[1], "\n", " ") + "\n")
	}
	return b.String()
}

// Compare returns the settings that differ in two encoded configurations, by key.
func Compare(here, there string) (out []Difference, err error) {
	a, err := decode(here)
	if err != nil {
		return nil, err
	}
	b, err := decode(there)
	if err != nil {
		return nil, err
	}
	all := map[string]*Difference{}
	for i, pairs := range [][][2]string{a, b} {
		for _, p := range pairs {
			d := all[p[0]]
			if d == nil {
				d = &Difference{Setting: p[0]}
				all[p[0]] = d
			}
			if i == 0 {
				d.Here = p[1]
			} else {
				d.There = p[1]
			}
		}
	}
	for _, d := range all {
		if d.Here != d.There {
			out = append(out, *d)
		}
	}
	slices.SortFunc(out, func(a, b Difference) int { return strings.Compare(a.Setting, b.Setting) })
	return out, nil
}

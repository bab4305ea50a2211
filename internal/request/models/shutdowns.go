package models

import (
	_ "embed" // the table
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml"
)

//go:embed shutdowns.yaml
var shutdownTable []byte

// Shutdown returns the day on which the vendor with a preset ends a model, as far as the
// built-in table knows it, or the zero time.
func Shutdown(preset, model string) time.Time {
	for _, s := range shutdowns()[preset] {
		if begin, open := strings.CutSuffix(s.model, "*"); model == s.model || open && strings.HasPrefix(model, begin) {
			return s.on
		}
	}
	return time.Time{}
}

// shutdown is the day on which a vendor ends a model, or all models with a prefix.
type shutdown struct {
	model string // a name, or a prefix that ends in *
	on    time.Time
}

// shutdowns returns the table by preset. It panics if the table is invalid, which a test
// would show.
var shutdowns = sync.OnceValue(func() map[string][]shutdown {
	var file struct {
		Vendors []struct {
			Preset    string `yaml:"preset"`
			AsOf      string `yaml:"as_of"`
			Source    string `yaml:"source"`
			Shutdowns []struct {
				On     string   `yaml:"on"`
				Models []string `yaml:"models"`
			} `yaml:"shutdowns"`
		} `yaml:"vendors"`
	}
	if err := yaml.UnmarshalWithOptions(shutdownTable, &file, yaml.Strict()); err != nil {
		panic("models: shutdowns.yaml: " + err.Error())
	}
	table := map[string][]shutdown{}
	for _, v := range file.Vendors {
		for _, row := range v.Shutdowns {
			on, err := time.Parse(time.DateOnly, row.On)
			if err != nil {
				panic("models: shutdowns.yaml: " + err.Error())
			}
			for _, m := range row.Models {
				table[v.Preset] = append(table[v.Preset], shutdown{m, on})
			}
		}
	}
	return table
})

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
)

// claim is a promise of the documentation, with the commands that hold it.
type claim struct {
	Name     string     `yaml:"name"`
	Title    string     `yaml:"title"`    // in bold, before the sentence
	Sentence string     `yaml:"sentence"` // the promise, in Markdown
	More     string     `yaml:"more"`     // sentences after it that README.md does not have
	Readme   bool       `yaml:"readme"`   // whether README.md has it
	Tests    []string   `yaml:"tests"`    // each takes at most 40 s and needs no installation
	Long     string     `yaml:"long"`     // a command that shows more and takes longer; empty is none
	Mutants  []mutation `yaml:"mutations"`
}

// mutation is a change of the code that makes a claim false.
type mutation struct {
	Name string `yaml:"name"` // what the changed gateway does
	// Func is the function that changes, for example (*clientWriter).Write; New takes the place of Old in it.
	Func string `yaml:"func"`
	Old  string `yaml:"old"`
	New  string `yaml:"new"`
	// Number is the place of the test that catches the mutation in the claim's list. Without one it is the first test.
	Number int `yaml:"test"`
	// Test is that test.
	Test string `yaml:"-"`
}

// readClaims reads the list and reports all its mistakes.
func readClaims(path string) ([]claim, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the path is given on the command line
	if err != nil {
		return nil, err
	}
	var list struct {
		Claims []claim `yaml:"claims"`
	}
	if err := yaml.UnmarshalWithOptions(text, &list, yaml.Strict()); err != nil {
		return nil, err
	}
	var wrong []string
	report := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	seen := map[string]bool{}
	for _, c := range list.Claims {
		if c.Name == "" || c.Title == "" || c.Sentence == "" || len(c.Tests) == 0 {
			report("claim %q: name, title, sentence and tests are required", c.Name)
		}
		if len(c.Mutants) == 0 {
			report("claim %q has no mutation: write one that makes its sentence false", c.Name)
		}
		if seen[c.Name] {
			report("claim %q is there twice", c.Name)
		}
		seen[c.Name] = true
		for i := range c.Mutants {
			m := &c.Mutants[i]
			if m.Name == "" || m.Func == "" || m.Old == "" || m.Old == m.New {
				report("claim %q, mutation %q: name, func, old and another new are required", c.Name, m.Name)
			}
			if m.Number = max(m.Number, 1); m.Number > len(c.Tests) {
				report("claim %q, mutation %q: there is no test %d", c.Name, m.Name, m.Number)
				continue
			}
			m.Test = c.Tests[m.Number-1]
		}
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("%s:\n%s", path, strings.Join(wrong, "\n"))
	}
	return list.Claims, nil
}

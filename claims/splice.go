package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mutantVariable is the environment variable whose number selects a mutant.
const mutantVariable = "ISOGLOSS_MUTANT"

// In a process whose variable has this value, each function prints the numbers of its mutants when it runs.
const tracing = "trace"

// spliced is a set of files in which the mutants of each function stand beside it. One compilation serves all mutants:
//
//	func f() error { if mutantIs("7") { return func() error { …the changed body… }() }; …the body… }
type spliced struct {
	texts map[string]string // by file
	lines map[string][]span // where the mutants are in the new texts, by file
}

// span is the lines of a mutant.
type span struct{ number, from, to int }

// splice writes the mutants, whose numbers are the keys, into their files. Each package gets a file with mutantIs.
func splice(root string, src *source, mutants map[int]mutant) (spliced, error) {
	files := map[string][]int{}
	for n, m := range mutants {
		file := filepath.Join(root, m.file)
		files[file] = append(files[file], n)
	}
	s := spliced{texts: map[string]string{}, lines: map[string][]span{}}
	for file, numbers := range files {
		whole := src.text[file]
		slices.SortFunc(numbers, func(a, b int) int {
			if d := mutants[a].body[0] - mutants[b].body[0]; d != 0 {
				return d
			}
			return a - b
		})
		var b strings.Builder
		done, line := 0, 1
		write := func(text string) { b.WriteString(text); line += strings.Count(text, "\n") }
		for _, n := range numbers {
			m := mutants[n]
			open := m.body[0] + 1
			write(whole[done:open])
			done = open
			from := line
			changed := "func() " + m.results + " {" + whole[open:m.start] + m.text + whole[m.end:m.body[1]] + "()"
			if m.results == "" {
				write(fmt.Sprintf(" if mutantIs(%q) { %s; return }\n", strconv.Itoa(n), changed))
			} else {
				write(fmt.Sprintf(" if mutantIs(%q) { return %s }\n", strconv.Itoa(n), changed))
			}
			s.lines[file] = append(s.lines[file], span{n, from, line - 1})
		}
		write(whole[done:])
		s.texts[file] = b.String()
		name := packageClause.FindStringSubmatch(whole)
		if name == nil {
			return s, fmt.Errorf("%s has no package clause", file)
		}
		s.texts[filepath.Join(filepath.Dir(file), "mutants_generated.go")] = fmt.Sprintf(mutantIs, name[1], mutantVariable, tracing)
	}
	return s, nil
}

var packageClause = regexp.MustCompile(`(?m)^package (\w+)`)

const mutantIs = `package %s

import "os"

var mutantNumber, mutantTrace = os.Getenv(%q), os.Stderr

func mutantIs(number string) bool {
	if mutantNumber == %q {
		_, _ = mutantTrace.WriteString("mutant:" + number + ";\n")
	}
	return number == mutantNumber
}
`

// at returns the mutant whose text has the line of a file, or -1.
func (s spliced) at(file string, line int) int {
	for _, l := range s.lines[file] {
		if line >= l.from && line <= l.to {
			return l.number
		}
	}
	return -1
}

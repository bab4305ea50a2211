package main

import (
	"fmt"
	"strings"
)

// page returns docs/promises.md.
func page(claims []claim) string {
	var b strings.Builder
	b.WriteString("# Promises\n\n" +
		"Each promise has tests, and each test is tested: `make claims` makes the promise false by small changes of the code and checks that its tests then fail. " +
		"`go run ./claims -write` writes this page from [claims.yaml](claims.yaml), which has the changes too.\n\n" +
		"| promise | tests | longer | mutations |\n|---|---|---|---|\n")
	for _, c := range claims {
		var tests []string
		for _, t := range c.Tests {
			tests = append(tests, cell(t))
		}
		long := "–"
		if c.Long != "" {
			long = cell(c.Long)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d |\n", relink(strings.TrimSpace(c.promise()+" "+c.More)), strings.Join(tests, "<br>"), long, len(c.Mutants))
	}
	return b.String()
}

// promise returns the title and the sentence, which may begin with a comma.
func (c *claim) promise() string {
	sentence := strings.TrimSpace(c.Sentence)
	if !strings.HasPrefix(sentence, ",") {
		sentence = " " + sentence
	}
	return "**" + c.Title + "**" + sentence
}

// cell returns a command as a cell of a table.
func cell(command string) string { return "`" + strings.ReplaceAll(command, "|", `\|`) + "`" }

// relink makes the links of a sentence relative to docs. The list has them relative to the project.
func relink(sentence string) string { return strings.ReplaceAll(sentence, "](docs/", "](") }

// The lines of README.md around the promises that the list writes.
const (
	listStart = "<!-- from docs/claims.yaml: go run ./claims -write -->\n"
	listEnd   = "<!-- end -->\n"
)

// withPromises returns README.md with the claims that it has.
func withPromises(readme []byte, claims []claim) ([]byte, error) {
	before, rest, found := strings.Cut(string(readme), listStart)
	_, after, closed := strings.Cut(rest, listEnd)
	if !found || !closed {
		return nil, fmt.Errorf("%s has no %q with %q after it", readmePath, strings.TrimSpace(listStart), strings.TrimSpace(listEnd))
	}
	var b strings.Builder
	b.WriteString(before + listStart)
	for _, c := range claims {
		if c.Readme {
			fmt.Fprintf(&b, "- %s\n", c.promise())
		}
	}
	b.WriteString(listEnd + after)
	return []byte(b.String()), nil
}

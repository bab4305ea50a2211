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
			tests = append(tests, "`"+strings.ReplaceAll(t, "|", `\|`)+"`")
		}
		long := "–"
		if c.Long != "" {
			long = "`" + c.Long + "`"
		}
		fmt.Fprintf(&b, "| **%s** %s | %s | %s | %d |\n", c.Title, strings.TrimSpace(c.Sentence), strings.Join(tests, "<br>"), long, len(c.Mutants))
	}
	return b.String()
}

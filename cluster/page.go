package main

import (
	"fmt"
	"os"
	"strings"
)

// The parts of the page that this program writes stand between these marks.
const (
	beginMark = "<!-- cluster: %s -->\n"
	endMark   = "<!-- cluster: end of %s -->\n"
)

// writePage puts the list of scenarios and the results into the page.
func writePage(file string, r *report) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := replaceBetween(string(page), "scenarios", scenarioTable())
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if text, err = replaceBetween(text, "results", resultTable(r.results)); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

func replaceBetween(page, name, text string) (string, error) {
	begin, end := fmt.Sprintf(beginMark, name), fmt.Sprintf(endMark, name)
	head, rest, ok := strings.Cut(page, begin)
	_, tail, also := strings.Cut(rest, end)
	if !ok || !also {
		return "", fmt.Errorf("the marks of %q are missing", name)
	}
	return head + begin + text + end + tail, nil
}

func scenarioTable() string {
	var b strings.Builder
	b.WriteString("| scenario | what is done | what has to hold |\n|---|---|---|\n")
	for _, s := range scenarios() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.name, s.says, s.holds)
	}
	return b.String()
}

func resultTable(results []result) string {
	var b strings.Builder
	b.WriteString("| check | | measured |\n|---|---|---|\n")
	for _, one := range results {
		mark := "passed"
		if !one.passed {
			mark = "**failed**"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", one.name, mark, strings.ReplaceAll(strings.ReplaceAll(clip(one.detail, 400), "\n", "; "), "|", "\\|"))
	}
	return b.String()
}

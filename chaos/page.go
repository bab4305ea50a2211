package main

import (
	"fmt"
	"os"
	"strings"
)

// The parts of docs/reliability.md that are written by this program stand between
// these marks.
const (
	beginMark = "<!-- chaos: %s -->\n"
	endMark   = "<!-- chaos: end of %s -->\n"
)

// writePage puts the board's list and the results into the page.
func writePage(file string, r *report) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := replaceBetween(string(page), "scenarios", scenarioTable())
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if text, err = replaceBetween(text, "results", resultTable(r)); err != nil {
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

// scenarioTable lists the board.
func scenarioTable() string {
	var b strings.Builder
	b.WriteString("| scenario | what the target does | the client, with a second target | the client, without one |\n|---|---|---|---|\n")
	for _, s := range scenarios() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.name, s.says, s.rescued(), s.sees)
	}
	return b.String()
}

// rescued says what a second target changes.
func (s *scenario) rescued() string {
	switch {
	case s.final:
		return "the same"
	case s.statuses[0] == 200 && s.requests() == 1:
		return "the answer, from the first target"
	case s.statuses[0] == 200:
		return "the answer, from either"
	case s.when == late:
		return "streamed: error event, the second is not asked; whole: the second's answer"
	case s.aside:
		return "the second's answer; the first is not asked again for a while"
	}
	return "the second's answer"
}

// resultTable is what the last full run has found.
func resultTable(r *report) string {
	var b strings.Builder
	b.WriteString("Passed of all squares, by the client's dialect:\n\n| scenario |")
	for _, d := range dialects() {
		fmt.Fprintf(&b, " %s |", d)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(dialects())) + "\n")
	for _, s := range scenarios() {
		fmt.Fprintf(&b, "| `%s` |", s.name)
		for _, d := range dialects() {
			passed, failed := r.counts(func(name string) bool { return strings.HasPrefix(name, fmt.Sprintf("board/%s/%s→", s.name, d)) })
			fmt.Fprintf(&b, " %d/%d |", passed, passed+failed)
		}
		b.WriteString("\n")
	}
	cancelled, not := r.counts(func(name string) bool { return strings.HasPrefix(name, "cancel/") })
	fmt.Fprintf(&b, "\nCancelled in time, in every phase and pair of dialects: %d/%d.\n\n| check | | measured |\n|---|---|---|\n", cancelled, cancelled+not)
	for _, one := range r.results {
		if strings.HasPrefix(one.Name, "board/") || strings.HasPrefix(one.Name, "cancel/") {
			continue
		}
		mark := "passed"
		if !one.Passed {
			mark = "**failed**"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", one.Name, mark, strings.ReplaceAll(strings.ReplaceAll(clip(one.Detail, 300), "\n", "; "), "|", "\\|"))
	}
	return b.String()
}

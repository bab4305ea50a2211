package main

import (
	"fmt"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// scenarioTable lists the scenarios of the board.
func scenarioTable() string {
	rows := [][]string{{"scenario", "the target", "the client, with a second target", "the client, without one"}}
	for _, s := range scenarios() {
		rows = append(rows, []string{"`" + s.name + "`", s.does, s.rescued(), s.sees})
	}
	return testrig.MarkdownTable(rows)
}

// rescued says what a second target changes.
func (s *scenario) rescued() string {
	switch {
	case s.final:
		return "the same"
	case s.statuses[0] == 200 && s.requests == 0:
		return "the answer of the first target"
	case s.statuses[0] == 200:
		return "the answer of either target"
	case s.when == late:
		return "streaming: error event, the second is not tried; non-streaming: the answer of the second"
	case s.ejects:
		return "the answer of the second; the first is not tried again for a while"
	}
	return "the answer of the second"
}

// resultTable returns the results of a run.
func resultTable(r *testrig.Report) string {
	rows := [][]string{{"scenario"}}
	for _, d := range testrig.Dialects() {
		rows[0] = append(rows[0], string(d))
	}
	for _, s := range scenarios() {
		row := []string{"`" + s.name + "`"}
		for _, d := range testrig.Dialects() {
			passed, failed := r.Count(fmt.Sprintf("board/%s/%s→", s.name, d))
			row = append(row, fmt.Sprintf("%d/%d", passed, passed+failed))
		}
		rows = append(rows, row)
	}
	passed, failed := r.Count("cancel/")
	return fmt.Sprintf("Passed of all cases, by the client's dialect:\n\n%s\nDisconnects noticed in time, in every phase and pair of dialects: %d/%d.\n\n%s",
		testrig.MarkdownTable(rows), passed, passed+failed, r.Table())
}

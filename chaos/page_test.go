package main

import (
	"os"
	"strings"
	"testing"
)

// The page lists the board as it is.
func TestPageListsTheBoard(t *testing.T) {
	page, err := os.ReadFile("../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), scenarioTable()) {
		t.Errorf("docs/reliability.md does not list the board as it is; `make chaos` writes it, or put this between its marks:\n%s", scenarioTable())
	}
}

func TestEveryScenarioSaysWhatItIs(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range scenarios() {
		if s.says == "" || s.sees == "" || len(s.statuses) == 0 || seen[s.name] || s.play == nil && s.url == nil {
			t.Errorf("%s is not told whole, or twice", s.name)
		}
		seen[s.name] = true
	}
}

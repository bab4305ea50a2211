package main

import (
	"os"
	"strings"
	"testing"
)

func TestPageListsTheBoard(t *testing.T) {
	page, err := os.ReadFile("../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), scenarioTable()) {
		t.Errorf("docs/reliability.md does not list the scenarios of the board; `make chaos` writes it, or put this between its marks:\n%s", scenarioTable())
	}
}

func TestScenariosAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range scenarios() {
		if s.does == "" || s.sees == "" || len(s.statuses) == 0 || seen[s.name] || s.script == nil && s.url == nil {
			t.Errorf("%s is incomplete or listed twice", s.name)
		}
		seen[s.name] = true
	}
}

package main

import (
	"os"
	"strings"
	"testing"
)

func TestPageListsTheScenarios(t *testing.T) {
	page, err := os.ReadFile("../docs/operations/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), scenarioTable()) {
		t.Errorf("docs/operations/cluster.md does not list the scenarios; `make cluster` writes it, or put this between its marks:\n%s", scenarioTable())
	}
}

func TestScenariosAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range scenarios() {
		if s.does == "" || s.holds == "" || s.run == nil || s.full == 0 || s.short == 0 || seen[s.name] {
			t.Errorf("%s is incomplete or listed twice", s.name)
		}
		seen[s.name] = true
	}
}

func TestUpgradePageShowsTheChecks(t *testing.T) {
	page, err := os.ReadFile("../docs/operations/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	_, backend, _ := strings.Cut(haproxyConfig, "backend gateways\n")
	if backend == "" || !strings.Contains(string(page), backend) {
		t.Errorf("docs/operations/upgrade.md does not have the backend of HAProxy that is tested:\n%s", backend)
	}
}

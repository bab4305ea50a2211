package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const docs = "../docs/operations/"

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(docs + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPageListsTheScenarios(t *testing.T) {
	if !strings.Contains(page(t, clusterPage), scenarioTable()) {
		t.Errorf("docs/operations/cluster.md does not list the scenarios; `make cluster` writes it, or put this between its marks:\n%s", scenarioTable())
	}
}

func TestPageListsTheFailures(t *testing.T) {
	all, err := pageResults(docs)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d results, %v", len(all), err)
	}
	if !strings.Contains(page(t, failuresPage), failureTable(all)) {
		t.Errorf("docs/operations/failures.md does not have the texts of the scenarios and the results of cluster.md; `make cluster` writes it, or put this between its marks:\n%s", failureTable(all))
	}
}

func TestAlertsExist(t *testing.T) {
	rules, err := os.ReadFile("../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`Isogloss[A-Z]\w+`).FindAllString(failureTable(nil), -1) {
		if !strings.Contains(string(rules), "alert: "+name+"\n") {
			t.Errorf("there is no alert %s", name)
		}
	}
}

func TestResultsOfOtherScenariosStay(t *testing.T) {
	old := []result{{"r1/a", "passed", "1"}, {"r3/a", "passed", "2 \\| 3"}, {"r3/b", "passed", "4"}, {"gone", "passed", "5"}}
	got := merge(readResults(resultTable(old)), []result{{"r3/a", "**failed**", "6"}})
	want := []result{{"r1/a", "passed", "1"}, {"r3/a", "**failed**", "6"}}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if out := (failure{check: "r3/back"}).outcome(got); out != "**not held**: r3/a: 6" {
		t.Error(out)
	}
}

func TestScenariosAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range scenarios() {
		if s.does == "" || s.holds == "" || s.run == nil || s.most == 0 || seen[s.name] {
			t.Errorf("%s is incomplete or listed twice", s.name)
		}
		seen[s.name] = true
		for _, f := range s.fails {
			if (result{check: f.check}).scenario() != s.name || f.what == "" || f.users == "" || f.operators == "" || f.todo == "" {
				t.Errorf("%s: a failure is incomplete: %+v", s.name, f)
			}
		}
	}
}

func TestUpgradePageShowsTheChecks(t *testing.T) {
	_, backend, _ := strings.Cut(haproxyConfig, "backend gateways\n")
	if backend == "" || !strings.Contains(page(t, "upgrade.md"), backend) {
		t.Errorf("docs/operations/upgrade.md does not have the backend of HAProxy that is tested:\n%s", backend)
	}
}

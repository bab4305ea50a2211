package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// The generated pages, in docs/operations.
const (
	clusterPage  = "cluster.md"
	failuresPage = "failures.md"
)

// result is a check as the page shows it.
type result struct{ check, mark, measured string }

// scenario returns the name of the result's scenario.
func (r result) scenario() string {
	name, _, _ := strings.Cut(r.check, "/")
	return name
}

// readResults returns the rows of a table of results.
func readResults(table string) (all []result) {
	for line := range strings.Lines(table) {
		cells := strings.SplitN(strings.TrimSuffix(strings.TrimPrefix(line, "| `"), " |\n"), " | ", 3)
		if strings.HasPrefix(line, "| `") && len(cells) == 3 {
			all = append(all, result{strings.TrimSuffix(cells[0], "`"), cells[1], cells[2]})
		}
	}
	return all
}

// pageResults returns the results on the page.
func pageResults(dir string) ([]result, error) {
	page, err := os.ReadFile(filepath.Join(dir, clusterPage))
	_, section, _ := strings.Cut(string(page), "<!-- cluster: results -->")
	return readResults(section), err
}

// merge replaces the results of the scenarios that ran. The others keep theirs.
func merge(old, ran []result) (all []result) {
	for _, s := range scenarios() {
		of := func(r result) bool { return r.scenario() == s.name }
		some := testrig.Pick(ran, of)
		if len(some) == 0 {
			some = testrig.Pick(old, of)
		}
		all = append(all, some...)
	}
	return all
}

// writePages writes the results of a run into both pages of a folder. Results of a run that is not complete stand beside older ones.
func writePages(dir string, r *testrig.Report, run testrig.Origin, complete bool) error {
	old, err := pageResults(dir)
	if err != nil {
		return err
	}
	all := merge(old, readResults(r.Table()))
	for page, sections := range map[string]map[string]string{
		clusterPage:  {"scenarios": scenarioTable(), "results": resultTable(all)},
		failuresPage: {"failures": failureTable(all)},
	} {
		path := filepath.Join(dir, page)
		runs, err := testrig.ReadSection(path, "cluster", "run")
		if err != nil {
			return err
		}
		if sections["run"], err = testrig.MergeOrigins(runs, run, complete); err != nil {
			return err
		}
		if err := testrig.WritePage(path, "cluster", sections); err != nil {
			return err
		}
	}
	return nil
}

func scenarioTable() string {
	rows := [][]string{{"scenario", "what happens", "what holds"}}
	for _, s := range scenarios() {
		rows = append(rows, []string{"`" + s.name + "`", s.does, s.holds})
	}
	return testrig.MarkdownTable(rows)
}

func resultTable(all []result) string {
	rows := [][]string{{"check", "", "measured"}}
	for _, r := range all {
		rows = append(rows, []string{"`" + r.check + "`", r.mark, r.measured})
	}
	return testrig.MarkdownTable(rows)
}

func failureTable(all []result) string {
	rows := [][]string{{"failure", "what users notice", "what operators see", "what to do", "last result", "scenario"}}
	for _, s := range scenarios() {
		for _, f := range s.fails {
			rows = append(rows, []string{f.what, f.users, f.operators, f.todo, f.outcome(all), "`" + s.name + "`"})
		}
	}
	return testrig.MarkdownTable(rows)
}

// outcome returns the figure of a failure's check, or the problems of its scenario.
func (f failure) outcome(all []result) string {
	own := testrig.Pick(all, func(r result) bool { return r.scenario() == result{check: f.check}.scenario() })
	for _, r := range own {
		if r.mark == "**failed**" {
			return fmt.Sprintf("**not held**: %s: %s", r.check, plain(r.measured))
		}
	}
	i := slices.IndexFunc(own, func(r result) bool { return r.check == f.check })
	if i < 0 {
		return "not run"
	}
	if f.unheld {
		return "**not held**: " + plain(own[i].measured)
	}
	return "held: " + plain(own[i].measured)
}

// plain removes backquotes: they mark log messages on the page.
func plain(s string) string { return strings.ReplaceAll(s, "`", "") }

package isogloss

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What docs/evidence/cases.md has to hold: how many cases there are of each group, numbered
// from 01, and how many of each priority.
var (
	caseGroups = map[string]int{"SSE": 29, "CST": 41, "CRQ": 55, "RSP": 40, "ANT": 33, "GEM": 36, "USE": 20, "ERR": 19, "JSN": 19, "LIF": 20, "VER": 30}
	casesOf    = map[string]int{"P0": 104, "P1": 177, "P2": 61}
)

// hardCase is one row of the page.
type hardCase struct {
	id, priority string
	held         []string // files, and tests as "folder TestName"
	note         string
}

func (c hardCase) open() bool   { return strings.HasPrefix(c.note, "open: ") }
func (c hardCase) partly() bool { return strings.HasPrefix(c.note, "in part: ") }

// decision is the page that says why a case is answered otherwise.
func (c hardCase) decision() string {
	page, _, _ := strings.Cut(strings.TrimPrefix(c.note, "decided: "), " ")
	if !strings.HasPrefix(c.note, "decided: ") {
		return ""
	}
	return page
}

// hardCases reads the rows of the page's tables, and the page.
func hardCases(t *testing.T) ([]hardCase, string) {
	t.Helper()
	page, err := os.ReadFile("docs/evidence/cases.md")
	if err != nil {
		t.Fatal(err)
	}
	id, code := regexp.MustCompile(`^[A-Z]{3}-\d\d$`), regexp.MustCompile("`([^`]+)`")
	var rows []hardCase
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|"), " | ")
		c := hardCase{id: strings.TrimSpace(cells[0])}
		if !id.MatchString(c.id) {
			continue
		}
		if len(cells) != 5 || strings.TrimSpace(cells[2]) == "" {
			t.Errorf("%s: a row has an id, a priority, the case, what holds it and a note: %s", c.id, line)
			continue
		}
		c.priority, c.note = cells[1], strings.TrimSpace(cells[4])
		for _, m := range code.FindAllStringSubmatch(cells[3], -1) {
			c.held = append(c.held, m[1])
		}
		rows = append(rows, c)
	}
	return rows, string(page)
}

func TestCasesAreComplete(t *testing.T) {
	rows, _ := hardCases(t)
	seen, priorities := map[string]int{}, map[string]int{}
	for _, c := range rows {
		seen[c.id]++
		priorities[c.priority]++
	}
	for group, n := range caseGroups {
		for i := range n {
			id := fmt.Sprintf("%s-%02d", group, i+1)
			if seen[id] != 1 {
				t.Errorf("%s has %d rows, want 1", id, seen[id])
			}
			delete(seen, id)
		}
	}
	for id := range seen {
		t.Errorf("%s is the id of nothing", id)
	}
	if !maps.Equal(priorities, casesOf) {
		t.Errorf("the priorities are %v, want %v", priorities, casesOf)
	}
}

// What is open or held in part is told at the top, and nothing that matters is open.
func TestCasesTellWhatIsOpen(t *testing.T) {
	rows, page := hardCases(t)
	var open, partly []string
	for _, c := range rows {
		switch {
		case c.open() && c.priority != "P2":
			t.Errorf("%s is open, and %s", c.id, c.priority)
		case c.open():
			open = append(open, c.id)
		case c.partly():
			partly = append(partly, c.id)
		}
		if answered := c.open() || c.decision() != ""; answered != (len(c.held) == 0) {
			t.Errorf("%s: a row either names what holds it, or says 'open:' or 'decided:'", c.id)
		}
	}
	for title, want := range map[string][]string{"Open": open, "Held in part": partly} {
		line := fmt.Sprintf("%s (%d): %s.\n", title, len(want), strings.Join(want, ", "))
		if !strings.Contains(page, "\n"+line) {
			t.Errorf("the page lacks the line\n%s", line)
		}
	}
}

func TestCasesNameWhatHoldsThem(t *testing.T) {
	rows, _ := hardCases(t)
	folders := map[string]*testFolder{}
	for _, c := range rows {
		if page := c.decision(); page != "" && !mentions(page, c.id) {
			t.Errorf("%s: %s is not there, or does not name the case", c.id, page)
		}
		for _, name := range c.held {
			dir, test, isTest := strings.Cut(name, " ")
			if !isTest {
				if !slices.ContainsFunc([]string{"conform/corpus/", "protocol/"}, func(p string) bool { return strings.HasPrefix(name, p) }) || !headNames(name, c.id) {
					t.Errorf("%s: %s is not there, or its head does not name the case", c.id, name)
				}
				continue
			}
			if folders[dir] == nil {
				folders[dir] = readTests(t, dir)
			}
			if problem := folders[dir].find(test); problem != "" {
				t.Errorf("%s: %s: %s", c.id, name, problem)
			}
		}
	}
}

func mentions(file, id string) bool {
	text, err := os.ReadFile(file)
	return err == nil && strings.Contains(string(text), id)
}

// headNames reports whether what stands before the first section of a case names an
// id.
func headNames(file, id string) bool {
	text, err := os.ReadFile(file)
	head, _, sections := strings.Cut(string(text), "\n-- ")
	return err == nil && sections && strings.Contains(head, id)
}

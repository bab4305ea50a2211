package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// area is a part of the code whose tests are tested by mutants. A mutant is tested by the tests of its own package, then by
// those of the second one.
type area struct {
	folder  string
	second  string
	reports bool // only calls that report losses
}

// testedAreas are those of the gateway.
var testedAreas = []area{
	{folder: "internal/request/relay"},
	{folder: "internal/request/lane", second: "internal/request/relay"},
	{folder: "internal/money/billing", second: "internal/request/relay"},
	{folder: "internal/money/quota", second: "internal/money/quota"},
	{folder: "internal/people/access", second: "internal/request/relay"},
	{folder: "internal/people/identity", second: "internal/api/signin"},
	{folder: "protocol", second: "protocol/all", reports: true},
}

// equivalentPath is a file with the mutants that no test can catch because they change no
// behaviour, each with the reason.
const equivalentPath = "claims/equivalent.yaml"

// equivalent is a mutant that no test can or should catch.
type equivalent struct {
	File   string `yaml:"file"`
	Func   string `yaml:"func"`
	Kind   string `yaml:"kind"`
	Old    string `yaml:"old"`
	Reason string `yaml:"reason"`
}

func (e equivalent) is(m mutant) bool {
	return e.File == m.file && e.Func == m.fun && e.Kind == m.kind && e.Old == m.old
}

func readEquivalents(root string) ([]equivalent, error) {
	text, err := os.ReadFile(filepath.Join(root, equivalentPath)) //nolint:gosec // a file of the project
	if err != nil {
		return nil, err
	}
	var list []equivalent
	if err := yaml.UnmarshalWithOptions(text, &list, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %w", equivalentPath, err)
	}
	for _, e := range list {
		if strings.TrimSpace(e.Reason) == "" {
			return nil, fmt.Errorf("%s: %s in %s has no reason", equivalentPath, e.Old, e.Func)
		}
	}
	return list, nil
}

// population returns all mutants of an area in the order of the files.
func (a area) population(root string, src *source) ([]mutant, error) {
	var all []mutant
	for path, text := range src.text {
		name := relative(root, path)
		if !strings.HasPrefix(name, a.folder+"/") || strings.HasPrefix(name, "protocol/protocoltest/") {
			continue
		}
		found, err := mutantsOf(name, text, a.reports)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b mutant) int { return strings.Compare(a.file, b.file) })
	return all, nil
}

// draw has the mutants that are played, by number, and spare mutants. A spare one takes the place of a mutant
// that does not compile.
type draw struct {
	areas   []area
	playing map[int]mutant
	area    map[int]int // by number
	waiting [][]mutant  // by area
	next    int
	broken  int // how many did not compile
}

// newDraw draws n mutants whose names match, the same number of each area where there are so many. Those in the list of equivalent
// ones are left out.
func newDraw(p *player, areas []area, n int, seed uint64, pattern *regexp.Regexp) (*draw, error) {
	but, err := readEquivalents(p.root)
	if err != nil {
		return nil, err
	}
	d := &draw{areas: areas, playing: map[int]mutant{}, area: map[int]int{}, waiting: make([][]mutant, len(areas))}
	for i, a := range areas {
		all, err := a.population(p.root, p.source)
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(m mutant) bool {
			return !pattern.MatchString(m.name()) || slices.ContainsFunc(but, func(e equivalent) bool { return e.is(m) })
		})
		random := rand.New(rand.NewPCG(seed, uint64(i))) //nolint:gosec // a draw that repeats itself
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		d.waiting[i] = all
	}
	for taken := true; taken && d.next < n; {
		taken = false
		for i := range areas {
			taken = d.next < n && d.take(i) || taken
		}
	}
	return d, nil
}

// take adds the next mutant of an area. It reports false if the area has no more.
func (d *draw) take(area int) bool {
	if len(d.waiting[area]) == 0 {
		return false
	}
	d.playing[d.next], d.area[d.next] = d.waiting[area][0], area
	d.waiting[area] = d.waiting[area][1:]
	d.next++
	return true
}

// replace takes another mutant of the area in place of one that does not compile.
func (d *draw) replace(number int) {
	delete(d.playing, number)
	d.broken++
	d.take(d.area[number])
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

// goal is the share of mutants that tests shall catch, in percent.
const goal = 85

// verdict is what became of a mutant.
type verdict struct {
	caught  bool
	by      string // the test that failed first, or that there was no end in time
	timeout bool
	ran     bool // a test ran the function
	took    time.Duration
}

// mutantPlayer runs the tests of packages with a mutant each.
type mutantPlayer struct {
	*player
	dir     string           // for the overlay and the test binaries
	traces  map[string]trace // by package
	drawing *draw
}

// playMutants compiles the mutants of a draw together, runs the tests for each, and prints what they caught.
func playMutants(ctx context.Context, out io.Writer, p *player, d *draw, jobs int) error {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	began := time.Now()
	mp := &mutantPlayer{player: p, dir: dir, traces: map[string]trace{}, drawing: d}
	if err := mp.compile(ctx); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "%d mutants compiled in %.0f s; %d others did not compile and were drawn again\n", len(d.playing), time.Since(began).Seconds(), d.broken)
	if err := mp.traceAll(ctx, out); err != nil {
		return err
	}
	verdicts := mp.playAll(ctx, out, jobs)
	return errors.Join(mp.summary(out, verdicts, time.Since(began)), ctx.Err()) // of those that were played
}

// compile writes the mutants beside their functions and builds the test binaries. What does not compile is drawn again.
func (p *mutantPlayer) compile(ctx context.Context) error {
	for {
		s, err := splice(p.root, p.source, p.drawing.playing)
		if err != nil {
			return err
		}
		overlay, err := writeOverlay(p.dir, s.texts)
		if err != nil {
			return err
		}
		var packages []string
		for file := range s.texts {
			packages = append(packages, "./"+path.Dir(relative(p.root, file)))
		}
		slices.Sort(packages)
		out, err := p.goCommand(ctx, append([]string{"build", "-overlay", overlay}, slices.Compact(packages)...)...)
		if err == nil {
			return p.compileTests(ctx, overlay)
		}
		files, err := overlaid(overlay)
		if err != nil {
			return err
		}
		broken := map[int]bool{}
		for _, m := range compileError.FindAllStringSubmatch(out, -1) {
			line, _ := strconv.Atoi(m[2])
			if n := s.at(files[path.Base(m[1])], line); n >= 0 {
				broken[n] = true
			}
		}
		if len(broken) == 0 {
			return fmt.Errorf("the mutants do not compile:\n%s", tail(out))
		}
		for n := range broken {
			p.drawing.replace(n)
		}
	}
}

var compileError = regexp.MustCompile(`(?m)^([^\s:]+\.go):(\d+):`)

// overlaid returns the files of an overlay by the name of the file in their place, which the compiler's messages have.
func overlaid(overlay string) (map[string]string, error) {
	text, err := os.ReadFile(overlay) //nolint:gosec // writeOverlay made it
	if err != nil {
		return nil, err
	}
	var o struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, err
	}
	files := map[string]string{}
	for file, place := range o.Replace {
		files[filepath.Base(place)] = file
	}
	return files, nil
}

func (p *mutantPlayer) compileTests(ctx context.Context, overlay string) error {
	args := []string{"test", "-c", "-vet=off", "-overlay", overlay, "-o", p.dir + "/"}
	for _, name := range p.packages() {
		args = append(args, "./"+name)
	}
	if out, err := p.goCommand(ctx, args...); err != nil {
		return fmt.Errorf("the tests do not compile: %w\n%s", err, tail(out))
	}
	return nil
}

// tests returns the packages whose tests a mutant meets.
func (p *mutantPlayer) tests(number int) []string {
	own := path.Dir(relative(p.root, p.drawing.playing[number].file))
	var list []string
	for _, name := range []string{own, p.drawing.areas[p.drawing.area[number]].second} {
		if found, _ := filepath.Glob(filepath.Join(p.root, name, "*_test.go")); name != "" && len(found) > 0 && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// packages returns those of all mutants.
func (p *mutantPlayer) packages() []string {
	var list []string
	for n := range p.drawing.playing {
		list = append(list, p.tests(n)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// playAll plays the mutants, some at a time, and prints a line for each.
func (p *mutantPlayer) playAll(ctx context.Context, out io.Writer, jobs int) map[int]verdict {
	verdicts := map[int]verdict{}
	var lock sync.Mutex
	var group sync.WaitGroup
	numbers := make(chan int)
	for range jobs {
		group.Go(func() {
			for n := range numbers {
				v := p.playOne(ctx, n)
				if ctx.Err() != nil {
					continue
				}
				lock.Lock()
				verdicts[n] = v
				_, _ = fmt.Fprintln(out, p.line(n, v))
				lock.Unlock()
			}
		})
	}
	for n := range p.drawing.next {
		if _, ok := p.drawing.playing[n]; ok && ctx.Err() == nil {
			numbers <- n
		}
	}
	close(numbers)
	group.Wait()
	return verdicts
}

func (p *mutantPlayer) line(number int, v verdict) string {
	word, note := "SURVIVED", ""
	switch {
	case v.caught:
		word, note = "caught", " ("+v.by+")"
	case !v.ran:
		note = " (no test runs " + p.drawing.playing[number].fun + ")"
	}
	return fmt.Sprintf("%-8s %4.0f s  %s%s", word, v.took.Seconds(), p.drawing.playing[number].name(), note)
}

// summary prints the figures and the mutants that survived, and returns an error if less than the goal was caught.
func (p *mutantPlayer) summary(out io.Writer, verdicts map[int]verdict, took time.Duration) error {
	type figures struct{ all, caught, late, idle int }
	areas := p.drawing.areas
	rows := make([]figures, len(areas)+1)
	for n, v := range verdicts {
		for _, row := range []*figures{&rows[p.drawing.area[n]], &rows[len(areas)]} {
			row.all++
			switch {
			case v.caught && v.timeout:
				row.caught, row.late = row.caught+1, row.late+1
			case v.caught:
				row.caught++
			case !v.ran:
				row.idle++
			}
		}
	}
	total := rows[len(areas)]
	if total.all == 0 {
		return errors.New("no mutant was played")
	}
	_, _ = fmt.Fprintf(out, "\n%-28s mutants  caught        of these by time  in code that no test ran\n", "")
	for i, row := range rows {
		name := "all"
		if i < len(areas) {
			name = areas[i].folder
		}
		if row.all > 0 {
			_, _ = fmt.Fprintf(out, "%-28s %7d  %6d %3.0f %%  %17d  %5d\n", name, row.all, row.caught, 100*float64(row.caught)/float64(row.all), row.late, row.idle)
		}
	}
	_, _ = fmt.Fprintf(out, "\nSurvivors, each to be caught by a test or listed in %s with a reason:\n", equivalentPath)
	for n := range p.drawing.next {
		if v, ok := verdicts[n]; ok && !v.caught {
			_, _ = fmt.Fprintln(out, p.line(n, v))
		}
	}
	_, _ = fmt.Fprintf(out, "played in %.0f s; repeat some: go run ./claims -mutants %d -only '^FILE:LINE '\n", took.Seconds(), total.all)
	if 100*total.caught < goal*total.all {
		return fmt.Errorf("tests caught %d of %d mutants; the goal is %d %%", total.caught, total.all, goal)
	}
	return nil
}

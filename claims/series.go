package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// series plays the mutations of claims, all of them in one compilation.
type series struct {
	*player
	out     io.Writer
	list    []entry
	tests   map[string]test   // by command
	fails   map[string]string // commands that fail without a mutation, and what they print
	took    map[string]time.Duration
	lock    sync.Mutex // of out, counts, fails and took
	counts  map[outcome]int
	playing *build
}

// entry is a mutation with its claim. Its number is its place in the list plus one.
type entry struct {
	claim string
	mutation
	wrong error    // why it cannot be played
	alone *applied // a function that recovers from panics cannot stand beside its original, and needs a compilation of its own
}

func (e *entry) name() string { return e.claim + "/" + e.Name }

// playAll plays the mutations whose names match and prints a line for each. Before that it runs the commands on the code
// without a mutation.
func playAll(ctx context.Context, out io.Writer, p *player, claims []claim, pattern *regexp.Regexp) error {
	began := time.Now()
	s := &series{player: p, out: out, tests: map[string]test{}, fails: map[string]string{}, took: map[string]time.Duration{}, counts: map[outcome]int{}}
	for _, c := range claims {
		for _, m := range c.Mutants {
			if e := (entry{claim: c.Name, mutation: m}); pattern.MatchString(e.name()) {
				s.list = append(s.list, e)
			}
		}
	}
	dir, err := os.MkdirTemp("", "claims-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := s.prepare(ctx, dir); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "%d mutations compiled in %.0f s, with %.0f s of CPU\n", len(s.list), time.Since(began).Seconds(), time.Duration(p.cpu.Load()).Seconds())
	s.each(ctx, len(s.commands()), func(i int) { s.runUnchanged(ctx, s.commands()[i]) })
	s.each(ctx, len(s.list), func(i int) { s.play(ctx, i) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	bad := s.counts[survived] + s.counts[broken]
	_, _ = fmt.Fprintf(out, "%d passed, %d failed\nplayed in %.0f s, with %.0f s of CPU\n", s.counts[caught], bad, time.Since(began).Seconds(), time.Duration(p.cpu.Load()).Seconds())
	if bad > 0 || s.counts[caught] == 0 {
		return fmt.Errorf("%d mutations survived and %d cannot be played", s.counts[survived], s.counts[broken])
	}
	return nil
}

// prepare compiles the mutations that can be played.
func (s *series) prepare(ctx context.Context, dir string) error {
	c, err := newChecker(ctx, s.root, "./...")
	if err != nil {
		return err
	}
	mutants := map[int]mutant{}
	for i := range s.list {
		m := &s.list[i]
		found, err := s.source.apply(m.mutation)
		if err == nil {
			err = c.check(found.path, found.text)
		}
		var t test
		if err == nil {
			t, err = parseTest(m.Test)
		}
		if m.wrong = err; err == nil {
			s.tests[m.Test] = t
			if mutants[i+1] = found.mutant(s.root); found.recovers(s.source) {
				m.alone = &found
				delete(mutants, i+1)
			}
		}
	}
	var tests []test
	for _, command := range s.commands() {
		tests = append(tests, s.tests[command])
	}
	if len(tests) == 0 {
		return nil
	}
	s.playing, err = s.compile(ctx, dir, mutants, tests)
	return err
}

// commands returns the commands of all mutations.
func (s *series) commands() []string {
	list := make([]string, 0, len(s.tests))
	for command := range s.tests {
		list = append(list, command)
	}
	slices.Sort(list)
	return list
}

// each calls do for 0 to n-1, some at a time, until ctx ends.
func (s *series) each(ctx context.Context, n int, do func(i int)) {
	numbers := make(chan int)
	var group sync.WaitGroup
	for range max(s.jobs, 1) {
		group.Go(func() {
			for i := range numbers {
				if ctx.Err() == nil {
					do(i)
				}
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	group.Wait()
}

// runUnchanged runs a command without a mutation. A command that fails there catches nothing.
func (s *series) runUnchanged(ctx context.Context, command string) {
	began := time.Now()
	text, err := s.playing.run(ctx, s.tests[command], "", s.timeout)
	s.lock.Lock()
	defer s.lock.Unlock()
	s.took[command] = time.Since(began)
	if err != nil {
		s.fails[command] = err.Error() + "\n" + tail(text)
		_, _ = fmt.Fprintf(s.out, "FAILS    %4.0f s  %s\n%s\n", s.took[command].Seconds(), command, s.fails[command])
		return
	}
	_, _ = fmt.Fprintf(s.out, "passes   %4.0f s  %s\n", s.took[command].Seconds(), command)
}

// play plays the mutation at a place of the list.
func (s *series) play(ctx context.Context, i int) {
	m, began := &s.list[i], time.Now()
	result, detail := s.judge(ctx, m, i+1)
	if ctx.Err() != nil {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.counts[result]++
	_, _ = fmt.Fprintf(s.out, "%-8v %4.0f s  %s: %s\n", result, time.Since(began).Seconds(), m.claim, m.Name)
	if result != caught {
		_, _ = fmt.Fprintf(s.out, "         %s\n%s\n         repeat: go run ./claims -only '^%s$'\n", m.Test, detail, regexp.QuoteMeta(m.name()))
	}
}

func (s *series) judge(ctx context.Context, m *entry, number int) (outcome, string) {
	if m.wrong != nil {
		return broken, m.wrong.Error()
	}
	if text, fails := s.fails[m.Test]; fails {
		return broken, "the command fails without the mutation: " + text
	}
	run, selected, limit := s.playing, strconv.Itoa(number), 2*s.took[m.Test]+time.Minute
	if m.alone != nil {
		dir, err := os.MkdirTemp("", "claims-")
		if err != nil {
			return broken, err.Error()
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if run, err = s.compileTexts(ctx, dir, map[string]string{m.alone.path: m.alone.text}, []test{s.tests[m.Test]}); err != nil {
			return broken, err.Error()
		}
		selected = ""
	}
	text, err := run.run(ctx, s.tests[m.Test], selected, limit)
	var exit interface{ ExitCode() int }
	switch {
	case err == nil:
		return survived, s.explain(ctx, m, selected) + tail(text)
	case !errors.As(err, &exit): // it could not be started
		return broken, err.Error()
	}
	return caught, ""
}

// explain says whether the command runs the function of a mutation that survived.
func (s *series) explain(ctx context.Context, m *entry, selected string) string {
	if selected == "" {
		return ""
	}
	text, err := s.playing.run(ctx, s.tests[m.Test], tracing, s.timeout)
	if err == nil && !strings.Contains(text, "mutant:"+selected+";") {
		return "the command does not run " + m.Func + ", or in a process without the variable " + mutantVariable + "\n"
	}
	return ""
}

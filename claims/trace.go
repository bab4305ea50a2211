package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// trace is what the tests of a package do without a mutant.
type trace struct {
	took   map[string]time.Duration // by test, of those that pass
	failed []string
	ran    map[int]map[string]bool // the tests that run the function of a mutant
}

// tests returns those that may catch a mutant, the quickest first.
func (t trace) tests(number int) []string {
	var list []string
	for name := range t.ran[number] {
		if _, passes := t.took[name]; passes {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(t.took[a], t.took[b]), strings.Compare(a, b)) })
	return list
}

// traceAll runs the tests without a mutant, one after the other, and notes which functions each of them runs. Tests that fail are
// not used.
func (p *mutantPlayer) traceAll(ctx context.Context, out io.Writer) error {
	for _, name := range p.packages() {
		began := time.Now()
		t, err := p.trace(ctx, name)
		if err != nil {
			return fmt.Errorf("the tests of %s: %w", name, err)
		}
		p.traces[name] = t
		_, _ = fmt.Fprintf(out, "%-28s %d tests in %.0f s\n", name, len(t.took), time.Since(began).Seconds())
		for _, test := range t.failed {
			_, _ = fmt.Fprintf(out, "%-28s %s fails without a mutant and is not used\n", name, test)
		}
	}
	return nil
}

func (p *mutantPlayer) trace(ctx context.Context, name string) (trace, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	cmd := p.binary(ctx, name, tracing, "-test.v", "-test.parallel=1", "-test.timeout="+p.timeout.String())
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		return trace{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); _ = writer.Close() }()
	t, err := readTrace(reader)
	_, _ = io.Copy(io.Discard, reader)
	if exit := <-ended; err == nil && len(t.took) == 0 {
		err = fmt.Errorf("none passes: %w", exit)
	}
	return t, errors.Join(err, ctx.Err())
}

var (
	testBegins = regexp.MustCompile(`^=== (?:RUN|CONT|NAME)\s+(\w+)`)
	testEnds   = regexp.MustCompile(`^--- (PASS|FAIL): (\w+) \(([\d.]+)s\)`)
	functionOf = regexp.MustCompile(`mutant:(\d+);`)
)

// readTrace reads the output of tests that run one after the other.
func readTrace(r io.Reader) (trace, error) {
	t := trace{took: map[string]time.Duration{}, ran: map[int]map[string]bool{}}
	current := ""
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		line := lines.Text()
		if m := functionOf.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			if t.ran[n] == nil {
				t.ran[n] = map[string]bool{}
			}
			t.ran[n][current] = true
			continue
		}
		if m := testBegins.FindStringSubmatch(line); m != nil {
			current = m[1]
		}
		if m := testEnds.FindStringSubmatch(line); m != nil && m[1] == "PASS" {
			t.took[m[2]], _ = time.ParseDuration(m[3] + "s")
		} else if m != nil {
			t.failed = append(t.failed, m[2])
		}
	}
	return t, lines.Err()
}

// binary returns the command that runs the tests of a package with the mutant of a number.
func (p *mutantPlayer) binary(ctx context.Context, name, number string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.dir, path.Base(name)+".test"), append([]string{"-test.short"}, args...)...) //nolint:gosec // compileTests made it
	cmd.Dir = filepath.Join(p.root, name)
	cmd.Env = append(os.Environ(), mutantVariable+"="+number)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// first is how many quick tests are tried before the others.
const first = 12

// playOne runs the tests that run the mutant's function until one fails.
func (p *mutantPlayer) playOne(ctx context.Context, number int) verdict {
	began, v := time.Now(), verdict{}
	for _, name := range p.tests(number) {
		t := p.traces[name]
		all := t.tests(number)
		v.ran = v.ran || len(all) > 0
		for _, some := range [][]string{all[:min(first, len(all))], all[min(first, len(all)):]} {
			if len(some) == 0 || v.caught {
				continue
			}
			bound := time.Minute
			for _, test := range some {
				bound += 2 * t.took[test]
			}
			v.caught, v.timeout, v.by = p.fails(ctx, name, number, some, bound)
		}
	}
	v.took = time.Since(began)
	return v
}

// fails runs some tests with a mutant, and returns which of them fails.
func (p *mutantPlayer) fails(ctx context.Context, name string, number int, tests []string, bound time.Duration) (failed, late bool, by string) {
	ctx, cancel := context.WithTimeout(ctx, bound+10*time.Second)
	defer cancel()
	out, err := p.binary(ctx, name, strconv.Itoa(number), "-test.failfast", "-test.timeout="+bound.String(), "-test.run=^("+strings.Join(tests, "|")+")$").CombinedOutput()
	switch m := failedTest.FindStringSubmatch(string(out)); {
	case err == nil:
		return false, false, ""
	case m != nil:
		return true, false, m[1]
	case strings.Contains(string(out), "panic: test timed out") || ctx.Err() != nil:
		return true, true, "no end in time"
	}
	return true, false, "the process ends"
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

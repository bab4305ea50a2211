// Command e2e runs the end-to-end tests, part by part, against the built gateway, and
// ends in one line that says how many passed. See README.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parts are run in this order. Each is a package that can be run alone.
var parts = []string{"sdks", "engines", "agents", "crowd", "pages"}

func main() {
	run := flag.String("run", "", "only the tests that match, as go test has it")
	short := flag.Bool("short", false, "one client for each pair of dialects, and not the crowd")
	update := flag.Bool("update", false, "write what complete parts have done into docs/evidence/compatibility.md")
	flag.Usage = func() {
		_, _ = fmt.Fprintf(flag.CommandLine.Output(), "usage: go run . [-short] [-update] [-run PATTERN] [PART...]\nparts: %s\n", strings.Join(parts, " "))
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runParts(ctx, flag.Args(), options{pattern: *run, short: *short, update: *update}, os.Stdout)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options say which tests of a part run.
type options struct {
	pattern string
	short   bool
	update  bool
}

// writers are the parts whose results are on a page.
var writers = []string{"sdks", "engines", "agents"}

func runParts(ctx context.Context, wanted []string, o options, out io.Writer) error {
	for _, p := range wanted {
		if !slices.Contains(parts, p) {
			return fmt.Errorf("there is no part %q; the parts are %s", p, strings.Join(parts, " "))
		}
	}
	if len(wanted) == 0 {
		wanted = parts
		if o.short {
			wanted = slices.DeleteFunc(slices.Clone(parts), func(p string) bool { return p == "crowd" })
		}
	}
	bin, remove, err := build(ctx)
	if err != nil {
		return err
	}
	defer remove()
	var sum count
	for _, p := range wanted {
		began := time.Now()
		setup := exec.CommandContext(ctx, "./setup.sh", p) //nolint:gosec // the part is one of ours
		setup.Stdout, setup.Stderr = out, os.Stderr
		if err := setup.Run(); err != nil {
			return fmt.Errorf("what %s needs cannot be set up: %w", p, err)
		}
		ready := time.Now()
		c, err := test(ctx, p, o, bin, out)
		if err != nil {
			return err
		}
		sum.passed, sum.failed = sum.passed+c.passed, sum.failed+c.failed
		_, _ = fmt.Fprintf(out, "%s: %d passed, %d failed (set up in %.0f s, run in %.0f s)\n",
			p, c.passed, c.failed, ready.Sub(began).Seconds(), time.Since(ready).Seconds())
	}
	_, _ = fmt.Fprintf(out, "%d passed, %d failed\n", sum.passed, sum.failed)
	if sum.failed > 0 || sum.passed == 0 {
		return fmt.Errorf("the end-to-end tests do not hold")
	}
	return nil
}

// build returns the gateway to test: what ISOGLOSS_BIN names, or one built from the
// repository, which remove removes again.
func build(ctx context.Context) (bin string, remove func(), err error) {
	if bin := os.Getenv("ISOGLOSS_BIN"); bin != "" {
		bin, err := filepath.Abs(bin)
		return bin, func() {}, err
	}
	dir, err := os.MkdirTemp("", "isogloss-e2e-")
	if err != nil {
		return "", nil, err
	}
	bin = filepath.Join(dir, "isogloss")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, "./cmd/isogloss") //nolint:gosec // the path is our own
	cmd.Dir, cmd.Stderr = "..", os.Stderr
	return bin, func() { _ = os.RemoveAll(dir) }, cmd.Run()
}

// count is of tests that have no subtests: those are what a reader would count.
type count struct{ passed, failed int }

// event is a line of go test -json.
type event struct{ Action, Test, Output, Package string }

// test runs one part and shows what it prints, but for the lines that say that a test
// has passed.
func test(ctx context.Context, part string, o options, bin string, out io.Writer) (count, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-timeout=45m", "-vet=off", "-short="+strconv.FormatBool(o.short), "-run="+o.pattern, "./"+part) //nolint:gosec // the part is one of ours
	if o.update && slices.Contains(writers, part) {
		cmd.Args = append(cmd.Args, "-update")
	}
	cmd.Env = append(os.Environ(), "ISOGLOSS_BIN="+bin)
	cmd.Stderr = os.Stderr
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return count{}, err
	}
	if err := cmd.Start(); err != nil {
		return count{}, err
	}
	c, err := read(lines, out)
	if err != nil {
		return c, err
	}
	if err := cmd.Wait(); err != nil && c.failed == 0 {
		c.failed++ // a part that did not build or died has said why
	}
	return c, nil
}

// read counts the tests and passes their words on. A test that was skipped has failed:
// a part that is missing is no success.
func read(lines io.Reader, out io.Writer) (count, error) {
	ended := map[string]string{} // by the test
	scan := bufio.NewScanner(lines)
	scan.Buffer(nil, 1<<24)
	for scan.Scan() {
		var e event
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil {
			_, _ = fmt.Fprintln(out, scan.Text())
			continue
		}
		switch e.Action {
		case "output", "build-output":
			if !routine(e.Output) {
				_, _ = io.WriteString(out, e.Output)
			}
		case "pass", "fail", "skip":
			if e.Test != "" {
				ended[e.Test] = e.Action
			}
		}
	}
	return tally(ended), scan.Err()
}

// routine is a line that go test prints for every test.
func routine(line string) bool {
	line = strings.TrimSpace(line)
	for _, p := range []string{"=== RUN", "=== NAME", "=== PAUSE", "=== CONT", "--- PASS", "PASS", "ok "} {
		if strings.HasPrefix(line, p) {
			return true
		}
	}
	return false
}

func tally(ended map[string]string) count {
	parents, failing := map[string]bool{}, map[string]bool{}
	for name, how := range ended {
		for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
			parents[name[:i]] = true
			failing[name[:i]] = failing[name[:i]] || how != "pass"
		}
	}
	var c count
	for name, how := range ended {
		switch {
		case how == "pass" && !parents[name]:
			c.passed++
		case how != "pass" && !failing[name]: // its own fault, not a subtest's
			c.failed++
		}
	}
	return c
}

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"time"
)

const (
	listPath = "docs/claims.yaml"
	pagePath = "docs/promises.md"

	readmePath = "README.md"
)

func main() {
	only := flag.String("only", "", "a regular expression: only claims and mutations whose `name` matches, as claim/mutation")
	write := flag.Bool("write", false, "write "+pagePath+" and the table of "+readmePath+" from "+listPath+", and play nothing")
	timeout := flag.Duration("timeout", 10*time.Minute, "the longest time of one command, compilation included")
	mutants := flag.Int("mutants", 0, "draw about this many mutants and play them instead of the claims; -only selects by file:line kind: text")
	seed := flag.Uint64("seed", 1, "of the draw")
	jobs := flag.Int("jobs", 2, "how many mutants are played at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	if *mutants > 0 {
		err = runMutants(ctx, os.Stdout, *only, *mutants, *seed, *jobs, *timeout)
	} else {
		err = run(ctx, os.Stdout, *only, *write, *jobs, *timeout)
	}
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, only string, write bool, jobs int, timeout time.Duration) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	claims, err := readClaims(listPath)
	if err != nil {
		return err
	}
	if write {
		return writePages(claims)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	src, err := readSource(root)
	if err != nil {
		return err
	}
	return playAll(ctx, out, &player{root: root, source: src, timeout: timeout, jobs: jobs}, claims, pattern)
}

// writePages writes docs/promises.md and the table of README.md.
func writePages(claims []claim) error {
	if err := os.WriteFile(pagePath, []byte(page(claims)), 0o644); err != nil { //nolint:gosec // a page of the documentation
		return err
	}
	text, err := os.ReadFile(readmePath)
	if err != nil {
		return err
	}
	if text, err = withPromises(text, claims); err != nil {
		return err
	}
	return os.WriteFile(readmePath, text, 0o644) //nolint:gosec // a page of the documentation
}

func runMutants(ctx context.Context, out io.Writer, only string, n int, seed uint64, jobs int, timeout time.Duration) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	src, err := readSource(root)
	if err != nil {
		return err
	}
	p := &player{root: root, source: src, timeout: timeout}
	d, err := newDraw(p, testedAreas, n, seed, pattern)
	if err != nil {
		return err
	}
	return playMutants(ctx, out, p, d, jobs)
}

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
)

func main() {
	only := flag.String("only", "", "a regular expression: only claims and mutations whose `name` matches, as claim/mutation")
	write := flag.Bool("write", false, "write "+pagePath+" from "+listPath+" and play nothing")
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
		err = run(ctx, os.Stdout, *only, *write, *timeout)
	}
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, only string, write bool, timeout time.Duration) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	claims, err := readClaims(listPath)
	if err != nil {
		return err
	}
	if write {
		return os.WriteFile(pagePath, []byte(page(claims)), 0o644) //nolint:gosec // a page of the documentation
	}
	src, err := readSource(".")
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	return playAll(ctx, out, &player{root: root, source: src, timeout: timeout}, claims, pattern)
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

// playAll plays the mutations whose names match and prints a line for each.
func playAll(ctx context.Context, out io.Writer, p *player, claims []claim, pattern *regexp.Regexp) error {
	began, counts := time.Now(), map[outcome]int{}
	for _, c := range claims {
		for _, m := range c.Mutants {
			if !pattern.MatchString(c.Name + "/" + m.Name) {
				continue
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r := p.play(ctx, c.Name, m)
			counts[r.outcome]++
			_, _ = fmt.Fprintf(out, "%-8v %4.0f s  %s: %s\n", r.outcome, r.took.Seconds(), c.Name, m.Name)
			if r.outcome != caught {
				_, _ = fmt.Fprintf(out, "         %s\n%s\n         repeat: go run ./claims -only '^%s$'\n", m.Test, r.detail, regexp.QuoteMeta(c.Name+"/"+m.Name))
			}
		}
	}
	_, _ = fmt.Fprintf(out, "%d passed, %d failed\n", counts[caught], counts[survived]+counts[broken])
	_, _ = fmt.Fprintf(out, "played in %.0f s\n", time.Since(began).Seconds())
	if counts[survived]+counts[broken] > 0 || counts[caught] == 0 {
		return fmt.Errorf("%d mutations survived and %d do not apply or compile", counts[survived], counts[broken])
	}
	return nil
}

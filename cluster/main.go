package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/testrig"
)

// options are the command line's settings.
type options struct {
	bin     string
	short   bool
	only    []string
	seeds   []uint64 // of the scenario histories
	keep    string
	streams time.Duration // of the scenario rollout
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin/isogloss", "the gateway's binary")
	only := flag.String("only", "", "run only these scenarios, for example r1,r3")
	flag.BoolVar(&o.short, "short", false, "run what fits into four minutes")
	pages := flag.String("write", "", "write the results into cluster.md and failures.md of this folder, between their marks; scenarios that do not run keep theirs")
	flag.StringVar(&o.keep, "keep", "", "leave the logs and files of every scenario in this folder")
	flag.DurationVar(&o.streams, "streams", 10*time.Second, "how long a stream of the scenario rollout lasts")
	flag.Parse()
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	r := testrig.NewReport(os.Stdout)
	r.Main("cluster", new(string), func(ctx context.Context) error {
		if err := o.resolve(); err != nil {
			return err
		}
		if err := runAll(ctx, o, r); err != nil || *pages == "" {
			return err
		}
		return writePages(*pages, r)
	}, nil)
}

// resolve rejects unknown scenarios and makes the paths absolute.
func (o *options) resolve() error {
	for i, name := range o.only {
		if seed, found := strings.CutPrefix(name, "histories/"); found {
			n, err := strconv.ParseUint(seed, 10, 64)
			if err != nil {
				return fmt.Errorf("--only: the seed in %q is not a number", name)
			}
			name = "histories"
			o.only[i], o.seeds = name, append(o.seeds, n)
		}
		if !slices.ContainsFunc(scenarios(), func(s scenario) bool { return s.name == name }) {
			return fmt.Errorf("--only: there is no scenario %q", name)
		}
	}
	var err error
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return err
	}
	if o.keep != "" {
		o.keep, err = filepath.Abs(o.keep)
	}
	return err
}

func (o *options) wants(name string) bool { return len(o.only) == 0 || slices.Contains(o.only, name) }

// runAll runs the scenarios one after the other, because they measure time. Those that
// mostly wait run beside the others.
func runAll(ctx context.Context, o options, r *testrig.Report) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	for _, s := range scenarios() {
		if !o.wants(s.name) || o.short && s.whole && len(o.only) == 0 || ctx.Err() != nil {
			continue
		}
		do := func() {
			r.Progress("%s: %s", s.name, s.does)
			began := time.Now()
			if err := runOne(ctx, o, r, s); err != nil {
				r.Fail(s.name, err.Error(), time.Since(began))
			}
		}
		if s.beside {
			beside.Go(do)
		} else {
			do()
		}
	}
	beside.Wait()
	return ctx.Err()
}

// runOne runs a scenario in a folder that is removed afterwards.
func runOne(ctx context.Context, o options, r *testrig.Report, s scenario) error {
	dir, err := os.MkdirTemp("", "isogloss-cluster-")
	if err != nil {
		return err
	}
	defer func() {
		if o.keep != "" {
			_ = os.Rename(dir, filepath.Join(o.keep, s.name+time.Now().Format("-150405"))) // for inspection only
		}
		_ = os.RemoveAll(dir) // a temporary folder
	}()
	timeout := s.full
	if o.short {
		timeout = s.short
	}
	ctx, cancel := context.WithTimeout(ctx, timeout+5*o.streams)
	defer cancel()
	c, err := newCluster(ctx, o.bin, dir)
	if err != nil {
		return err
	}
	defer c.close()
	return testrig.Run(func() { s.run(ctx, &stage{short: o.short, streams: o.streams, seeds: o.seeds, Report: r, cluster: c}) })
}

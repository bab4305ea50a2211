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

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// options are the command line's settings.
type options struct {
	bin      string
	short    bool
	parallel int
	only     []string
	seeds    []uint64 // of the scenario histories
	keep     string
	streams  time.Duration // of the scenario rollout; 0: 10 s, or less with short
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin/isogloss", "the gateway's binary")
	only := flag.String("only", "", "run only these scenarios, for example r1,r3; the name of a check, such as r3/back, means its scenario")
	flag.BoolVar(&o.short, "short", false, "run a selection, which other load does not fail; without it, times are also compared with their goals, and a missed goal is recorded with the load of the machine")
	flag.IntVar(&o.parallel, "parallel", 4, "with --short, run this many scenarios at a time")
	pages := flag.String("write", "", "write the results into cluster.md and failures.md of this folder, between their marks; scenarios that do not run keep theirs")
	flag.StringVar(&o.keep, "keep", "", "leave the logs and files of every scenario in this folder")
	flag.DurationVar(&o.streams, "streams", 0, "how long a stream of the scenario rollout lasts; 10s by default, and 4s with --short")
	flag.Parse()
	if *only != "" {
		o.only = scenarioNames(*only)
	}
	if o.streams == 0 {
		o.streams = map[bool]time.Duration{false: 10 * time.Second, true: 4 * time.Second}[o.short]
	}
	r := testrig.NewReport(os.Stdout)
	r.Goals, r.Again = !o.short, o.again
	r.Main("cluster", new(string), func(ctx context.Context) error {
		if err := o.resolve(); err != nil {
			return err
		}
		if err := runAll(ctx, o, r); err != nil || *pages == "" {
			return err
		}
		return writePages(*pages, r, testrig.NewOrigin(testrig.Repeat("cluster", os.Args[1:])), len(o.only) == 0)
	}, nil)
}

// scenarioNames returns the scenarios of a list of checks or scenarios.
func scenarioNames(list string) (names []string) {
	for name := range strings.SplitSeq(list, ",") {
		scenario, _, _ := strings.Cut(name, "/")
		if scenario == "histories" { // resolve reads its seed
			scenario = name
		}
		names = append(names, scenario)
	}
	return names
}

// again returns the command that repeats a check.
func (o *options) again(check string) string {
	mode := ""
	if o.short {
		mode = " --short"
	}
	return fmt.Sprintf("go run ./cluster --bin %s%s --only %s", o.bin, mode, check)
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

// runAll runs the scenarios: some at a time in the short form, and one at a time in the full
// one, because its figures are for a machine without other load. There, those that mostly
// wait run beside the others.
func runAll(ctx context.Context, o options, r *testrig.Report) error {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	var busy []scenario
	for _, s := range scenarios() {
		switch {
		case !o.wants(s.name) || o.short && s.whole && len(o.only) == 0:
		case s.beside:
			waiting.Go(func() { runScenario(ctx, o, r, s) })
		default:
			busy = append(busy, s)
		}
	}
	atOnce := 1
	if o.short {
		atOnce = o.parallel
	}
	testrig.Each(len(busy), atOnce, func(i int) { runScenario(ctx, o, r, busy[i]) })
	waiting.Wait()
	return ctx.Err()
}

// spoiled is how often a scenario runs if each time it fails while a node found Redis too
// slow, which nothing but the machine had slowed down.
const spoiled = 3

// runScenario runs a scenario and reports its checks.
func runScenario(ctx context.Context, o options, r *testrig.Report, s scenario) {
	for try := 1; ctx.Err() == nil; try++ {
		r.Progress("%s: %s", s.name, s.does)
		began, part := time.Now(), r.Part()
		outages, err := runOne(ctx, o, part, s)
		if err != nil {
			part.Fail(s.name, err.Error(), time.Since(began))
		}
		if _, failed := part.Count(""); failed == 0 || outages == 0 || s.losesRedis || try == spoiled {
			r.Add(part)
			r.Progress("%s took %.0f s", s.name, time.Since(began).Seconds())
			return
		}
		r.Progress("%s: again, because this machine was too slow for Redis %d times: %s", s.name, outages, failures(part))
	}
}

// failures names the failed checks of a part, with the beginning of what is wrong.
func failures(part *testrig.Report) string {
	var all []string
	for _, c := range part.Checks() {
		if !c.Passed && !c.Skipped {
			all = append(all, c.Name+": "+testrig.Clip(strings.ReplaceAll(c.Detail, "\n", "; "), 200))
		}
	}
	return strings.Join(all, " | ")
}

// runOne runs a scenario in a folder that is removed afterwards. It returns how often a node
// found Redis too slow.
func runOne(ctx context.Context, o options, r *testrig.Report, s scenario) (outages int, err error) {
	dir, err := os.MkdirTemp("", "isogloss-cluster-")
	if err != nil {
		return 0, err
	}
	defer func() {
		if o.keep != "" {
			_ = os.Rename(dir, filepath.Join(o.keep, s.name+time.Now().Format("-150405"))) // for inspection only
		}
		_ = os.RemoveAll(dir) // a temporary folder
	}()
	ctx, cancel := context.WithTimeout(ctx, s.most+5*o.streams)
	defer cancel()
	c, err := newCluster(ctx, o.bin, dir)
	if err != nil {
		return 0, err
	}
	defer c.close()
	stage := &stage{short: o.short, streams: o.streams, seeds: o.seeds, Report: r, cluster: c}
	err = testrig.Run(func() { s.run(ctx, stage) })
	return stage.outages(), err
}
